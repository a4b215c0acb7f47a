"""The curves: time over size, a panel for each operation and number of ranks, a line for each library and mode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .figures import OURS
from .report import Tables
from .settings import size_text
from .workers.operations import OPERATIONS, has_data

COLOURS = {"pycoll": "#c0392b", "mpich": "#2471a3", "openmpi": "#239b56", "impi": "#b9770e", "gloo": "#7d3c98"}
STYLES = {"ordinary": "-", "symmetric": "--", "persistent": ":"}
STYLE: Any = {"svg.hashsalt": "pycoll", "svg.fonttype": "none"}  # the same file from the same figures; text stays text


def draw(tables: Tables, paths: Sequence[Path]) -> None:
    """Draws into files whose suffixes say how, as .png and .svg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    operations = list(dict.fromkeys(row["operation"] for row in tables.summary))
    all_ranks = sorted({row["ranks"] for row in tables.summary})
    with matplotlib.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            len(operations),
            len(all_ranks),
            figsize=(4.6 * len(all_ranks), 3.2 * len(operations)),
            squeeze=False,
            layout="constrained",
        )
        for line, operation in zip(axes, operations, strict=True):
            for panel, ranks in zip(line, all_ranks, strict=True):
                rows = [row for row in tables.summary if (row["operation"], row["ranks"]) == (operation, ranks)]
                panel.set_title(f"{operation}, {ranks} ranks", fontsize=10)
                if has_data(OPERATIONS[operation]):
                    _curves(panel, rows)
                elif rows:
                    _bars(panel, rows)
        labelled: dict[str, Any] = {}
        for panel in axes.flat:
            handles, labels = panel.get_legend_handles_labels()
            labelled.update(zip(labels, handles, strict=True))
        if labelled:
            columns = 2 * len(all_ranks)
            figure.legend(
                list(labelled.values()), list(labelled), loc="outside lower center", ncols=columns, fontsize=8
            )
        for path in paths:
            figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _name(row: dict[str, Any]) -> str:
    return f"{row['library']}, {row['mode']}"


def _curves(panel: Any, rows: Sequence[dict[str, Any]]) -> None:
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["bytes"]):
        lines.setdefault((row["library"], row["mode"]), []).append(row)
    for (library, mode), points in lines.items():
        panel.plot(
            [row["bytes"] for row in points],
            [row["median"] for row in points],
            STYLES[mode],
            marker=".",
            color=COLOURS.get(library),
            linewidth=2 if library == OURS else 1.2,
            label=_name(points[0]),
        )
    bare = {row["bytes"]: row["bare"] for row in rows}
    panel.plot(sorted(bare), [bare[nbytes] for nbytes in sorted(bare)], color="#999999", linewidth=1, label="bare")
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: size_text(int(value)))
    panel.set_ylabel("us", fontsize=8)
    panel.tick_params(labelsize=8)
    panel.grid(alpha=0.3)


def _bars(panel: Any, rows: Sequence[dict[str, Any]]) -> None:
    names = [_name(row) for row in rows]
    panel.barh(names, [row["median"] for row in rows], color=[COLOURS.get(row["library"]) for row in rows])
    panel.axvline(rows[0]["bare"], color="#999999", linewidth=1)
    panel.set_xscale("log")
    panel.invert_yaxis()
    panel.set_xlabel("us", fontsize=8)
    panel.tick_params(labelsize=7)
