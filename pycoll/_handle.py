"""A communicator's handle in libcoll, and how calls on it are run, resumed and given up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ._lib import CAREFUL, INTERRUPTED, check, error, ffi, lib, text
from .arguments import integer, seconds
from .errors import CollError, CommClosedError
from .request import Call, Flight, PersistentRequest, Request

# The collectives by name; point-to-point calls have no error to post.
_COLLECTIVES: dict[str, int] = {
    text(lib.coll_operation_name(number)): number
    for number in range(lib.COLL_OPERATION_COUNT)
    if number != lib.COLL_OP_SENDRECV
}


class Handle:
    """What the parts of Communicator share."""

    __slots__ = ("__weakref__", "_pointer", "_rank", "_size")

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer  # NULL when closed
        self._rank: int = check(lib.coll_comm_rank(pointer))
        self._size: int = check(lib.coll_comm_size(pointer))

    def _open(self) -> Any:
        """The C handle; an error if the communicator is closed."""
        if not self._pointer:
            raise CommClosedError("the communicator was closed", code=lib.COLL_ERR_CLOSED)
        return self._pointer

    def _member(self, value: Any, name: str) -> int:
        """``value`` as a rank of this communicator."""
        return integer(value, name, 0, self._size - 1)

    # -- blocking calls ---------------------------------------------------------------------------------------------

    def _finish(self, status: int) -> bool:
        """Ends a blocking call that gave ``status``: True when it is done, False when it needs the careful path."""
        while status == INTERRUPTED:
            # Python runs its signal handlers here, between two calls.
            status = lib.pycoll_resume(self._pointer)
        if status < 0:
            self._open()
            raise error(status)
        return status != CAREFUL

    def interrupted(self, exception: BaseException) -> None:
        """An exception came out of a blocking call. If it was a signal handler's, the operation is still under way:
        gives it up and tells the peers."""
        if lib.pycoll_status() == INTERRUPTED and self._pointer:
            why = f"rank {self._rank} was interrupted by {type(exception).__name__}"
            lib.coll_abandon(self._pointer, why.encode())

    # -- nonblocking and persistent calls ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _arguments(self, operation: str, name: str = "") -> Iterator[None]:
        """Around the making of arguments: a collective's error is posted, so that the peers do not wait.

        ``name`` is that of the caller's call, if it is made of a collective of another name.
        """
        self._open()
        try:
            yield
        except Exception as problem:
            if isinstance(problem, CollError):
                problem.operation = name or operation
            if operation in _COLLECTIVES:
                message = f"{name or operation}: {problem}".encode()
                lib.coll_post_error(self._pointer, _COLLECTIVES[operation], message)
            raise

    def _start(self, call: Call, timeout: float | None) -> Request:
        """Starts ``call`` in its nonblocking form."""
        limit = self._limit(call, timeout)
        return Request(self._submit(f"coll_i{call.name}", call), limit)

    def _prepare(self, call: Call, timeout: float | None) -> PersistentRequest:
        """Makes ``call`` in its persistent form."""
        with self._arguments(call.name):  # libcoll itself posts no error of these
            return PersistentRequest(self._submit(f"coll_{call.name}_init", call), seconds(timeout))

    def _limit(self, call: Call, timeout: float | None) -> float:
        with self._arguments(call.name):
            return seconds(timeout)

    def _submit(self, function: str, call: Call) -> Flight:
        request = ffi.new("coll_request_t **")
        check(getattr(lib, function)(*call.arguments, self._open(), request))
        return Flight(self, call, request[0])
