"""Loads the extension. Every status of libcoll goes through check()."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from . import errors

try:
    from . import _coll
except ImportError as problem:
    raise ImportError(
        f"pycoll's extension could not be loaded: {problem}. It is built by `pip install .`; with "
        "PYCOLL_USE_SYSTEM=1 it needs the installed libcoll on the loader's path."
    ) from problem

ffi: Any = _coll.ffi
lib: Any = _coll.lib

IN_PLACE: Any = ffi.cast("void *", -1)
INTERRUPTED: int = lib.COLL_ERR_INTERRUPTED
CAREFUL: int = lib.PYCOLL_CAREFUL

_CLASSES: dict[int, type[errors.CollError]] = {
    lib.COLL_ERR_ARG: errors.ArgumentError,
    lib.COLL_ERR_TYPE: errors.DatatypeError,
    lib.COLL_ERR_MEMORY: errors.OutOfMemoryError,
    lib.COLL_ERR_TIMEOUT: errors.CollTimeoutError,
    lib.COLL_ERR_RANK_FAILED: errors.RankFailedError,
    lib.COLL_ERR_MISMATCH: errors.MismatchError,
    lib.COLL_ERR_CLOSED: errors.CommClosedError,
    lib.COLL_ERR_BOOTSTRAP: errors.BootstrapError,
    lib.COLL_ERR_CONFIG: errors.ConfigError,
    lib.COLL_ERR_STATE: errors.StateError,
    lib.COLL_ERR_TRUNCATE: errors.TruncateError,
    lib.COLL_ERR_PEER: errors.PeerError,
}


def text(pointer: Any) -> str:
    """A C string as str; NULL is empty."""
    return str(ffi.string(pointer), "utf-8", "replace") if pointer else ""


def error(status: int) -> errors.CollError:
    """The exception for this thread's last failed call, which returned ``status``."""
    count = lib.coll_error_ranks(ffi.NULL, 0)
    ranks = ffi.new("int[]", max(count, 1))
    lib.coll_error_ranks(ranks, count)
    sequence = lib.coll_error_sequence()
    return _CLASSES.get(status, errors.CollError)(
        text(lib.coll_error_message()) or text(lib.coll_strerror(status)),
        code=status,
        ranks=list(ranks)[:count],
        operation=text(lib.coll_error_operation()),
        sequence=sequence if sequence >= 0 else None,
    )


def check(status: int) -> int:
    """Raises the exception for a negative ``status``; gives others back."""
    if status < 0:
        raise error(status)
    return status


def fill_text(function: Any, *arguments: Any) -> str:
    """The text that ``function(*arguments, char *text, size_t capacity)`` writes."""
    capacity = 1 << 16
    buffer = ffi.new("char[]", capacity)
    check(function(*arguments, buffer, capacity))
    return text(buffer)


def _directory(bundled: str, variable: str) -> str:
    """A directory inside the package, or that of the installed libcoll as pkg-config knows it."""
    path = Path(__file__).resolve().parent / bundled
    if path.is_dir():
        return str(path)
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), f"--variable={variable}", "libcoll"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as problem:
        raise FileNotFoundError(f"pycoll has no {path} and `{' '.join(command)}` failed: {problem}") from problem


def get_include() -> str:
    """The directory of coll.h, for the compiler's -I."""
    return _directory("include", "includedir")


def get_library_dir() -> str:
    """The directory of libcoll.so, for the linker's -L and -rpath."""
    return _directory("lib", "libdir")
