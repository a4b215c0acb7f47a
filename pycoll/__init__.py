"""pycoll: collective communication of numpy arrays between processes, over shared memory and libfabric.

    import numpy as np, pycoll
    comm = pycoll.init()
    total = comm.allreduce(np.ones(4))

Run it with ``pycoll run -n 4 script.py``. Without a launcher init() gives a communicator of one rank.
"""

from __future__ import annotations

# ruff: noqa: F403, F405 - the star below is for type checkers
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._api import *
    from ._api import __version__

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


def __getattr__(name: str) -> Any:
    """Loads everything when the first public name is used: `pycoll run` needs neither numpy nor libcoll."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _api

    globals().update((each, getattr(_api, each)) for each in __all__)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
