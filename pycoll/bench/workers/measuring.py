"""How a cell is measured, the same for every library, and how the driver is answered.

A sample is: the library's barrier, then `inner` calls in a row, timed on each rank; the driver takes the maximum over
the ranks. Before that the result of one call is checked, so that nothing is timed that does not work.

Every rank has a connection of its own to the driver and sleeps in it between tasks: a library that waits for the next
task by its own means would take the processor from the one that is measured.
"""

from __future__ import annotations

import gc
import json
import socket
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from operations import ITEMSIZE, OPERATIONS, Operation, has_data


class NotOffered(Exception):
    """The library has no such operation in this mode."""


class Library(Protocol):
    """What a worker says of its library."""

    rank: int
    size: int
    version: str

    def barrier(self) -> Any: ...

    def array(self, count: int, mode: str) -> np.ndarray:
        """Uninitialised float64 in the memory that the mode is about."""

    def prepare(self, operation: str, mode: str, x: np.ndarray, out: np.ndarray) -> tuple[Callable[[], Any], Any]:
        """A call without arguments, and the array of its result; or NotOffered."""


def serve(library: Library, path: str, **actions: Callable[..., Any]) -> None:
    """Does what the driver at the socket `path` asks for, until it is gone; `actions` are those beside measuring."""
    actions["measure"] = measure
    gc.disable()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rw") as stream:
            tell(stream, {"rank": library.rank, "size": library.size, "version": library.version})
            for line in stream:
                task = json.loads(line)
                try:
                    tell(stream, {"answer": actions[task.pop("action")](library, **task)})
                except NotOffered as reason:
                    tell(stream, {"not_offered": str(reason)})
                except Exception as problem:
                    tell(stream, {"error": f"{type(problem).__name__}: {problem}"})
                gc.collect()


def tell(stream: Any, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def measure(
    library: Library,
    operation: str,
    mode: str,
    nbytes: int,
    warmup: int,
    inner: int,
    samples: int,
    late: float = 0,
) -> list[float]:
    """Microseconds a call, a list of `samples`. `late`: seconds that this rank comes late to every call."""
    row = OPERATIONS[operation]
    count = nbytes // ITEMSIZE
    blocks = 0 if row.in_place else len(row.result(library.size))
    x, out = library.array(count, mode), library.array(count * blocks, mode)
    x.fill(library.rank + 1)
    out.fill(-1)
    call, result = library.prepare(operation, mode, x, out)
    library.barrier()
    call()
    check(row, library, result)
    if late:
        call = delayed(call, late)
    for _ in repeat(None, warmup):
        call()
    return [sample(library.barrier, call, inner) for _ in range(samples)]


def sample(barrier: Callable[[], Any], call: Callable[[], Any], inner: int) -> float:
    times = repeat(None, inner)
    barrier()
    start = time.perf_counter_ns()
    for _ in times:
        call()
    return (time.perf_counter_ns() - start) / inner / 1e3


def delayed(call: Callable[[], Any], seconds: float) -> Callable[[], Any]:
    def late_call() -> Any:
        time.sleep(seconds)
        return call()

    return late_call


def check(row: Operation, library: Library, result: np.ndarray) -> None:
    if not has_data(row) or (row.on_root and library.rank != 0):
        return
    wanted = np.array(row.result(library.size), float)
    got = np.reshape(result, (len(wanted), -1))
    if got.shape[1] and not (got == wanted[:, None]).all():
        raise AssertionError(f"{row.name} gave {got[:, 0].tolist()} ..., not {wanted.tolist()}")
