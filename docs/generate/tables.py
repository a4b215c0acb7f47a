"""The tables of libcoll as pages: environment, statuses, datatypes and operators, counters, rules."""

from __future__ import annotations

import re

import pycoll
from pycoll._lib import _CLASSES, ffi, lib, text

from .files import SOURCE, escape, save, table


def write() -> None:
    save("environment.inc", environment())
    save("statuses.inc", statuses())
    save("operators.inc", operators())
    save("counters.inc", counters())
    save("rules.inc", rules())


def agreed() -> set[str]:
    """The variables that must have the same value on every rank: the column `checked` of the table."""
    rows = re.findall(r'X\(\w+, "(\w+)", \w+, "[^"]*", ([01]),', (SOURCE / "base" / "env_table.h").read_text())
    return {name for name, checked in rows if checked == "1"}


def environment() -> str:
    lines = []
    same = agreed()
    for name, row in pycoll.config().items():
        kind = " or ".join(f"``{word}``" if "|" in row["type"] else word for word in row["type"].split("|"))
        default = f"``{row['default']}``" if row["default"] else "empty"
        alike = " The same on every rank: ``init()`` compares." if name in same else ""
        lines += [f".. envvar:: {name}", "", f"   {escape(row['help'])}.", ""]
        lines += [f"   {kind[0].upper()}{kind[1:]}; default: {default}.{alike}", ""]
    return "\n".join(lines)


def statuses() -> str:
    """Every status with its text and the class that Python raises for it."""
    rows = []
    for name in (name for name in dir(lib) if name.startswith("COLL_ERR_")):
        code = getattr(lib, name)
        kind = _CLASSES.get(code, pycoll.CollError)
        others = [
            base.__name__ for base in kind.__bases__ if base.__module__ == "builtins" and kind is not pycoll.CollError
        ]
        also = f", also a ``{others[0]}``" if others else ""
        rows.append(
            (-code, f":c:enumerator:`{name}`", text(lib.coll_strerror(code)), f":class:`pycoll.{kind.__name__}`{also}")
        )
    return "\n".join(table(("Status", "Meaning", "In Python"), (row[1:] for row in sorted(rows)), "25 40 35"))


def operators() -> str:
    """Which operator takes which datatype."""
    dtypes = [(text(lib.coll_dtype_name(number)), number) for number in range(lib.COLL_DTYPE_COUNT)]
    rows = []
    for op in range(lib.COLL_OP_COUNT):
        takes = [name for name, number in dtypes if lib.coll_op_supports(op, number)]
        leaves = [name for name, number in dtypes if not lib.coll_op_supports(op, number)]
        words = "all" if not leaves else f"all but {', '.join(leaves)}" if len(leaves) < 6 else ", ".join(takes)
        rows.append((f"``{text(lib.coll_op_name(op))}``", words))
    return "\n".join(table(("Operator", "Datatypes"), rows, "15 85"))


def counters() -> str:
    """Names and meanings of what stats() gives; the counters are there with one rank already."""
    comm = pycoll.init(rank=0, size=1)
    info = ffi.new("coll_stat_info_t *")
    rows = []
    for index in range(lib.coll_stats_count()):
        lib.coll_stats_get(comm._pointer, index, info)
        rows.append((f"``{text(info.name)}``", escape(text(info.help))))
    pycoll.finalize()
    return "\n".join(table(("Counter", "Meaning"), rows, "35 65"))


def rules() -> str:
    """The built-in rules, as they are written in the source."""
    source = (SOURCE / "select" / "builtin_rules.h").read_text()
    body = re.search(r"coll__builtin_rules\[\] = \{(.*?)\};", source, re.DOTALL)
    if not body:
        raise ValueError("builtin_rules.h: no table of rules")
    lines = ["" if not line.strip() else line.strip().strip('",') for line in body[1].strip().splitlines()]
    return "\n".join([".. code-block:: text", "", *(f"   {line}".rstrip() for line in lines)])
