"""The collectives of a communicator, each in three forms: blocking, nonblocking (``i``) and persistent (``_init``).

A blocking call of plain numpy arrays goes the short way: libcoll is called on the spot. Everything else - other
objects, copies, a timeout of the call's own, and whatever deserves an explanation - goes the careful way, which is the
nonblocking form and a wait.
"""

from __future__ import annotations

from typing import Any

from numpy import empty, empty_like, ndarray

from . import buffers
from ._handle import Handle
from ._lib import IN_PLACE, ffi, lib
from .buffers import DTYPE_CODES, BufferLike
from .ops import PLAIN_OP_CODES, OpLike, check_pairs, op_code
from .request import Call, PersistentRequest, Request

# Looked up once: every name counts in a call that takes less than a microsecond.
_from_buffer = ffi.from_buffer
_barrier = lib.pycoll_barrier
_broadcast = lib.pycoll_broadcast
_reduce = lib.pycoll_reduce
_allreduce = lib.pycoll_allreduce
_allgather = lib.pycoll_allgather
_CHARS = ffi.typeof("char[]")
# What taking the short way raises when the arguments are not plain; the careful way then copies or explains.
_NOT_PLAIN = (BufferError, KeyError, TypeError, ValueError)


def _barrier_call() -> Call:
    return Call("barrier", ())


