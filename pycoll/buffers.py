"""From Python objects to memory that libcoll may use: pointer, count, datatype - and back.

libcoll wants aligned, contiguous memory in C order. Where an object already is that, its own memory is used. Otherwise
an input is copied in, and an output goes through a temporary whose elements are then copied to the output's own
elements, and nowhere else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._lib import ffi, lib
from .arguments import type_error, value_error

BufferLike = Any  # numpy array, numpy scalar, anything with the buffer protocol, or a CPU tensor by DLPack

_NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()

# Byte-swapped dtypes are other keys, and so not in here.
DTYPE_CODES: dict[Any, int] = {np.dtype(name): getattr(lib, f"COLL_{name.upper()}") for name in _NAMES}

try:
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:
    BFLOAT16: Any = None
else:
    BFLOAT16 = np.dtype(_bfloat16)
    DTYPE_CODES[BFLOAT16] = lib.COLL_BFLOAT16

# numpy's long and long long are two dtypes of one kind; comparing codes rather than dtypes makes them one.
for _char in "lqLQ":
    DTYPE_CODES.setdefault(np.dtype(_char), DTYPE_CODES[np.dtype(f"{np.dtype(_char).kind}{np.dtype(_char).itemsize}")])

_CHARS = ffi.typeof("char[]")
_DLPACK_CPU = (1, 3, 11)  # kDLCPU, and memory of the host pinned for CUDA or ROCm
_PLAIN = 0x101  # of ndarray.flags.num: C-contiguous and aligned


def dtype_name(dtype: Any) -> str:
    return str(dtype) if dtype.isnative else f"{dtype.newbyteorder('=')} in the other byte order ({dtype.str})"


def as_dtype(dtype: Any) -> Any:
    """``dtype`` as numpy understands it."""
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError) as problem:
        raise type_error(f"dtype is {dtype!r}, which is none for numpy: {problem}") from None


def dtype_code(dtype: Any, name: str) -> int:
    """libcoll's number of a numpy dtype."""
    code = DTYPE_CODES.get(dtype)
    if code is None:
        allowed = ", ".join(dict.fromkeys(str(key) for key in DTYPE_CODES))
        hint = "" if BFLOAT16 is not None else "; bfloat16 needs the package ml_dtypes"
        raise type_error(f"{name} has dtype {dtype_name(dtype)}, allowed are {allowed}{hint}")
    return code


def _from_torch(x: Any, name: str) -> Any:
    """A torch tensor's memory. Its DLPack form is read-only for numpy, and numpy knows no bfloat16."""
    if x.device.type != "cpu" or x.layout != sys.modules["torch"].strided:
        raise type_error(f"{name} is a torch tensor ({x.layout}) on {x.device}, allowed are strided tensors on the CPU")
    x = x.detach()
    if x.dtype == sys.modules["torch"].bfloat16 and BFLOAT16 is not None:
        return x.view(sys.modules["torch"].int16).numpy().view(BFLOAT16)
    try:
        return x.numpy()
    except (TypeError, RuntimeError) as error:
        raise type_error(f"{name} is a torch tensor of dtype {x.dtype} that numpy cannot see: {error}") from error


def _from_dlpack(x: Any, name: str) -> np.ndarray:
    device = x.__dlpack_device__()
    if device[0] not in _DLPACK_CPU:
        raise type_error(f"{name} is in the memory of a device (DLPack type {device[0]}), allowed is memory of the CPU")
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise type_error(f"{name} ({type(x).__name__}) cannot be read through DLPack: {error}") from error


def as_array(x: BufferLike, name: str) -> np.ndarray:
    """``x`` as a numpy array over the same memory; never a copy, save for numpy's scalars."""
    if type(x) is np.ndarray:
        return x
    # What says to be GPU memory is believed at once: to look into it could only crash.
    if hasattr(x, "__cuda_array_interface__"):
        raise type_error(f"{name} ({type(x).__name__}) is GPU memory, allowed is memory of the CPU")
    if isinstance(x, np.ma.MaskedArray):
        raise type_error(f"{name} is a masked array, whose mask would be lost; pass its .data, or .filled()")
    array: np.ndarray
    if isinstance(x, (np.ndarray, np.generic)):
        array = np.asarray(x)
        return array
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        array = _from_torch(x, name)
        return array
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, name)
    try:
        view = memoryview(x)
    except TypeError:
        raise type_error(
            f"{name} is a {type(x).__name__}, allowed are numpy arrays and scalars, objects with the buffer protocol "
            "and CPU tensors; make a list or a number an array with numpy.asarray()"
        ) from None
    return np.asarray(view)


