"""Arrays in memory that the node's peers reach in place."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._lib import check, ffi, lib
from .arguments import type_error, value_error
from .buffers import as_dtype
from .errors import OutOfMemoryError

ShapeLike = int | Sequence[int]
_MOST_BYTES = 2**63 - 1


def _sizes(shape: ShapeLike) -> tuple[int, ...]:
    """``shape`` as a tuple, checked."""
    given: Any = shape
    sizes: tuple[int, ...]
    try:
        sizes = (operator.index(given),)
    except TypeError:
        try:
            sizes = tuple(operator.index(size) for size in given)
        except TypeError:
            raise type_error(f"shape is {shape!r}, it must be an int or a sequence of ints") from None
    if any(size < 0 for size in sizes):
        raise value_error(f"shape is {shape!r}, allowed are sizes from 0 up")
    return sizes


def empty(shape: ShapeLike, dtype: Any = float) -> np.ndarray:
    """An uninitialised array like numpy.empty's, in memory that peers on the node reach without a copy.

    Local: it works before init() too, and nobody has to take part. The memory is given back with the last view of it.
    """
    kind = as_dtype(dtype)
    if kind.hasobject:
        raise type_error(f"dtype is {kind}: objects cannot be shared")
    shape = _sizes(shape)
    nbytes = kind.itemsize * math.prod(shape)
    if nbytes > _MOST_BYTES:
        raise OutOfMemoryError(f"shape {shape} of {kind} takes {nbytes} bytes", code=lib.COLL_ERR_MEMORY)
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
