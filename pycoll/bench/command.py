"""The command `pycoll bench`: from its options to tables on the terminal and files."""

from __future__ import annotations

import dataclasses
import importlib.util
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from . import breakdown, page, plot, report, settings
from .figures import OURS
from .measure import INTERRUPTED, Progress, Results, figures_of_machine, run
from .workers.operations import OPERATIONS

TELL = 20.0  # seconds between lines about the progress
WIDE = 160  # columns, for a file or a pipe


def make_settings(
    *,
    quick: bool = False,
    ops: str | None = None,
    sizes: str | None = None,
    ranks: str | None = None,
    modes: str | None = None,
    peers: str | None = None,
    peers_dir: str | None = None,
    rounds: int | None = None,
    block_ms: float | None = None,
    late: str | None = None,
) -> settings.Settings:
    """Of the texts of the options; a ValueError names the option that is wrong and what is allowed."""
    given: dict[str, Any] = dict(settings.QUICK) if quick else {}
    if ops is not None:
        given["operations"] = settings.words(ops, tuple(OPERATIONS), "--ops")
    if sizes is not None:
        given["sizes"] = settings.sizes(sizes)
    if ranks is not None:
        given["ranks"] = settings.ranks(ranks)
    if modes is not None:
        given["modes"] = settings.words(modes, settings.MODES, "--modes")
    if peers is not None:
        given["peers"] = settings.words(peers, settings.Settings.peers, "--peers")
    if peers_dir is not None:
        given["peers_dir"] = Path(peers_dir)
    if rounds is not None:
        given["rounds"] = rounds
    if block_ms is not None:
        given["block"] = block_ms / 1e3
    if late is not None:
        given["late"] = settings.late(late)
    made = dataclasses.replace(settings.Settings(), **given)
    if made.late and made.late[0] >= min(made.ranks):
        raise ValueError(f"--late: there is no rank {made.late[0]} among {min(made.ranks)} ranks")
    return made


def bench(choices: settings.Settings, output: Path, rst: Path | None) -> int:
    """Measures, shows and writes; the exit code, 1 if something of ours failed."""
    console = _console()
    if not _can_draw():
        if rst:
            raise ValueError("--rst needs matplotlib: pip install 'pycoll[bench]'")
        console.print("There will be no plot: matplotlib is not installed (pip install 'pycoll[bench]')")
    output.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _interrupt)  # whoever ends a run gets its figures and leaves nobody behind
    figures = figures_of_machine(choices)
    console.print(report.machine_text(figures), soft_wrap=True)
    _show(console, "Flags between cores, and copies: the least that anything can take", *report.bare_table(figures))
    figures["breakdown"] = breakdown.measure()
    show_breakdown(figures["breakdown"])
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Bar(*columns, console=Console(stderr=True)) as bar:
        results = run(choices, _Shown(bar), figures)
    show(results)
    finish(results, output, rst)
    if INTERRUPTED in results["problems"]:
        return 128 + signal.SIGINT
    return 1 if any(problem.startswith(OURS) for problem in results["problems"]) else 0


def again(folder: Path, output: Path, rst: Path | None) -> int:
    """Shows and writes what an earlier run left in `folder`."""
    results = report.load(folder)
    show(results)
    finish(results, output, rst)
    return 0


def show_breakdown(rows: list[dict[str, Any]]) -> None:
    title = f"The way through Python: an allreduce of 8 bytes on {breakdown.RANKS} ranks"
    _show(_console(), title, *report.breakdown_table(rows))


def show(results: Results) -> None:
    """The tables on the terminal."""
    console = _console()
    tables = report.Tables(results)
    _show(console, "Libraries", ["library", "version"], report.library_rows(results))
    for ranks in sorted({row["ranks"] for row in tables.summary}):
        _show(console, f"{ranks} ranks: medians in us", *report.time_table(tables, ranks))
        if tables.ratios:
            _show(console, f"{ranks} ranks: time of the best peer by ours", *report.ratio_table(tables, ranks))
    if tables.means:
        _show(console, "Ratios in short", *report.mean_table(tables))
    for problem in results["problems"]:
        console.print(f"Not measured: {problem}", soft_wrap=True)


def finish(results: Results, output: Path, rst: Path | None) -> None:
    """The files. Where nothing was measured there is nothing to draw."""
    console = _console()
    tables = report.Tables(results)
    paths = report.save(tables, output)
    if _can_draw() and tables.summary:
        drawings = [output / "bench.png", output / "bench.svg"]
        plot.draw(tables, drawings)
        paths += drawings
    if rst and tables.summary:
        paths += page.write(tables, rst)
    for path in paths:
        console.print(str(path), soft_wrap=True)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


class _Shown(Progress):
    """By a bar; where there is no terminal, by a line every now and then."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None)
        self._told = time.monotonic()

    def start(self, turns: int) -> None:
        self._bar.update(self._task, total=turns)

    def say(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def turn(self, what: str) -> None:
        self._bar.update(self._task, description=what, advance=1)
        if not self._bar.console.is_terminal and time.monotonic() - self._told > TELL:
            self._told = time.monotonic()
            task = self._bar.tasks[0]
            self.note(f"{task.completed:.0f} of {task.total:.0f}: {what}")

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _console() -> Console:
    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=WIDE)


def _show(console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(header):
        is_text = any(row[index][:1].isalpha() for row in rows)
        table.add_column(name, justify="left" if is_text else "right", no_wrap=name != "version")
    for row in rows:
        table.add_row(*row)
    console.print(table)
