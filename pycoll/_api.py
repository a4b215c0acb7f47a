"""The public names, gathered. pycoll itself gives them on first use."""

from __future__ import annotations

from ._lib import get_include, get_library_dir
from .comm import Communicator
from .errors import (
    ArgumentError,
    BootstrapError,
    CollError,
    CollTimeoutError,
    CommClosedError,
    ConfigError,
    DatatypeError,
    MismatchError,
    OutOfMemoryError,
    PeerError,
    RankFailedError,
    StateError,
    TruncateError,
)
from .introspection import Explanation, algorithms, config, info, libcoll_version, schedule
from .job import finalize, init, world
from .memory import empty, full, zeros
from .ops import Op
from .p2p import ANY_SOURCE, ANY_TAG
from .request import PersistentRequest, Request, Status, wait_all

try:
    from ._version import __version__
except ImportError:
    # A source tree that was not installed.
    __version__ = libcoll_version()

__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "ArgumentError",
    "BootstrapError",
    "CollError",
    "CollTimeoutError",
    "CommClosedError",
    "Communicator",
    "ConfigError",
    "DatatypeError",
    "Explanation",
    "MismatchError",
    "Op",
    "OutOfMemoryError",
    "PeerError",
    "PersistentRequest",
    "RankFailedError",
    "Request",
    "StateError",
    "Status",
    "TruncateError",
    "__version__",
    "algorithms",
    "config",
    "empty",
    "finalize",
    "full",
    "get_include",
    "get_library_dir",
    "info",
    "init",
    "libcoll_version",
    "schedule",
    "wait_all",
    "world",
    "zeros",
]