class Collectives(Handle):
    """All ranks of the communicator call the same collective with matching arguments, in the same order.

    Shapes are those of ``x``; counts are elements. ``timeout`` is in seconds, None for the communicator's. Every
    collective raises CollTimeoutError, RankFailedError, MismatchError, PeerError or CommClosedError as the case may
    be; DatatypeError (a TypeError) and ArgumentError (a ValueError) for its arguments. An error in the arguments of
    one rank is a PeerError on the others that still wait in the call.
    """

    __slots__ = ()

    # -- barrier ----------------------------------------------------------------------------------------------------

    def barrier(self, *, timeout: float | None = None) -> None:
        """Returns when all ranks have called it."""
        if timeout is None:
            try:
                status = _barrier(self._pointer)
                if status:
                    self._finish(status)
            except BaseException as exception:
                self.interrupted(exception)
                raise
        else:
            self.ibarrier(timeout=timeout).wait()

    def ibarrier(self, *, timeout: float | None = None) -> Request:
        """barrier() without waiting; the request is done when all ranks have called it."""
        return self._start("barrier", _barrier_call, (), timeout)

    def barrier_init(self, *, timeout: float | None = None) -> PersistentRequest:
        """A persistent barrier()."""
        return self._prepare("barrier", _barrier_call, (), timeout)

    # -- broadcast --------------------------------------------------------------------------------------------------

    def broadcast(self, x: BufferLike, root: int = 0, *, timeout: float | None = None) -> Any:
        """Copies the elements of ``root``'s ``x`` into every rank's ``x``, and returns ``x``.

        ``x`` has the same dtype and number of elements everywhere, and is writable except on ``root``.
        """
        if timeout is None and type(x) is ndarray:
            try:
                buffer = _from_buffer(_CHARS, x, root != self._rank)
                code = DTYPE_CODES[x.dtype]
                root = self._member(root, "root")
            except _NOT_PLAIN:
                pass
            else:
                try:
                    status = _broadcast(buffer, x.size, code, root, self._pointer)
                    if not status or self._finish(status):
                        return x
                except BaseException as exception:
                    self.interrupted(exception)
                    raise
        return self.ibroadcast(x, root, timeout=timeout).wait()

    bcast = broadcast

    def ibroadcast(self, x: BufferLike, root: int = 0, *, timeout: float | None = None) -> Request:
        """broadcast() without waiting; the request's result is ``x``."""
        return self._start("broadcast", self._broadcast_call, (x, root), timeout)

    ibcast = ibroadcast

    def broadcast_init(self, x: BufferLike, root: int = 0, *, timeout: float | None = None) -> PersistentRequest:
        """A persistent broadcast()."""
        return self._prepare("broadcast", self._broadcast_call, (x, root), timeout)

    bcast_init = broadcast_init

    def _broadcast_call(self, x: BufferLike, root: int) -> Call:
        root = self._member(root, "root")
        memory = buffers.source(x) if root == self._rank else buffers.target(x, "x")
        arguments = (memory.address, memory.count, memory.code, root)
        outputs = () if root == self._rank else (memory,)
        return Call("broadcast", arguments, x, (memory,), outputs)

    # -- reduce -----------------------------------------------------------------------------------------------------

    def reduce(
        self,
        x: BufferLike,
        out: BufferLike | None = None,
        op: OpLike = "sum",
        root: int = 0,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Combines the ranks' ``x`` element by element with ``op``; ``root`` gets the result, the others None.

        On ``root`` the result is a new array of ``x``'s shape, or ``out`` (any shape with ``x``'s dtype and number of
        elements; ``out=x`` is in place). Elsewhere ``out`` is not looked at, and ``x`` never changes.
        """
        if timeout is None and type(x) is ndarray:
            try:
                code = DTYPE_CODES[x.dtype]
                number = PLAIN_OP_CODES[op]
                root = self._member(root, "root")
                send = _from_buffer(_CHARS, x)
                if root == self._rank:
                    if out is None:
                        result = empty_like(x)
                    elif type(out) is ndarray and out.dtype is x.dtype and out.size == x.size:
                        result = out
                    else:
                        raise ValueError
                    receive = _from_buffer(_CHARS, result, True)
                else:
                    result = None
                    receive = ffi.NULL
            except _NOT_PLAIN:
                pass
            else:
                try:
                    status = _reduce(send, receive, x.size, code, number, root, self._pointer)
                    if not status or self._finish(status):
                        return result
                except BaseException as exception:
                    self.interrupted(exception)
                    raise
        return self.ireduce(x, out, op, root, timeout=timeout).wait()

    def ireduce(
        self,
        x: BufferLike,
        out: BufferLike | None = None,
        op: OpLike = "sum",
        root: int = 0,
        *,
        timeout: float | None = None,
    ) -> Request:
        """reduce() without waiting; the request's result is reduce()'s."""
        return self._start("reduce", self._reduce_call, (x, out, op, root), timeout)

    def reduce_init(
        self,
        x: BufferLike,
        out: BufferLike | None = None,
        op: OpLike = "sum",
        root: int = 0,
        *,
        timeout: float | None = None,
    ) -> PersistentRequest:
        """A persistent reduce()."""
        return self._prepare("reduce", self._reduce_call, (x, out, op, root), timeout)

    def _reduce_call(self, x: BufferLike, out: BufferLike | None, op: OpLike, root: int) -> Call:
        number = op_code(op)
        root = self._member(root, "root")
        send = buffers.source(x)
        check_pairs(number, send.array.shape)
        if root != self._rank:
            return Call("reduce", (send.address, ffi.NULL, send.count, send.code, number, root), None, (send,))
        result, receive = buffers.result(out, send, send.array.shape, send.array.dtype)
        buffers.check_overlap(send, receive)
        arguments = (send.address, receive.address, send.count, send.code, number, root)
        return Call("reduce", arguments, result, (send,), (receive,))

    # -- allreduce --------------------------------------------------------------------------------------------------

    def allreduce(
        self,
        x: BufferLike,
        out: BufferLike | None = None,
        op: OpLike = "sum",
        *,
        timeout: float | None = None,
    ) -> Any:
        """Combines the ranks' ``x`` element by element with ``op``; every rank gets the result, the same bits.

        Returns a new array of ``x``'s shape, or ``out`` (any shape with ``x``'s dtype and number of elements; ``out=x``
        is in place).
        """
        if timeout is None and type(x) is ndarray:
            try:
                if out is None:
                    result = empty_like(x)
                elif type(out) is ndarray and out.dtype is x.dtype and out.size == x.size:
                    result = out
                else:
                    raise ValueError
                send = _from_buffer(_CHARS, x)
                receive = _from_buffer(_CHARS, result, True)
                code = DTYPE_CODES[x.dtype]
                number = PLAIN_OP_CODES[op]
            except _NOT_PLAIN:
                pass
            else:
                try:
                    status = _allreduce(send, receive, x.size, code, number, self._pointer)
                    if not status or self._finish(status):
                        return result
                except BaseException as exception:
                    self.interrupted(exception)
                    raise
        return self.iallreduce(x, out, op, timeout=timeout).wait()

    def iallreduce(
        self,
        x: BufferLike,
        out: BufferLike | None = None,
        op: OpLike = "sum",
        *,
        timeout: float | None = None,
    ) -> Request:
        """allreduce() without waiting; the request's result is allreduce()'s."""
        return self._start("allreduce", self._allreduce_call, (x, out, op), timeout)

    def allreduce_init(
        self,
        x: BufferLike,
        out: BufferLike | None = None,
        op: OpLike = "sum",
        *,
        timeout: float | None = None,
    ) -> PersistentRequest:
        """A persistent allreduce()."""
        return self._prepare("allreduce", self._allreduce_call, (x, out, op), timeout)

    def _allreduce_call(self, x: BufferLike, out: BufferLike | None, op: OpLike) -> Call:
        number = op_code(op)
        send = buffers.source(x)
        check_pairs(number, send.array.shape)
        result, receive = buffers.result(out, send, send.array.shape, send.array.dtype)
        buffers.check_overlap(send, receive)
        arguments = (send.address, receive.address, send.count, send.code, number)
        return Call("allreduce", arguments, result, (send,), (receive,))

    # -- allgather --------------------------------------------------------------------------------------------------

    def allgather(self, x: BufferLike, out: BufferLike | None = None, *, timeout: float | None = None) -> Any:
        """Every rank gets the ranks' ``x`` in rank order.

        Returns a new array of shape ``(size, *x.shape)``, or ``out`` (any shape with ``x``'s dtype and ``size`` times
        its elements; ``x=out[rank]`` is in place). ``x`` has the same dtype and number of elements on every rank.
        """
        if timeout is None and type(x) is ndarray:
            try:
                dtype = x.dtype
                if out is None:
                    out = empty((self._size, *x.shape), dtype)
                elif type(out) is not ndarray or out.dtype is not dtype or out.size != x.size * self._size:
                    raise ValueError
                send = _from_buffer(_CHARS, x)
                receive = _from_buffer(_CHARS, out, True)
                code = DTYPE_CODES[dtype]
            except _NOT_PLAIN:
                pass
            else:
                try:
                    status = _allgather(send, receive, x.size, code, self._size, self._pointer)
                    if not status or self._finish(status):
                        return out
                except BaseException as exception:
                    self.interrupted(exception)
                    raise
        return self.iallgather(x, out, timeout=timeout).wait()

    def iallgather(self, x: BufferLike, out: BufferLike | None = None, *, timeout: float | None = None) -> Request:
        """allgather() without waiting; the request's result is allgather()'s."""
        return self._start("allgather", self._allgather_call, (x, out), timeout)

    def allgather_init(
        self, x: BufferLike, out: BufferLike | None = None, *, timeout: float | None = None
    ) -> PersistentRequest:
        """A persistent allgather()."""
        return self._prepare("allgather", self._allgather_call, (x, out), timeout)

    def _allgather_call(self, x: BufferLike, out: BufferLike | None) -> Call:
        send = buffers.source(x)
        shape = (self._size, *send.array.shape)
        result, receive = buffers.result(out, send, shape, send.array.dtype)
        in_place = buffers.check_overlap(send, receive, self._rank * send.count)
        address = IN_PLACE if in_place else send.address
        return Call("allgather", (address, receive.address, send.count, send.code), result, (send,), (receive,))
