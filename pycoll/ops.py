"""The reduction operators by name."""

from __future__ import annotations

import enum

from ._lib import lib
from .arguments import type_error, value_error


class Op(enum.Enum):
    """A reduction operator; every call takes the name as well, ``Op.SUM`` or ``"sum"``.

    ``AVG`` divides the sum by the number of ranks (integers truncate toward zero). ``LAND`` ``LOR`` ``LXOR`` are
    logical, ``BAND`` ``BOR`` ``BXOR`` bitwise. ``MINLOC`` and ``MAXLOC`` work on (value, index) pairs along the last
    axis and keep the lower index when values are equal. ``MIN`` and ``MAX`` propagate NaN as numpy does.
    """

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    LAND = "land"
    LOR = "lor"
    LXOR = "lxor"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
    MINLOC = "minloc"
    MAXLOC = "maxloc"


OpLike = Op | str

# Both the member and its name lead to libcoll's number.
OP_CODES: dict[OpLike, int] = {}
for _op in Op:
    OP_CODES[_op] = OP_CODES[_op.value] = getattr(lib, f"COLL_{_op.name}")


# Those that may be called without a look at the shape.
PLAIN_OP_CODES = {op: code for op, code in OP_CODES.items() if code not in (lib.COLL_MINLOC, lib.COLL_MAXLOC)}


def check_pairs(number: int, shape: tuple[int, ...]) -> None:
    """An error if the operator works on pairs and ``shape`` has no whole pairs along its last axis."""
    if number in (lib.COLL_MINLOC, lib.COLL_MAXLOC) and (not shape or shape[-1] % 2):
        raise value_error(
            f"x has shape {shape}, but minloc and maxloc work on pairs (value, index) along the last axis: "
            "its length must be even"
        )


def op_code(op: OpLike) -> int:
    """libcoll's number of ``op``, or an error that lists what is allowed."""
    if not isinstance(op, (str, Op)):
        raise type_error(f"op is a {type(op).__name__}, allowed are pycoll.Op and its names as str")
    try:
        return OP_CODES[op]
    except KeyError:
        names = ", ".join(member.value for member in Op)
        raise value_error(f"op is {op!r}, allowed are {names}") from None
