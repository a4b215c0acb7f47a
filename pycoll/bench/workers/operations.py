"""What is measured: one row an operation. A new one is a row here and a row in each worker that offers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

ITEMSIZE = 8  # float64


class Operation(NamedTuple):
    """Its functions take the number of ranks. A block is what the bench calls the size: each rank's own data."""

    name: str
    #: Blocks that come out, by their value, if rank r puts r + 1 in; empty for an operation without data.
    result: Callable[[int], list[int]]
    #: Whether the result is in the input's memory, and whether it is on the root alone.
    in_place: bool = False
    on_root: bool = False
    #: Blocks that must be written at least, on all ranks together; a block read from memory counts as half.
    copies: Callable[[int], float] = lambda size: 0


def _total(size: int) -> int:
    return size * (size + 1) // 2


OPERATIONS = {
    row.name: row
    for row in (
        Operation("barrier", lambda size: []),
        Operation("broadcast", lambda size: [1], in_place=True, copies=lambda size: size - 1),
        Operation("reduce", lambda size: [_total(size)], on_root=True, copies=lambda size: (size + 1) / 2),
        Operation("allreduce", lambda size: [_total(size)], copies=lambda size: size),
        Operation("allgather", lambda size: list(range(1, size + 1)), copies=lambda size: size * size),
    )
}


def has_data(operation: Operation) -> bool:
    return bool(operation.result(1))
