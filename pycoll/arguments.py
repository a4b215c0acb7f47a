"""Plain arguments: checked, with errors that name the argument, what was given and what is allowed."""

from __future__ import annotations

import operator
from typing import Any

from ._lib import lib
from .errors import ArgumentError, DatatypeError

LARGEST_INT = 2**31 - 1
NO_LIMIT = 1e9  # seconds


def type_error(message: str) -> DatatypeError:
    return DatatypeError(message, code=lib.COLL_ERR_TYPE)


def value_error(message: str) -> ArgumentError:
    return ArgumentError(message, code=lib.COLL_ERR_ARG)


def integer(value: Any, name: str, least: int, most: int = LARGEST_INT) -> int:
    """``value`` as an int from ``least`` to ``most``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise type_error(f"{name} is a {type(value).__name__}, it must be an int") from None
    if not least <= number <= most:
        raise value_error(f"{name} is {number}, allowed are {least} to {most}")
    return number


def string(value: Any, name: str) -> str:
    """``value`` if it is a str that C can take."""
    if not isinstance(value, str):
        raise type_error(f"{name} is a {type(value).__name__}, it must be a str")
    if "\0" in value:
        raise value_error(f"{name} has a character 0, which is not allowed")
    return value


def seconds(timeout: float | None) -> float:
    """``timeout`` as libcoll takes it: negative stands for the communicator's own."""
    if timeout is None:
        return -1.0
    try:
        if isinstance(timeout, (str, bytes, bytearray, bool)):  # float() would take them
            raise TypeError
        value = float(timeout)
    except (TypeError, ValueError):
        raise type_error(f"timeout is {timeout!r}, allowed are seconds or None") from None
    if not value > 0:
        raise value_error(
            f"timeout is {timeout}, allowed are seconds greater than 0, math.inf for no limit, None for the default"
        )
    return min(value, NO_LIMIT)
