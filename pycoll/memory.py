"""Arrays in memory that the node's peers reach in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._lib import check, ffi, lib

ShapeLike = int | Sequence[int]


def empty(shape: ShapeLike, dtype: Any = float) -> np.ndarray:
    """An uninitialised array like numpy.empty's, in memory that peers on the node reach without a copy.

    Local: it works before init() too, and nobody has to take part. The memory is given back with the last view of it.
    """
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"dtype is {kind}: objects cannot be shared")
    # numpy checks the shape and says what is wrong with it; nothing is touched, so nothing is allocated.
    shape = np.broadcast_to(np.zeros((), np.uint8), shape).shape
    nbytes = kind.itemsize * int(np.prod(shape, dtype=object))
    if nbytes == 0:
        return np.empty(shape, kind)
    memory = ffi.new("void **")
    check(lib.coll_alloc(nbytes, memory))
    # The array keeps the buffer, the buffer keeps `owned`, and with that the memory goes.
    owned = ffi.gc(memory[0], lib.coll_free, nbytes)
    return np.ndarray(shape, kind, ffi.buffer(owned, nbytes))


def zeros(shape: ShapeLike, dtype: Any = float) -> np.ndarray:
    """empty(), filled with zeros."""
    return full(shape, 0, dtype)


def full(shape: ShapeLike, fill_value: Any, dtype: Any = None) -> np.ndarray:
    """empty(), filled with ``fill_value``, whose own dtype is the default."""
    array = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype)
    array.fill(fill_value)
    return array
