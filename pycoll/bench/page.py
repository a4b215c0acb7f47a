"""The page of results of the documentation, made from a run."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from . import report
from .plot import draw
from .report import Tables

METHOD = """
Measured with ``pycoll bench``. A sample is a barrier, then the operation, as often in a row as gives {sample:.0f}
us for the fastest library (at most {inner} times), timed on every rank; the maximum over the ranks counts. Before
that come a call whose result is checked, and a warm-up. The libraries take turns: a block of {block:.0f} ms each,
{rounds} rounds. Times are medians of all samples in microseconds a call, seen from Python, float64. The sum is the
reduction; the root is rank 0; the size is what each rank puts in.

A ratio is the median of the best peer, in whatever mode it is fastest, by ours: above 1 pycoll is faster.
*Ordinary* are numpy's arrays, *symmetric* those of ``pycoll.empty()``, *persistent* is ``p()`` on a handle over
ordinary arrays. *Bare* is one exchange of flags between the cores plus plain copies of the bytes that the operation
must move, by as many processes as there are CPUs. A broadcast or reduction whose first rank runs ahead of the
others can take less.
"""


def write(tables: Tables, path: Path) -> list[Path]:
    """`path`, an .rst, and the drawing beside it."""
    from .measure import MAX_INNER, SAMPLE_US

    results = tables.results
    picture = path.with_suffix(".svg")
    draw(tables, [picture])
    settings = results["settings"]
    method = METHOD.format(
        sample=SAMPLE_US, inner=MAX_INNER, block=settings["block_seconds"] * 1e3, rounds=settings["rounds"]
    )
    parts = [
        _title("Results", "="),
        *(textwrap.fill(part, 120) for part in method.strip().split("\n\n")),
        textwrap.fill(report.machine_text(results), 120),
        _table(["library", "version"], report.library_rows(results)),
    ]
    parts += [f".. image:: {picture.name}\n   :alt: Time over size, for each operation and number of ranks"]
    parts += [_title("The machine alone", "-"), _table(*report.bare_table(results))]
    if tables.means:
        parts += [_title("Ratios in short", "-"), _table(*report.mean_table(tables))]
    for ranks in sorted({row["ranks"] for row in tables.summary}):
        parts += [_title(f"{ranks} ranks", "-"), "Medians in microseconds:", _table(*report.time_table(tables, ranks))]
        if tables.ratios:
            parts += ["The best peer by ours:", _table(*report.ratio_table(tables, ranks))]
    if results.get("breakdown"):
        parts += [_title("The way through Python", "-"), _table(*report.breakdown_table(results["breakdown"]))]
    if results["problems"]:
        parts += [_title("What was not measured", "-")]
        parts += [textwrap.fill(f"- {problem.splitlines()[0]}", 120) for problem in results["problems"]]
    path.write_text("\n\n".join(parts) + "\n")
    return [path, picture]


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [".. csv-table::", f"   :header: {_words(header)}", ""]
    return "\n".join([*lines, *(f"   {_words(row)}" for row in rows)])


def _words(row: Sequence[str]) -> str:
    return ", ".join('"' + word.replace('"', '""') + '"' for word in row)
