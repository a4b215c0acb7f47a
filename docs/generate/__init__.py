"""Pages made from the tree itself, before Sphinx reads any: docs/generated.

    header      the C interface, from coll.h
    tables      environment, statuses, datatypes and operators, counters, rules, from the tables of libcoll
    algorithms  a page for each operation, with the drawn messages of each algorithm
    layers      the diagram of the layers and their files, from the table of the lint test and the sources
    outputs     what the programs of docs/examples and docs/programs print

A Sphinx extension. Files whose content is the same are not written again, so a second build reads little.
"""

from __future__ import annotations

from typing import Any

from . import algorithms, header, layers, outputs, tables
from .files import GENERATED


def generate(app: Any) -> None:
    GENERATED.mkdir(exist_ok=True)
    for module in (header, tables, algorithms, layers, outputs):
        module.write()


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
