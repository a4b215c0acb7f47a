"""Operations under way: what they hold on to, how they are waited for, and what becomes of them when nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from ._lib import INTERRUPTED, check, error, ffi, lib
from .arguments import seconds, type_error
from .buffers import Memory
from .errors import CollError, StateError

if TYPE_CHECKING:
    from ._handle import Handle


class Status(NamedTuple):
    """What a receive got: the sender's rank, the tag, and the count of elements of the buffer's datatype."""

    source: int
    tag: int
    count: int  # type: ignore[assignment]  # hides tuple.count


class Call:
    """One operation with its arguments made ready: how libcoll takes them, and all memory that must outlive it."""

    __slots__ = ("arguments", "finish", "inputs", "name", "outputs", "result")

    def __init__(
        self,
        name: str,
        arguments: tuple[Any, ...],
        result: Any = None,
        inputs: Sequence[Memory] = (),
        outputs: Sequence[Memory] = (),
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.result = result
        self.inputs = inputs
        self.outputs = outputs
        self.finish = finish  # makes the result of the finished request, where it is not known before

    @property
    def copies(self) -> bool:
        return any(memory.copied for memory in (*self.inputs, *self.outputs))

    def refresh(self) -> None:
        for memory in (*self.inputs, *self.outputs):
            memory.refresh()

    def deliver(self, request: Any) -> None:
        for memory in self.outputs:
            memory.deliver()
        if self.finish is not None:
            self.result = self.finish(request)


class Flight:
    """A call and its request in libcoll. It lives until the request has ended, whoever still holds the handle."""

    __slots__ = ("_lock", "call", "handle", "pending", "problem", "request")

    def __init__(self, handle: Handle, call: Call, request: Any) -> None:
        self.handle = handle  # the communicator stays as long as this does
        self.call = call
        self.request = ffi.gc(request, lib.coll_request_free)
        self.pending = True
        self.problem: CollError | None = None
        self._lock = threading.Lock()

    def land(self, status: int) -> None:
        """The request has ended with ``status``."""
        problem = error(status) if status < 0 else None
        with self._lock:
            if self.pending:
                if problem is None:
                    self.call.deliver(self.request)
                self.problem = problem
                self.pending = False

    def poll(self) -> bool:
        """Whether it has ended."""
        if self.pending:
            done = ffi.new("int *")
            status = lib.coll_test(self.request, done)
            if done[0] or status < 0:
                self.land(status)
        return not self.pending

    def wait(self, timeout: float, stop: threading.Event | None = None) -> None:
        """Waits for the end; lets Python see its signals meanwhile. ``stop`` ends the waiting, not the operation."""
        if not self.pending:
            return
        try:
            status = lib.pycoll_wait(self.request, timeout)
            while status == INTERRUPTED and not (stop and stop.is_set()):
                # Python has run its signal handlers; the wait goes on with the deadline that it had.
                status = lib.pycoll_wait(self.request, timeout)
        except BaseException as exception:
            self.handle.interrupted(exception)
            raise
        if status != INTERRUPTED:
            self.land(status)

    def outcome(self) -> Any:
        if self.problem is not None:
            raise self.problem
        return self.call.result


class Pair:
    """Two flights as one: they fly at once, and the second's outcome is that of both."""

    __slots__ = ("call", "first", "second")

    def __init__(self, first: Flight, second: Flight) -> None:
        self.first = first
        self.second = second
        self.call = second.call

    @property
    def pending(self) -> bool:
        return self.first.pending or self.second.pending

    @property
    def problem(self) -> CollError | None:
        return self.first.problem or self.second.problem

    def poll(self) -> bool:
        return self.first.poll() and self.second.poll()

    def wait(self, timeout: float, stop: threading.Event | None = None) -> None:
        begin = monotonic()
        self.second.wait(timeout, stop)
        self.first.wait(timeout if timeout < 0 else max(timeout - (monotonic() - begin), 1e-3), stop)

    def outcome(self) -> Any:
        self.first.outcome()
        return self.second.outcome()


_run = lib.pycoll_run

# Operations whose handle was dropped. They keep their buffers here until libcoll is done with them.
_adrift: list[Flight | Pair] = []


def sweep() -> None:
    """Lets go of what has ended among the operations whose handle was dropped."""
    if _adrift:
        _adrift[:] = [flight for flight in _adrift if not flight.poll()]


