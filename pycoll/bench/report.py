"""What a run leaves: files of raw samples and of their summary, and tables.

raw.json holds everything that a run found; the other files, and the page of results, can be made from it again.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import bare
from .figures import OURS, STATISTICS, means, ratios, summarize
from .libraries import LIBRARIES
from .measure import Results
from .settings import MODES, size_text, time_text

CELL = ("ranks", "operation", "bytes", "library", "mode")
MACHINE = "The machine: {cpu}, {cpus} CPUs, {system}, Python {python}; load {load} at the start, {time}."


class Tables:
    """The figures derived from the results."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.bare = {figures["ranks"]: figures for figures in results["bare"]}
        self.summary = summarize(results["blocks"])
        for row in self.summary:
            row["bare"] = self.bare_us(row["ranks"], row["operation"], row["bytes"])
        self.ratios = ratios(self.summary)
        self.means = means(self.ratios)

    def bare_us(self, ranks: int, operation: str, nbytes: int) -> float:
        return bare.estimate(self.bare[ranks], operation, nbytes)


# ---- files ----


def save(tables: Tables, folder: Path) -> list[Path]:
    """raw.json and raw.csv, summary.json and summary.csv, ratios.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    results = tables.results
    raw = folder / "raw.json"
    raw.write_text(json.dumps(results, indent=1) + "\n")
    samples = (
        [*(block[name] for name in CELL), block["round"], number, block["inner"], us]
        for block in results["blocks"]
        for number, us in enumerate(block["us"])
    )
    summary = folder / "summary.json"
    summary.write_text(
        json.dumps({"summary": tables.summary, "ratios": tables.ratios, "means": tables.means}, indent=1) + "\n"
    )
    return [
        raw,
        _write(folder / "raw.csv", [*CELL, "round", "sample", "inner", "us"], samples),
        summary,
        _write_dicts(folder / "summary.csv", [*CELL, "samples", *STATISTICS, "bare"], tables.summary),
        _write_dicts(
            folder / "ratios.csv",
            ["ranks", "operation", "bytes", "mode", "us", "best", "best_mode", "best_us", "ratio"],
            tables.ratios,
        ),
    ]


def load(folder: Path) -> Results:
    path = folder / "raw.json"
    try:
        results: Results = json.loads(path.read_text())
        Tables(results)  # or it is not what a run left
        return results
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{path} is not the raw.json of a run: {problem}") from None


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path


def _write_dicts(path: Path, header: Sequence[str], rows: Iterable[dict[str, Any]]) -> Path:
    return _write(path, header, ([row[name] for name in header] for row in rows))


# ---- tables, as lists of words that a terminal and a page show alike ----


def machine_text(results: Results) -> str:
    facts = results["machine"]
    return MACHINE.format(**{**facts, "load": " ".join(f"{value:.2f}" for value in facts["load"])})


def bare_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """The bare figures of each number of ranks."""
    sizes = (64 << 10, 1 << 20, 16 << 20)
    header = ["ranks", "flags, us", "least", "most", *(f"copy {size_text(size)}B, us" for size in sizes)]
    rows = []
    for figures in results["bare"]:
        flags = [time_text(figures[name]) for name in ("flags_us", "flags_min_us", "flags_max_us")]
        rows.append([str(figures["ranks"]), *flags, *(time_text(figures["copy_us"][str(size)]) for size in sizes)])
    return header, rows


def library_rows(results: Results) -> list[list[str]]:
    return [[name, results["libraries"][name]] for name in LIBRARIES if name in results["libraries"]]


def time_table(tables: Tables, ranks: int) -> tuple[list[str], list[list[str]]]:
    """A row for each cell: the bare figure, our times in each mode, and each peer's in the mode where it is fastest."""
    times: dict[tuple[str, int], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in tables.summary:
        if row["ranks"] == ranks:
            times[row["operation"], row["bytes"]][row["library"], row["mode"]] = row["median"]
    measured = {key for cell in times.values() for key in cell}
    modes = [mode for mode in MODES if (OURS, mode) in measured]
    peers = [name for name in LIBRARIES if name != OURS and any(library == name for library, _ in measured)]
    rows = []
    for (operation, nbytes), cell in times.items():
        bests = [min((us for key, us in cell.items() if key[0] == name), default=None) for name in peers]
        ours = [cell.get((OURS, mode)) for mode in modes]
        bare_us = tables.bare_us(ranks, operation, nbytes)
        rows.append([operation, size_text(nbytes), *map(time_text, (bare_us, *ours, *bests))])
    return ["operation", "bytes", "bare", *modes, *peers], rows


def ratio_table(tables: Tables, ranks: int) -> tuple[list[str], list[list[str]]]:
    """A row for each cell that a peer has: the best of them, its time, and that by ours in each mode."""
    cells: dict[tuple[str, int], dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in tables.ratios:
        if row["ranks"] == ranks:
            cells[row["operation"], row["bytes"]][row["mode"]] = row
    modes = [mode for mode in MODES if any(mode in cell for cell in cells.values())]
    rows = []
    for (operation, nbytes), cell in cells.items():
        first = next(iter(cell.values()))
        best = f"{first['best']}, {first['best_mode']}"
        found = (f"{cell[mode]['ratio']:.2f}" if mode in cell else "-" for mode in modes)
        rows.append([operation, size_text(nbytes), best, time_text(first["best_us"]), *found])
    return ["operation", "bytes", "best peer", "its time", *modes], rows


def mean_table(tables: Tables) -> tuple[list[str], list[list[str]]]:
    header = ["ranks", "mode", "cells", "geometric mean", "worst", "worst cell"]
    rows = [
        [
            str(row["ranks"]),
            row["mode"],
            str(row["cells"]),
            f"{row['geometric_mean']:.2f}",
            f"{row['worst']:.2f}",
            f"{row['worst_operation']} {size_text(row['worst_bytes'])}, {row['worst_ranks']} ranks".replace(" -,", ","),
        ]
        for row in tables.means
    ]
    return header, rows


def breakdown_table(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    return ["call", "part", "ns"], [[row["call"], row["part"], f"{row['ns']:.0f}"] for row in rows]
