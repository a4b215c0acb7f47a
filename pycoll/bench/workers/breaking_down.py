"""The parts of an allreduce of 8 bytes between Python and the flag, each in a loop of its own, in turns.

What becomes of the figures is in pycoll.bench.breakdown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

import pycoll
from pycoll._lib import ffi, lib
from pycoll.buffers import DTYPE_CODES
from pycoll.ops import OP_CODES


def measure_parts(library: Any, rounds: int, inner: int) -> dict[str, list[float]]:
    """Nanoseconds of each part, round by round; all ranks take part."""
    comm = pycoll.world()
    x, out = np.ones(1), np.empty(1)
    persistent = comm.allreduce_init(x, out)
    chars = ffi.typeof("char[]")
    send, receive = ffi.from_buffer(chars, x), ffi.from_buffer(chars, out, True)
    codes = DTYPE_CODES[x.dtype], OP_CODES["sum"]

    def in_c(probe: Callable[..., float], *arguments: Any) -> float:
        ns = probe(*arguments, inner)
        if ns < 0:
            raise RuntimeError(f"status {ns:.0f}")
        return ns

    def take_buffers() -> None:
        for _ in repeat(None, inner):
            ffi.from_buffer(chars, x)
            ffi.from_buffer(chars, out, True)

    def look_up() -> None:
        for _ in repeat(None, inner):
            DTYPE_CODES[x.dtype]
            OP_CODES["sum"]

    parts: dict[str, Callable[[], float]] = {
        "empty": partial(empty, inner),
        "crossing": partial(loop, inner, lib.pycoll_status),
        "buffers": lambda: timed(take_buffers, inner),
        "codes": lambda: timed(look_up, inner),
        "c": partial(in_c, lib.pycoll_probe_allreduce, send, receive, 1, *codes, comm._pointer),
        "c persistent": partial(in_c, lib.pycoll_probe_run, persistent._request),
        "python": partial(loop, inner, partial(comm.allreduce, x, out)),
        "python persistent": partial(loop, inner, persistent),
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds):
        for name, part in parts.items():
            comm.barrier()
            times[name].append(part())
    return times


def timed(function: Callable[[], None], inner: int) -> float:
    start = time.perf_counter_ns()
    function()
    return (time.perf_counter_ns() - start) / inner


def empty(inner: int) -> float:
    """Nanoseconds a turn of a loop that does nothing."""

    def turns() -> None:
        for _ in repeat(None, inner):
            pass

    return timed(turns, inner)


def loop(inner: int, call: Callable[[], Any]) -> float:
    """Nanoseconds a turn of a loop that makes `call`."""

    def calls() -> None:
        for _ in repeat(None, inner):
            call()

    return timed(calls, inner)
