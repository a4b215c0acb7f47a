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


def op_code(op: OpLike) -> int:
    """libcoll's number of ``op``, or an error that lists what is allowed."""
    if not isinstance(op, (str, Op)):
        raise type_error(f"op is a {type(op).__name__}, allowed are pycoll.Op and its names as str")
    try:
        return OP_CODES[op]
    except KeyError:
        names = ", ".join(member.value for member in Op)
        raise value_error(f"op is {op!r}, allowed are {names}") from None
