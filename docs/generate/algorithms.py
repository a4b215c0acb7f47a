"""A page for each operation: its algorithms with their costs, what their files say, and a drawing of their messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pycoll
from pycoll.draw import draw_algorithm, messages

from .files import GENERATED, SOURCE, escape, first_comment, heading, paragraphs, save, table

COST = {"rounds": "Rounds", "bytes": "Bytes sent by the busiest rank"}
WIDEST = 8  # rounds that fit the page


def write() -> None:
    rows = pycoll.algorithms()
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    for operation in operations:
        save(f"algorithms/{operation}.rst", page(operation, [row for row in rows if row["operation"] == operation]))
        for row in rows:
            if row["operation"] == operation:
                draw(f"{operation}:{row['name']}")
    toctree = [".. toctree::", "   :maxdepth: 1", "", *(f"   generated/algorithms/{name}" for name in operations)]
    save("algorithms.inc", "\n".join(toctree))
    save("schedule.txt", schedule("allreduce:recursive_doubling", rank=0, ranks=4))


def schedule(name: str, rank: int, ranks: int) -> str:
    """The steps of one rank, a line each."""
    lines = []
    for step in pycoll.schedule(name, rank, ranks, count=8):
        peer = {"send": f" to rank {step['peer']}", "recv": f" from rank {step['peer']}"}.get(step["kind"], "")
        where = " -> ".join(place for place in (step["source"], step["target"]) if place)
        lines.append(f"round {step['round']}   {step['kind']:6} {step['bytes']} bytes{peer:12}   {where}")
    return "\n".join(lines)


def page(operation: str, rows: list[dict[str, Any]]) -> str:
    lines = heading(operation.capitalize(), "=")
    lines += [f"*P* ranks; *n* bytes{' of one rank' if operation == 'allgather' else ''}.", ""]
    overview = [
        (
            f":ref:`{row['name']} <{operation}-{row['name']}>`",
            escape(row["summary"]),
            cost(row["rounds"]),
            cost(row["bytes"]),
        )
        for row in rows
    ]
    lines += table(("Algorithm", "Idea", "Rounds", "Bytes of the busiest rank"), overview, "22 38 20 20")
    for row in rows:
        lines += algorithm(operation, row)
    return "\n".join(lines)


def cost(formula: str) -> str:
    return escape(formula)


def algorithm(operation: str, row: dict[str, Any]) -> list[str]:
    name = row["name"]
    lines = [f".. _{operation}-{name}:", "", *heading(name, "-")]
    for paragraph in paragraphs(first_comment(source_file(operation, name))):
        lines += [escape(paragraph), ""]
    facts = {COST[key]: cost(row[key]) for key in COST}
    facts["Folds in rank order"] = "yes" if row["ordered"] else ""
    facts["Restrictions"] = escape(row["restrictions"])
    facts["Source"] = escape(row["source"])
    lines += [f":{key}: {value}" for key, value in facts.items() if value]
    lines += [f":Force it: ``COLL_TUNE={operation}:{name}``", ""]
    ranks = ranks_to_draw(f"{operation}:{name}")
    if ranks:
        lines += [
            f".. image:: {operation}-{name}.svg",
            f"   :alt: messages of {operation} by {name}, {ranks} ranks",
            "",
        ]
    return lines


def source_file(operation: str, name: str) -> Path:
    """OPERATION_NAME.c, or, for rows that share a file, NAME.c."""
    own = SOURCE / "algo" / f"{operation}_{name}.c"
    return own if own.exists() else SOURCE / "algo" / f"{name}.c"


def ranks_to_draw(name: str) -> int:
    """Of 8, 6 and 4 the most that do not make the drawing too wide; 0 for an algorithm that sends no messages."""
    for ranks in (8, 6, 4):
        try:
            found = messages(name, ranks, count=8 * ranks)
        except pycoll.ArgumentError:
            return 0
        if max(message.round for message in found) < WIDEST:
            break
    return ranks


def draw(name: str) -> None:
    ranks = ranks_to_draw(name)
    if ranks:
        draw_algorithm(name, ranks, str(GENERATED / "algorithms" / f"{name.replace(':', '-')}.svg"))