def pointer(array: np.ndarray, writable: bool = False) -> Any:
    """A cdata over the memory of a C-contiguous array; it holds the array's buffer as long as it lives."""
    try:
        return ffi.from_buffer(_CHARS, array, writable)
    except (BufferError, ValueError, TypeError):
        # numpy gives no buffer of some dtypes of ml_dtypes.
        return ffi.from_buffer(_CHARS, array.view(f"u{array.itemsize}"), writable)


class Memory:
    """One buffer of one call.

    ``array`` is C-contiguous and aligned. If it is not the caller's own memory, refresh() copies the caller's elements
    in, and deliver() copies them out.
    """

    __slots__ = ("address", "array", "code", "count", "given", "new")

    def __init__(self, given: np.ndarray, code: int, *, writable: bool) -> None:
        self.new = False  # not the caller's, and so apart from everything that is
        self.given: np.ndarray | None = None
        self.array = given
        if given.flags.num & _PLAIN != _PLAIN:
            self.given = given
            self.array = np.array(given, order="C")
        self.code = code
        self.count = given.size
        self.address = pointer(self.array, writable)

    @property
    def copied(self) -> bool:
        return self.given is not None

    def refresh(self) -> None:
        if self.given is not None:
            np.copyto(self.array, self.given)

    def deliver(self) -> None:
        if self.given is not None:
            np.copyto(self.given, self.array)


def source(x: BufferLike, name: str = "x") -> Memory:
    """An input."""
    array = as_array(x, name)
    return Memory(array, dtype_code(array.dtype, name), writable=False)


def target(out: BufferLike, name: str = "out") -> Memory:
    """An output of any size."""
    array = as_array(out, name)
    code = dtype_code(array.dtype, name)
    if not array.flags.writeable or isinstance(out, np.generic):
        raise value_error(f"{name} is read-only, it must be writable")
    return Memory(array, code, writable=True)


def result(out: BufferLike, like: Memory, shape: Sequence[int], dtype: Any, name: str = "out") -> tuple[Any, Memory]:
    """An output for elements like those of ``like``: ``out`` if given, otherwise a new array of ``shape``.

    Returns what the caller gets, and its memory.
    """
    if out is None:
        out = np.empty(shape, dtype)
        memory = Memory(out, like.code, writable=True)
        memory.new = True
        return out, memory
    memory = target(out, name)
    count = math.prod(shape)
    if memory.code != like.code:
        raise type_error(f"{name} has dtype {memory.array.dtype}, it must be {dtype} as x is")
    if memory.count != count:
        raise value_error(f"{name} has {memory.count} elements, it must have {count} {tuple(shape)}")
    return out, memory


def _span(memory: Memory) -> tuple[int, int]:
    """The first address, and the one behind the last."""
    first = int(ffi.cast("uintptr_t", memory.address))
    return first, first + memory.count * memory.array.itemsize


def _meet(x: Memory, out: Memory) -> bool:
    """Whether they share bytes. What is a copy or is new shares none."""
    if x.copied or out.copied or out.new:
        return False
    (x_first, x_end), (out_first, out_end) = _span(x), _span(out)
    return x_first < out_end and out_first < x_end


def check_overlap(x: Memory, out: Memory, place: int = 0) -> bool:
    """Whether ``x`` is exactly the part of ``out`` from element ``place`` on; an error if they overlap otherwise."""
    if not _meet(x, out):
        return False
    shift = _span(x)[0] - _span(out)[0] - place * x.array.itemsize
    if shift:
        raise value_error(
            f"out overlaps x, shifted by {shift} bytes; allowed are the same memory (in place) and memory apart"
        )
    return True


def check_apart(x: Memory, out: Memory) -> None:
    """An error if they share bytes."""
    if _meet(x, out):
        raise value_error("out overlaps x; allowed is memory apart")
