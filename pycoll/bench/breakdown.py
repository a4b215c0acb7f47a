"""Where the nanoseconds of an allreduce of 8 bytes go between Python and the flag.

Each part is measured in a loop of its own, the parts in turn, round after round; the median counts. The time of an
empty loop is subtracted where there is a loop in Python. What no part explains is the rest: the method call, the checks
of the arguments, and what the parts cost more together than alone.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from .figures import OURS
from .job import Job
from .libraries import LIBRARIES

RANKS = 2
ROUNDS, SECONDS = 51, 3.0  # enough rounds, or as many as there is time for
TASK = {"action": "measure_parts", "rounds": 3, "inner": 200}
IN_PYTHON = ("crossing", "buffers", "codes", "python", "python persistent")


def measure() -> list[dict[str, Any]]:
    """The rows as rank 0 sees them."""
    times: dict[str, list[float]] = defaultdict(list)
    job = Job(LIBRARIES[OURS], RANKS, Path())
    try:
        job.ask(60, [TASK] * RANKS)  # warms up
        end = time.monotonic() + SECONDS
        while len(times["empty"]) < ROUNDS and (not times["empty"] or time.monotonic() < end):
            for name, ns in job.ask(60, [TASK] * RANKS)[0].items():
                times[name] += ns
    finally:
        job.close()
    return rows({name: median(ns) for name, ns in times.items()})


def rows(parts: Mapping[str, float]) -> list[dict[str, Any]]:
    """{"call", "part", "ns"}, the last of each call being all of it."""
    ns = {name: value - parts["empty"] if name in IN_PYTHON else value for name, value in parts.items()}
    crossing = {"one crossing of the border by cffi": ns["crossing"]}
    ordinary = {"two ffi.from_buffer": ns["buffers"], "codes of dtype and op": ns["codes"], **crossing}
    return [
        *_rows("comm.allreduce(x, out)", ns["python"], {**ordinary, "coll_allreduce in C": ns["c"]}),
        *_rows("p(), persistent", ns["python persistent"], {**crossing, "coll_run in C": ns["c persistent"]}),
    ]


def _rows(call: str, whole: float, parts: dict[str, float]) -> list[dict[str, Any]]:
    listed = {**parts, "rest": whole - sum(parts.values()), "all of it": whole}
    return [{"call": call, "part": part, "ns": ns} for part, ns in listed.items()]
