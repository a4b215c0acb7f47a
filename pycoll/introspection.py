"""The tables of libcoll as Python data: environment, algorithms, schedules, this build and machine."""

from __future__ import annotations

from typing import Any

from ._lib import check, ffi, fill_text, lib, text
from .arguments import integer, string, value_error


class Explanation(str):
    """What would run and why, as readable text."""

    __slots__ = ()


def libcoll_version() -> str:
    """The version of the C library in use."""
    return text(lib.coll_version())


def config() -> dict[str, dict[str, str]]:
    """Every variable of the environment table: its value, default, source, type and a line of help."""
    info = ffi.new("coll_env_info_t *")
    table = {}
    for index in range(lib.coll_env_count()):
        check(lib.coll_env_get(index, info))
        table[text(info.name)] = {
            "value": text(info.value),
            "default": text(info.default_value),
            "source": text(info.source),
            "type": text(info.type),
            "help": text(info.help),
        }
    return table


def algorithms() -> list[dict[str, Any]]:
    """Every algorithm: operation, name, summary, restrictions, closed forms of rounds and bytes, source, and whether it
    folds in rank order. The position in the list is the algorithm's index in libcoll."""
    info = ffi.new("coll_algo_info_t *")
    rows = []
    for index in range(lib.coll_algo_count()):
        check(lib.coll_algo_get(index, info))
        rows.append(
            {
                "operation": text(lib.coll_operation_name(info.operation)),
                "name": text(info.name),
                "summary": text(info.summary),
                "restrictions": text(info.restrictions),
                "rounds": text(info.rounds),
                "bytes": text(info.bytes),
                "source": text(info.source),
                "ordered": bool(info.ordered),
            }
        )
    return rows


def info() -> dict[str, str]:
    """This build and machine: version, transports, providers, CPUs, interface that would be used."""
    lines = fill_text(lib.coll_info).splitlines()
    pairs = (line.partition(":") for line in lines if line.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def operation_code(name: str) -> int:
    """libcoll's number of an operation."""
    collectives = (number for number in range(lib.COLL_OPERATION_COUNT) if number != lib.COLL_OP_SENDRECV)
    names = {text(lib.coll_operation_name(number)): number for number in collectives}
    if string(name, "operation") not in names:
        raise value_error(f"operation is {name!r}, allowed are {', '.join(names)}")
    return names[name]


def schedule(algorithm: str, rank: int, size: int, root: int = 0, count: int = 1000) -> list[dict[str, Any]]:
    """The steps that ``rank`` of ``size`` ranks on one node each runs for ``algorithm`` (such as ``"allreduce:ring"``)
    on ``count`` float64: dicts with kind, round, peer, bytes, source and target."""
    names = [f"{row['operation']}:{row['name']}" for row in algorithms()]
    if string(algorithm, "algorithm") not in names:
        raise value_error(f"algorithm is {algorithm!r}, allowed are {', '.join(names)}")
    size = integer(size, "size", 1)
    rank = integer(rank, "rank", 0, size - 1)
    root = integer(root, "root", 0, size - 1)
    count = integer(count, "count", 0, 2**60)
    made = ffi.new("coll_schedule_t **")
    check(lib.coll_schedule_create(names.index(algorithm), rank, size, root, count, made))
    steps = ffi.gc(made[0], lib.coll_schedule_free)
    step = ffi.new("coll_step_info_t *")
    rows = []
    for index in range(lib.coll_schedule_steps(steps)):
        check(lib.coll_schedule_step(steps, index, step))
        rows.append(
            {
                "kind": text(step.kind),
                "round": step.round,
                "peer": step.peer,
                "bytes": step.bytes,
                "source": text(step.source),
                "target": text(step.target),
            }
        )
    return rows
