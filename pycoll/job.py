"""This process's part in the job: init(), world(), finalize()."""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

from . import request
from ._lib import check, ffi, lib
from .arguments import integer, seconds, string
from .comm import Communicator, disown_all
from .errors import StateError

_world: World | None = None
_lock = threading.RLock()


class World(Communicator):
    """All ranks of the job."""

    __slots__ = ()

    def close(self) -> None:
        """The same as pycoll.finalize()."""
        if self._pointer:
            finalize()


def init(
    timeout: float | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    address: str | None = None,
) -> Communicator:
    """Joins the job and gives the communicator of all its ranks; called again, it gives the same one. Collective.

    Args:
        timeout: seconds for init() itself and for the world's calls; None: COLL_TIMEOUT. math.inf: no limit.
        rank, size: this process's number and how many there are; None: from the environment, and with nothing there a
            job of one rank.
        address: ``"host:port"`` where rank 0 listens; None: from the environment.

    Raises BootstrapError, ConfigError, CollTimeoutError (naming the ranks that did not come) or ArgumentError.
    """
    global _world
    with _lock:
        if _world is None:
            _world = World(_unblocked(lambda: _init(timeout, rank, size, address)))
            atexit.register(finalize)
        return _world


def _init(timeout: float | None, rank: int | None, size: int | None, address: str | None) -> Any:
    options = ffi.new("coll_init_opts_t *", lib.coll_init_opts_default())
    options.timeout = seconds(timeout)
    if rank is not None:
        options.rank = integer(rank, "rank", 0)
    if size is not None:
        options.size = integer(size, "size", 1)
    host = None if address is None else ffi.new("char[]", string(address, "address").encode())
    if host is not None:
        options.address = host
    world = ffi.new("coll_comm_t **")
    status = lib.coll_init(options, world)
    if status not in (lib.COLL_ERR_CONFIG, lib.COLL_ERR_ARG):
        # The launcher's socket was for this job; later its number is another's. Not for children, nor a later init().
        os.environ.pop("COLL_LISTEN_FD", None)
    check(status)
    check(lib.coll_set_interruptible(1))
    return world[0]


def _unblocked(function: Callable[[], Any]) -> Any:
    """Runs ``function`` in a thread, so that Ctrl-C ends the waiting of the main thread at once."""
    if threading.current_thread() is not threading.main_thread():
        return function()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as problem:
            outcome.extend((None, problem))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="pycoll-init", daemon=True)
    thread.start()
    thread.join()
    value, problem = outcome
    if problem is not None:
        raise problem.with_traceback(None)
    return value


def world() -> Communicator:
    """The communicator of all ranks; StateError before init()."""
    if _world is None:
        raise StateError("pycoll is not initialised: call pycoll.init() first", code=lib.COLL_ERR_STATE)
    return _world


def finalize() -> None:
    """Leaves the job. Every communicator is closed. Waits for the other ranks, but only for a bounded time.

    Runs at exit by itself; without init(), and called again, it does nothing.
    """
    global _world
    with _lock:
        if _world is None:
            return
        atexit.unregister(finalize)
        _world = None
        status = lib.coll_finalize()
        disown_all()
        request.forget()
        check(status)
