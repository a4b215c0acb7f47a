"""The bare figures of the machine: flags between cores, plain copies, and what an operation would cost by these alone.

They are taken by processes of their own, pinned like ranks, before anything else is measured.
"""

from __future__ import annotations

import math
import mmap
import os
import platform
import select
import signal
import statistics
import struct
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._lib import ffi, lib
from .workers.operations import OPERATIONS, has_data

REPEAT = 9  # times that flags are measured; placement and neighbours change
FLAG_SECONDS = 0.01
COPY_SIZES = tuple(1 << power for power in range(10, 27, 2))  # 1 KiB to 64 MiB
LIMIT = 30.0  # seconds; a probe takes a fraction of one


def machine() -> dict[str, Any]:
    """Where and under what load the figures are taken."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def probe(ranks: int) -> dict[str, Any]:
    """Flags among so many processes, and the speed of copies by as many as there are CPUs for."""
    flags = _together(ranks, lambda rank, lines: _flags(rank, ranks, lines))
    copiers = min(ranks, len(os.sched_getaffinity(0)))
    copies = _together(copiers, lambda rank, lines: _copies(rank, copiers, lines))
    rounds = [max(values) / 1e3 for values in zip(*flags, strict=True)]
    slowest = [max(values) / 1e3 for values in zip(*copies, strict=True)]
    return {
        "ranks": ranks,
        "flags_us": statistics.median(rounds),
        "flags_min_us": min(rounds),
        "flags_max_us": max(rounds),
        "copiers": copiers,
        "copy_us": {str(size): us for size, us in zip(COPY_SIZES, slowest, strict=True)},
    }


def estimate(figures: dict[str, Any], operation: str, nbytes: int) -> float:
    """One exchange of flags, and plain copies of the bytes that the operation must move, shared by the CPUs."""
    ranks, row = figures["ranks"], OPERATIONS[operation]
    us: float = figures["flags_us"]
    each = row.copies(ranks) * nbytes / figures["copiers"] if has_data(row) else 0
    if each:
        sizes = [int(size) for size in figures["copy_us"]]
        near = min(sizes, key=lambda size: abs(math.log(size / each)))
        us += figures["copy_us"][str(near)] * each / near
    return us


# ---- in the processes that measure ----


def _flags(rank: int, ranks: int, lines: Any) -> list[float]:
    crowded = ranks > len(os.sched_getaffinity(0))
    _pin(rank)
    first = lib.pycoll_probe_flags(lines, rank, ranks, 10, crowded)
    # The same number on all: agreed upon through the slowest, over the memory that the flags are in.
    rounds = _agree(lines, rank, ranks, max(10, min(200_000, int(FLAG_SECONDS * 1e9 / max(first, 1)))), crowded)
    return [lib.pycoll_probe_flags(lines, rank, ranks, rounds, crowded) for _ in range(REPEAT)]


def _agree(lines: Any, rank: int, ranks: int, value: int, crowded: bool) -> int:
    """The least of the ranks' values. It is written beside the flag, and a round of flags makes it known."""
    cells = ffi.cast("int64_t *", lines)
    step = lib.PYCOLL_PROBE_LINE // 8
    cells[rank * step + 1] = value
    lib.pycoll_probe_flags(lines, rank, ranks, 1, crowded)
    return min(int(cells[other * step + 1]) for other in range(ranks))


def _copies(rank: int, copiers: int, lines: Any) -> list[float]:
    _pin(rank)
    source, target = np.ones(COPY_SIZES[-1], np.uint8), np.zeros(COPY_SIZES[-1], np.uint8)
    x, out = ffi.from_buffer(source), ffi.from_buffer(target)
    found = []
    for size in COPY_SIZES:
        rounds = max(1, (4 << 20) // size)
        lib.pycoll_probe_flags(lines, rank, copiers, 1, False)
        found.append(statistics.median(lib.pycoll_probe_copy(out, x, size, rounds) for _ in range(5)))
    return found


def _pin(rank: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[rank % len(cpus)]})


def _together(count: int, work: Callable[[int, Any], Sequence[float]]) -> list[list[float]]:
    """The results of `work(rank, lines)` in `count` processes, whose `lines` are shared and begin as zeros."""
    shared = mmap.mmap(-1, count * lib.PYCOLL_PROBE_LINE)
    lines = ffi.from_buffer(shared)
    children: list[tuple[int, int]] = []
    try:
        for rank in range(count):
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    values = work(rank, lines)
                    os.write(writer, struct.pack(f"{len(values)}d", *values))
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            os.close(writer)
            children.append((pid, reader))
        return [_result(pid, reader) for pid, reader in children]
    finally:
        for pid, reader in children:
            os.close(reader)
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
            os.waitpid(pid, 0)


def _result(pid: int, reader: int) -> list[float]:
    if not select.select([reader], [], [], LIMIT)[0]:
        raise TimeoutError(f"the probe of flags and copies has not ended after {LIMIT:g} s")
    data = os.read(reader, 1 << 16)
    if not data:
        raise RuntimeError("a process of the probe of flags and copies failed")
    return list(struct.unpack(f"{len(data) // 8}d", data))
