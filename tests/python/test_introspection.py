"""What pycoll tells about itself: tables, counters, explanations, versions, types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks import ranks

import pycoll


def test_versions_and_directories():
    assert pycoll.libcoll_version()[0].isdigit()
    assert pycoll.__version__[0].isdigit()
    assert (Path(pycoll.get_include()) / "coll.h").is_file()
    assert list(Path(pycoll.get_library_dir()).glob("libcoll.so*"))


def test_config():
    table = pycoll.config()
    assert {"COLL_RANK", "COLL_TIMEOUT", "COLL_TUNE", "COLL_PACKET_SIZE"} <= set(table)
    for row in table.values():
        assert {"value", "default", "source", "help"} <= set(row) and row["help"]
    assert table["COLL_PACKET_SIZE"]["default"] == "8k"


@ranks(1, env={"COLL_TIMEOUT": "42"})
def test_config_says_where_a_value_comes_from(comm):
    row = pycoll.config()["COLL_TIMEOUT"]
    assert row["source"] == "environment" and float(row["value"].rstrip("s")) == 42


def test_algorithms():
    rows = pycoll.algorithms()
    names = {(row["operation"], row["name"]) for row in rows}
    assert len(names) == len(rows)
    assert {("allreduce", "ring"), ("allreduce", "recursive_doubling"), ("barrier", "dissemination")} <= names
    assert all(row["summary"] and "restrictions" in row for row in rows)


def test_schedules():
    steps = [pycoll.schedule("allreduce:ring", rank, 4, count=8) for rank in range(4)]
    sends = sorted((rank, step["peer"]) for rank in range(4) for step in steps[rank] if step["kind"] == "send")
    receives = sorted((step["peer"], rank) for rank in range(4) for step in steps[rank] if step["kind"] == "recv")
    assert sends == receives and set(sends) == {(0, 1), (1, 2), (2, 3), (3, 0)}
    with pytest.raises(ValueError, match="allowed are .*allreduce:ring"):
        pycoll.schedule("allreduce:nonsense", 0, 4)


def test_info():
    facts = pycoll.info()
    assert len(facts) > 3 and all(isinstance(value, str) for value in facts.values())


@ranks(2, env={"COLL_TUNE": "allreduce:ring"})
def test_explain_and_stats_say_what_ran(comm):
    why = comm.explain("allreduce", 8)
    assert isinstance(why, str) and "ring" in why and "COLL_TUNE" in why
    with pytest.raises(ValueError, match="operation is 'all', allowed are barrier"):
        comm.explain("all", 8)
    with pytest.raises(TypeError):
        comm.explain("allreduce", 8, dtype="U3")
    before = comm.stats()
    for _ in range(5):
        comm.allreduce(np.ones(4))
    after = comm.stats()
    assert after["algorithms"]["allreduce:ring"] - before["algorithms"].get("allreduce:ring", 0) == 5
    assert after["comm_calls"] - before["comm_calls"] == 5


@ranks(3)
def test_the_place_in_the_job(comm):
    assert (comm.size, comm.local_size, comm.nodes) == (3, 3, 1)
    assert comm.local_rank == comm.rank
    assert sorted(comm.allgather(np.int64(comm.rank)).tolist()) == [0, 1, 2]
    assert f"rank {comm.rank} of 3" in repr(comm)
    assert pycoll.init() is comm and pycoll.world() is comm
    assert comm.node.size == 3 and comm.node is comm.node


@ranks(4, env={})
def test_two_nodes_by_name(tmp_path):
    import os

    rank = int(os.environ["COLL_RANK"])
    os.environ["COLL_NODE"] = f"node{rank // 2}"
    os.environ["COLL_TRANSPORT"] = "ofi"
    os.environ["COLL_IFACE"] = "lo"
    comm = pycoll.init()
    assert comm.nodes == 2 and comm.local_size == 2 and comm.local_rank == rank % 2
    assert comm.node.size == 2 and comm.node.rank == rank % 2
    assert comm.allreduce(np.ones(1000)).tolist() == [4.0] * 1000
    assert comm.node.allreduce(np.float64(rank)) == (1 if rank < 2 else 5)


def test_types(tmp_path):
    """What the public names reach passes mypy in its strict mode."""
    options = ["--strict", "--ignore-missing-imports", "--no-error-summary", f"--cache-dir={tmp_path}"]
    command = [sys.executable, "-m", "mypy", *options, "pycoll/__init__.py", "pycoll/_api.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
