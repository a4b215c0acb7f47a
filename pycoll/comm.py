"""The communicator: its place in the job, its life, and what it tells about itself."""

from __future__ import annotations

import sys
import weakref
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from . import buffers
from ._lib import check, ffi, fill_text, lib, text
from .arguments import LARGEST_INT, integer, string
from .collectives import Collectives
from .errors import CollError
from .introspection import Explanation, algorithms, operation_code
from .ops import OpLike, op_code
from .p2p import PointToPoint
from .request import sweep

# Those that finalize() has to close.
_open: weakref.WeakSet[Communicator] = weakref.WeakSet()


class Communicator(Collectives, PointToPoint):
    """An ordered group of ranks, made by pycoll.init(), split() or dup().

    It is closed by close(), at the end of a ``with`` block, or when the last reference to it goes; none of these waits
    for other ranks.
    """

    __slots__ = ("_node",)

    def __init__(self, pointer: Any) -> None:
        # libcoll refuses to free the world, which ends by finalize() alone.
        super().__init__(ffi.gc(pointer, lib.coll_comm_free))
        self._node: Communicator | None = None
        _open.add(self)

    def __repr__(self) -> str:
        state = "" if self._pointer else ", closed"
        return f"<pycoll.{type(self).__name__} rank {self._rank} of {self._size}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a communicator belongs to its process and cannot be copied or pickled; dup() makes another")

    # -- place ------------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This process's number in the communicator, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    @property
    def local_rank(self) -> int:
        """This process's number among the communicator's ranks on this node."""
        return check(lib.coll_comm_local_rank(self._open()))

    @property
    def local_size(self) -> int:
        """How many of the communicator's ranks are on this node."""
        return check(lib.coll_comm_local_size(self._open()))

    @property
    def nodes(self) -> int:
        """How many nodes the communicator spans."""
        return check(lib.coll_comm_node_count(self._open()))

    @property
    def node(self) -> Communicator:
        """The communicator of the ranks on this node. Its first use is collective over the communicator."""
        if self._node is None:
            self._node = self._make(lib.coll_comm_node)
        return self._node

    # -- life -------------------------------------------------------------------------------------------------------

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> Communicator | None:
        """Ranks of the same ``color`` (an int from 0) form a communicator, in the order of ``key``, then of rank.

        Collective. With ``color=None`` this rank is in none of them and gets None.
        """
        self._open()
        try:
            number = lib.COLL_UNDEFINED if color is None else integer(color, "color", 0)
            mine = np.array([number, integer(key, "key", -LARGEST_INT)], np.int32)
        except CollError as problem:
            self._post("split", problem, "allgather")
            raise
        everyone = self.allgather(mine, timeout=timeout)
        made: Communicator | None = self._make(lib.coll_comm_split_local, ffi.from_buffer("int[]", everyone))
        return made

    def dup(self, *, timeout: float | None = None) -> Communicator:
        """Another communicator of the same ranks, whose calls never mix with this one's. Collective."""
        self.barrier(timeout=timeout)
        made: Communicator = self._make(lib.coll_comm_dup)
        return made

    def _make(self, function: Any, *arguments: Any) -> Any:
        out = ffi.new("coll_comm_t **")
        check(function(self._open(), *arguments, out))
        return Communicator(out[0]) if out[0] else None

    def close(self) -> None:
        """Ends the use of the communicator by this process; further calls raise CommClosedError. Not collective.

        Operations in flight are completed or cancelled. Closing the world communicator is pycoll.finalize().
        """
        pointer, self._pointer, self._node = self._pointer, ffi.NULL, None
        if pointer:
            ffi.release(pointer)
            sweep()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return not self._pointer

    def __enter__(self) -> Communicator:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def abort(self, message: str, code: int = 1) -> NoReturn:
        """Ends the job: every rank's present or next call fails with ``message``.

        This process leaves by SystemExit(code), so that ``pycoll run`` ends with ``code``.
        """
        message = string(message, "message")
        code = integer(code, "code", 1, 255)
        check(lib.coll_comm_abort(self._open(), message.encode(), code))
        print(f"pycoll: rank {self._rank} aborts the job: {message}", file=sys.stderr, flush=True)
        raise SystemExit(code)

    # -- introspection ----------------------------------------------------------------------------------------------

    def explain(self, operation: str, nbytes: int, dtype: Any = "float64", op: OpLike = "sum") -> Explanation:
        """What would run for a call of ``operation`` with ``nbytes`` bytes on each rank, and why. Local."""
        arguments = (
            operation_code(operation),
            integer(nbytes, "nbytes", 0, 2**62),
            buffers.dtype_code(buffers.as_dtype(dtype), "dtype"),
            op_code(op),
        )
        return Explanation(fill_text(lib.coll_explain, self._open(), *arguments))

    def stats(self) -> dict[str, float | dict[str, int]]:
        """This rank's counters for the communicator: messages, bytes, copies, parks, times in seconds, ...

        ``stats()["algorithms"]`` says how often each algorithm ran, by ``"operation:algorithm"``.
        """
        sweep()
        pointer = self._open()
        counters: dict[str, float | dict[str, int]] = {}
        info = ffi.new("coll_stat_info_t *")
        for index in range(lib.coll_stats_count()):
            check(lib.coll_stats_get(pointer, index, info))
            value = info.value
            counters[text(info.name)] = int(value) if value.is_integer() else value
        calls = ffi.new("uint64_t *")
        used: dict[str, int] = {}
        for index, row in enumerate(algorithms()):
            check(lib.coll_stats_algo(pointer, index, calls))
            if calls[0]:
                used[f"{row['operation']}:{row['name']}"] = calls[0]
        counters["algorithms"] = used
        return counters


def disown_all() -> None:
    """After finalize: libcoll has ended every communicator, and its memory may be another's by now."""
    for comm in list(_open):
        pointer, comm._pointer = comm._pointer, ffi.NULL
        if pointer:
            ffi.gc(pointer, None)
    _open.clear()