def forget() -> None:
    """After finalize: libcoll uses no buffer any more."""
    _adrift.clear()


class Request:
    """A nonblocking operation. ``await`` it, or wait(); dropping it is allowed, the operation goes on."""

    __slots__ = ("__weakref__", "_flight", "_timeout")

    def __init__(self, flight: Flight | Pair, timeout: float) -> None:
        self._flight = flight
        self._timeout = timeout
        sweep()

    def __del__(self) -> None:
        flight = getattr(self, "_flight", None)  # none if it could not be made
        if flight is not None and flight.pending:
            _adrift.append(flight)

    def __repr__(self) -> str:
        state = "pending" if self._flight.pending else "failed" if self._flight.problem else "done"
        return f"<pycoll.{type(self).__name__} {self._flight.call.name} {state}>"

    def wait(self, timeout: float | None = None) -> Any:
        """Waits at most ``timeout`` seconds (None: the call's, or the communicator's) and gives the call's result.

        Raises the operation's error, or CollTimeoutError, after which the communicator is broken.
        """
        self._flight.wait(self._timeout if timeout is None else seconds(timeout))
        return self._flight.outcome()

    def test(self) -> bool:
        """Whether the operation has ended, without waiting; raises its error if it has failed."""
        ended = self._flight.poll()
        if ended:
            self._flight.outcome()
        return ended

    @property
    def done(self) -> bool:
        """Whether the operation has ended, well or with an error, without waiting."""
        return self._flight.poll()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait_aside().__await__()

    async def _wait_aside(self) -> Any:
        """Waits in a thread, so that the event loop is free. Cancelled, the thread stops waiting within a moment."""
        import asyncio  # here, as most programs do without it

        flight = self._flight
        if not flight.poll():
            stop = threading.Event()
            try:
                await asyncio.get_running_loop().run_in_executor(None, flight.wait, self._timeout, stop)
            finally:
                stop.set()
        return flight.outcome()


class PersistentRequest(Request):
    """An operation prepared once and run as often as wished: ``p()``, or ``p.start()`` and ``p.wait()``.

    The buffers are those given when it was made; what is in them counts when it starts.
    """

    __slots__ = ("_copies", "_request", "_result")

    def __init__(self, flight: Flight, timeout: float) -> None:
        super().__init__(flight, timeout)
        self._flight: Flight = flight
        self._request = flight.request
        self._result = flight.call.result
        self._copies = flight.call.copies
        flight.pending = False
        flight.problem = StateError("the request was not started: call start() first", code=lib.COLL_ERR_STATE)

    def __call__(self, *, timeout: float | None = None) -> Any:
        """Runs the operation and gives its result."""
        flight = self._flight
        if timeout is not None or self._copies or flight.pending:
            return self.start().wait(timeout)
        flight.pending = True
        try:
            status = _run(self._request, self._timeout)
        except BaseException as exception:
            flight.handle.interrupted(exception)
            raise
        if not status:
            flight.pending = False
            flight.problem = None
            return self._result
        if status == INTERRUPTED:
            flight.wait(self._timeout)
        else:
            flight.land(status)
        return flight.outcome()

    def start(self) -> PersistentRequest:
        """Starts the operation; wait() or test() ends it."""
        flight = self._flight
        if flight.pending:  # also if it has ended by now: that differs from rank to rank
            raise StateError("the request is running: wait() for it before it starts again", code=lib.COLL_ERR_STATE)
        flight.call.refresh()
        check(lib.coll_start(self._request))
        flight.problem = None
        flight.pending = True
        return self


def wait_all(requests: Iterable[Request], timeout: float | None = None) -> list[Any]:
    """Waits for all ``requests`` within one ``timeout`` in seconds and gives their results in order.

    None stands for the requests' own timeouts. The first error is raised.
    """
    limit = None if timeout is None else seconds(timeout)
    try:
        everything = list(requests)
    except TypeError:
        raise type_error(f"requests is a {type(requests).__name__}, it must be iterable") from None
    for index, request in enumerate(everything):
        if not isinstance(request, Request):
            raise type_error(f"requests[{index}] is a {type(request).__name__}, it must be a pycoll.Request")
    begin = monotonic()
    results = []
    for request in everything:
        left = None if limit is None else max(limit - (monotonic() - begin), 1e-3)
        results.append(request.wait(left))
    return results
