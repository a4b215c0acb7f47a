"""Measures every cell by every library in turn: a block of each, then the next round.

So whatever the machine does meanwhile hits all alike. The jobs of all libraries stand by during a number of ranks, in
sleep but for the one that measures. Within a cell a sample has the same number of calls for all, so many that the
fastest library takes SAMPLE_US; but slow ones make no sample longer than LONG_US.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from . import bare
from .figures import OURS
from .job import Job, JobError
from .libraries import HOW_TO_INSTALL, LIBRARIES, Library
from .settings import Cell, Settings, size_text
from .workers.operations import OPERATIONS

SAMPLE_US, LONG_US = 100.0, 5_000.0
MAX_INNER, MAX_SAMPLES, MAX_WARMUP = 1000, 200, 1000
TRIALS = ((1, 1, 50_000), (1, 5, SAMPLE_US), (20, 5, 0))  # calls, samples, and the time beyond which they will do
PATIENCE = 60.0  # seconds for a block beyond what it should take
MEMORY, MEMORY_SHARE = 2 << 30, 0.5  # bytes in the arrays of one cell, and part of what is free

INTERRUPTED = "interrupted: the rest"

Results = dict[str, Any]


class Entry(NamedTuple):
    """What takes its turn in a cell."""

    library: Library
    mode: str


class Plan(NamedTuple):
    """How a block of an entry is measured."""

    inner: int
    samples: int
    warmup: int
    seconds: float


class Progress:
    """How far it is; the command line shows it."""

    def start(self, turns: int) -> None: ...

    def say(self, what: str) -> None: ...

    def turn(self, what: str) -> None: ...

    def note(self, text: str) -> None: ...


def run(settings: Settings, progress: Progress, figures: dict[str, Any]) -> Results:
    """Measures; `figures` are those of figures_of_machine(). Interrupted, it gives what there is."""
    results: Results = {
        **figures,
        "settings": {
            "rounds": settings.rounds,
            "block_seconds": settings.block,
            "late": list(settings.late) if settings.late else None,
        },
        "libraries": {},
        "problems": [],
        "blocks": [],
    }
    libraries = [LIBRARIES[name] for name in (OURS, *settings.peers)]
    for library in LIBRARIES.values():
        state = "installed" if library.is_installed(settings.peers_dir) else HOW_TO_INSTALL
        results["libraries"][library.name] = state if library in libraries else "not asked for"
    present = [library for library in libraries if results["libraries"][library.name] == "installed"]
    progress.start(sum(len(list(settings.cells(ranks))) for ranks in settings.ranks) * (settings.rounds + 1))
    try:
        for ranks in settings.ranks:
            _Section(settings, progress, results, ranks).run(present)
    except KeyboardInterrupt:
        results["problems"].append(INTERRUPTED)
    return results


def figures_of_machine(settings: Settings) -> dict[str, Any]:
    """The load and the bare figures, taken before anything else runs."""
    return {"machine": bare.machine(), "bare": [bare.probe(ranks) for ranks in settings.ranks]}


class _Section:
    """All cells of one number of ranks."""

    def __init__(self, settings: Settings, progress: Progress, results: Results, ranks: int) -> None:
        self._settings = settings
        self._progress = progress
        self._results = results
        self._ranks = ranks
        self._jobs: dict[str, Job] = {}  # those that run, by the library's name

    def run(self, libraries: list[Library]) -> None:
        try:
            for library in libraries:
                self._start(library)
            for cell in self._settings.cells(self._ranks):
                if self._fits(cell):
                    self._measure(cell)
        finally:
            # All at once: hung up on one by one, those that are last would have to wait for the first.
            for job in self._jobs.values():
                job.hang_up()
            for job in self._jobs.values():
                job.close()

    def _start(self, library: Library) -> None:
        self._progress.say(f"{self._ranks} ranks: starting {library.name}")
        try:
            job = Job(library, self._ranks, self._settings.peers_dir)
        except JobError as problem:
            self._note(str(problem))
        else:
            self._jobs[library.name] = job
            self._results["libraries"][library.name] = job.version

    def _measure(self, cell: Cell) -> None:
        libraries = [job.library for job in self._jobs.values()]
        pairs = [Entry(library, mode) for mode in self._settings.modes for library in libraries]
        entries = [entry for entry in pairs if entry.mode in entry.library.modes]
        self._progress.turn(self._what(cell, "trying"))
        times: dict[Entry, float] = {}
        for entry in entries:
            us = self._try(entry, cell)
            if us is not None:
                times[entry] = us
        if not times:
            return
        plans = {entry: plan(us, min(times.values()), self._settings.block) for entry, us in times.items()}
        for turn in range(self._settings.rounds):
            self._progress.turn(self._what(cell, f"round {turn + 1}"))
            order = list(plans)
            first = turn % max(len(order), 1)
            for entry in order[first:] + order[:first]:
                samples = self._block(entry, cell, plans[entry])
                if samples is None:
                    del plans[entry]
                else:
                    self._results["blocks"].append(
                        {
                            "ranks": cell.ranks,
                            "operation": cell.operation,
                            "bytes": cell.nbytes,
                            "library": entry.library.name,
                            "mode": entry.mode,
                            "round": turn,
                            "inner": plans[entry].inner,
                            "us": samples,
                        }
                    )

    def _try(self, entry: Entry, cell: Cell) -> float | None:
        """About how long a call takes, in microseconds; least disturbed, so the least of some. Slow calls are few."""
        found = math.inf
        for inner, samples, enough in TRIALS:
            us = self._block(entry, cell, Plan(inner, samples, 0, 0))
            if us is None:
                return None
            found = min(found, *us)
            if found > enough:
                break
        return found

    def _block(self, entry: Entry, cell: Cell, how: Plan) -> list[float] | None:
        """Samples: the maximum over the ranks of each. None if the library does not offer this, or fails in it."""
        task = {
            "action": "measure",
            "operation": cell.operation,
            "mode": entry.mode,
            "nbytes": cell.nbytes,
            "warmup": how.warmup,
            "inner": how.inner,
            "samples": how.samples,
        }
        tasks = [dict(task) for _ in range(cell.ranks)]
        if self._settings.late:
            rank, seconds = self._settings.late
            tasks[rank]["late"] = seconds
        job = self._jobs.get(entry.library.name)
        if job is None:
            return None
        try:
            answers = job.ask(PATIENCE + 10 * how.seconds, tasks)
            return [max(each) for each in zip(*answers, strict=True)] or None
        except JobError as problem:
            # The other cells shall not be without a library that fails in this one.
            self._note(f"{entry.library.name}, {self._what(cell, entry.mode)}: {problem}")
            del self._jobs[entry.library.name]
            job.close(kill=True)
            self._start(entry.library)
            return None

    def _note(self, text: str) -> None:
        self._results["problems"].append(text)
        self._progress.note(text)

    def _fits(self, cell: Cell) -> bool:
        blocks = 1 + len(OPERATIONS[cell.operation].result(cell.ranks))
        needed, allowed = blocks * cell.ranks * cell.nbytes, min(MEMORY, int(MEMORY_SHARE * _free_memory()))
        if needed <= allowed:
            return True
        self._note(
            self._what(cell, f"left out: its arrays need {size_text(needed)}B, and {size_text(allowed)}B are allowed")
        )
        return False

    def _what(self, cell: Cell, doing: str) -> str:
        size = f" {size_text(cell.nbytes)}B" if cell.nbytes else ""
        return f"{cell.ranks} ranks, {cell.operation}{size}, {doing}"


def plan(us: float, fastest: float, block: float) -> Plan:
    """For an entry that takes `us` a call in a cell whose fastest takes `fastest`."""
    us = max(us, 0.01)
    shared = min(math.ceil(SAMPLE_US / max(fastest, 0.01)), MAX_INNER)
    inner = min(shared, max(1, math.floor(LONG_US / us)))
    budget = block * 1e6
    samples = min(max(int(budget / (us * inner)), 1), MAX_SAMPLES)
    # The call that is checked warms up too.
    warmup = min(int(0.2 * budget / us), MAX_WARMUP)
    return Plan(inner, samples, warmup, us * (warmup + inner * samples) / 1e6)


def _free_memory() -> int:
    with open("/proc/meminfo") as info:
        for line in info:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise RuntimeError("/proc/meminfo has no MemAvailable")
