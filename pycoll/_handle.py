"""A communicator's handle in libcoll, and how calls on it are run, resumed and given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_NONBLOCKING = {name: getattr(lib, f"coll_i{name}") for name in (*_COLLECTIVES, "send", "recv")}
_PERSISTENT = {name: getattr(lib, f"coll_{name}_init") for name in _COLLECTIVES}
_REQUEST = ffi.typeof("coll_request_t **")


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

    def _start(self, name: str, make: Callable[..., Call], arguments: Sequence[Any], timeout: float | None) -> Request:
        """Starts the call that ``make(*arguments)`` describes in its nonblocking form."""
        call, limit = self._describe(name, make, arguments, timeout)
        return Request(self._submit(_NONBLOCKING[name], call), limit)

    def _prepare(
        self, name: str, make: Callable[..., Call], arguments: Sequence[Any], timeout: float | None
    ) -> PersistentRequest:
        """Makes the call that ``make(*arguments)`` describes in its persistent form."""
        call, limit = self._describe(name, make, arguments, timeout)
        try:
            return PersistentRequest(self._submit(_PERSISTENT[name], call), limit)
        except CollError as problem:
            self._post(name, problem)  # which libcoll does for calls that start at once
            raise

    def _describe(
        self, name: str, make: Callable[..., Call], arguments: Sequence[Any], timeout: float | None
    ) -> tuple[Call, float]:
        self._open()
        try:
            return make(*arguments), seconds(timeout)
        except Exception as problem:
            self._post(name, problem)
            raise

    def _post(self, name: str, problem: Exception, collective: str = "") -> None:
        """Tells the peers of an error in the arguments of ``name``, so that they do not wait.

        ``collective`` is the one that they wait in, if it has another name.
        """
        if isinstance(problem, CollError):
            problem.operation = name
        number = _COLLECTIVES.get(collective or name)
        if number is not None:
            lib.coll_post_error(self._pointer, number, f"{name}: {problem}".encode())

    def _submit(self, function: Any, call: Call) -> Flight:
        request = ffi.new(_REQUEST)
        check(function(*call.arguments, self._open(), request))
        return Flight(self, call, request[0])
