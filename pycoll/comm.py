"""The communicator: its place in the job, its life, and what it tells about itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from . import buffers
from ._lib import check, ffi, fill_text, lib, text
from .arguments import LARGEST_INT, integer, seconds
from .collectives import Collectives
from .introspection import Explanation, algorithms, operation_code
from .ops import OpLike, op_code
from .p2p import PointToPoint
from .request import sweep


class Communicator(Collectives, PointToPoint):
    """An ordered group of ranks, made by pycoll.init(), split() or dup().

    It is closed by close(), at the end of a ``with`` block, or when the last reference to it goes; none of these waits
    for other ranks.
    """

    __slots__ = ("_node",)

    def __init__(self, pointer: Any) -> None:
        super().__init__(pointer)
        self._node: Communicator | None = None

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
            made = self._make(None, lib.pycoll_comm_node)
            assert made is not None
            self._node = made
        return self._node

    # -- life -------------------------------------------------------------------------------------------------------

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None) -> Communicator | None:
        """Ranks of the same ``color`` (an int from 0) form a communicator, in the order of ``key``, then of rank.

        Collective. With ``color=None`` this rank is in none of them and gets None.
        """
        number = lib.COLL_UNDEFINED if color is None else integer(color, "color", 0)
        return self._make(timeout, lib.pycoll_comm_split, number, integer(key, "key", -LARGEST_INT))

    def dup(self, *, timeout: float | None = None) -> Communicator:
        """Another communicator of the same ranks, whose calls never mix with this one's. Collective."""
        made = self._make(timeout, lib.pycoll_comm_dup)
        assert made is not None
        return made

    def _make(self, timeout: float | None, function: Any, *arguments: int) -> Communicator | None:
        out = ffi.new("coll_comm_t **")
        with self._timeout(seconds(timeout)):
            try:
                self._finish(function(self._open(), *arguments, out))
            except BaseException as exception:
                self.interrupted(exception)
                raise
        return Communicator(ffi.gc(out[0], lib.coll_comm_free)) if out[0] else None

    @contextmanager
    def _timeout(self, limit: float) -> Iterator[None]:
        """Within it the communicator's own timeout is ``limit``."""
        pointer = self._open()
        if limit < 0:
            yield
            return
        before = lib.coll_comm_timeout(pointer)
        check(lib.coll_comm_set_timeout(pointer, limit))
        try:
            yield
        finally:
            lib.coll_comm_set_timeout(pointer, before)

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
            buffers.dtype_code(np.dtype(dtype), "dtype"),
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
