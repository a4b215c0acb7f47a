"""Start and end of a process: init() by variables or arguments, and exits of every kind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from ranks import Job, ranks

import pycoll


def python(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("COLL_")}
    return subprocess.run(
        [sys.executable, "-c", program], env={**clean, **env}, capture_output=True, text=True, timeout=60
    )


INIT = "import pycoll; comm = pycoll.init(timeout=5); print(comm.rank, comm.size)"


def test_nothing_set_is_a_job_of_one():
    done = python(INIT)
    assert (done.returncode, done.stdout) == (0, "0 1\n"), done.stderr


@pytest.mark.parametrize(
    "env, names",
    [
        ({"COLL_RANK": "0"}, ["COLL_RANK", "COLL_SIZE"]),
        ({"COLL_SIZE": "2"}, ["COLL_RANK", "COLL_SIZE"]),
        ({"RANK": "0"}, ["RANK", "WORLD_SIZE"]),
        ({"WORLD_SIZE": "2"}, ["RANK", "WORLD_SIZE"]),
        ({"COLL_RANK": "0", "COLL_SIZE": "2"}, ["COLL_ADDR", "COLL_PORT"]),
        ({"COLL_RANK": "2", "COLL_SIZE": "2", "COLL_ADDR": "127.0.0.1", "COLL_PORT": "4000"}, ["COLL_RANK", "2"]),
        ({"COLL_RANK": "0", "COLL_SIZE": "1", "RANK": "0", "WORLD_SIZE": "2"}, ["COLL_SIZE", "WORLD_SIZE"]),
        ({"COLL_SIZE": "two", "COLL_RANK": "0"}, ["COLL_SIZE", "two"]),
        ({"COLL_TIMOUT": "3"}, ["COLL_TIMOUT", "COLL_TIMEOUT"]),
        ({"COLL_TRANSPORT": "smoke"}, ["COLL_TRANSPORT", "smoke", "auto"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_half_set_or_contradictory_variables_are_named(env, names):
    done = python(INIT, **env)
    assert done.returncode == 1 and "ConfigError" in done.stderr and done.stdout == "", done.stderr
    assert all(name in done.stderr.splitlines()[-1] for name in names), done.stderr


def test_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = python(INIT, COLL_RANK="0", COLL_SIZE="2", COLL_ADDR="127.0.0.1", COLL_PORT=port)
    assert done.returncode == 1 and "BootstrapError" in done.stderr, done.stderr
    assert "127.0.0.1" in done.stderr and port in done.stderr


def test_a_rank_that_does_not_come_is_named():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    program = (
        "import pycoll, time; begin = time.monotonic()\n"
        "try: pycoll.init(timeout=1)\n"
        "except pycoll.CollError as error: print(time.monotonic() - begin, error.ranks, type(error).__name__)"
    )
    done = python(program, COLL_RANK="0", COLL_SIZE="2", COLL_ADDR="127.0.0.1", COLL_PORT=port, COLL_SECRET="x")
    seconds, rest = done.stdout.split(" ", 1)
    assert 0.9 < float(seconds) < 3 and "(1,)" in rest, done.stdout + done.stderr


@ranks(2)
def test_init_by_arguments():
    rank, size, port = (int(os.environ.pop(name)) for name in ("COLL_RANK", "COLL_SIZE", "COLL_PORT"))
    os.environ.pop("COLL_ADDR")
    comm = pycoll.init(10, rank=rank, size=size, address=f"127.0.0.1:{port}")
    assert (comm.rank, comm.size) == (rank, 2)
    assert comm.allreduce(np.ones(1)) == 2


@ranks(1, 3)
def test_init_again():
    """The launcher's socket serves the first job only; what has its number then is left alone."""
    for index in range(4):
        comm = pycoll.init()
        assert comm.allreduce(np.ones(2)).tolist() == [comm.size] * 2
        pycoll.finalize()
        assert "COLL_LISTEN_FD" not in os.environ
        if index == 0:
            files = [open(os.devnull) for _ in range(20)]
    assert all(os.path.samestat(os.fstat(file.fileno()), os.stat(os.devnull)) for file in files)


@ranks(1)
def test_a_stale_socket_is_named_and_left_alone():
    with open(os.devnull) as file:
        os.environ.update(COLL_RANK="0", COLL_SIZE="2", COLL_LISTEN_FD=str(file.fileno()))
        for _ in range(2):
            with pytest.raises(pycoll.ConfigError, match=f"COLL_LISTEN_FD is {file.fileno()}, which is no listening"):
                pycoll.init()
            os.fstat(file.fileno())


def test_wrong_arguments_of_init():
    program = (
        "import pycoll\n"
        "for wrong in (dict(rank=0), dict(size=2), dict(rank=-1, size=2), dict(rank=2, size=2), dict(timeout=-1),\n"
        "              dict(rank='0', size=1), dict(rank=0, size=2, address='nowhere')):\n"
        "    try: pycoll.init(**wrong)\n"
        "    except (TypeError, ValueError) as error: print(type(error).__name__)\n"
        "print(pycoll.init().size)"
    )
    done = python(program)
    assert done.stdout.split()[-1] == "1" and done.stdout.count("Error") == 7, done.stdout + done.stderr


EXITS = {
    "plain": "",
    "in flight": "request = comm.iallreduce(np.ones(1000))",
    "dropped": "comm.iallreduce(np.ones(100_000))",
    "receive": "request = comm.irecv(np.zeros(3))",
    "persistent": "p = comm.allreduce_init(np.ones(3)); p(); p.start()",
    "other communicators": "parts = [comm.dup() for _ in range(3)]; parts[1].ibarrier()",
    "thread": "import threading; threading.Thread(target=comm.barrier, daemon=True).start()",
    "finalized": "pycoll.finalize()",
}


@pytest.mark.parametrize("how", EXITS)
def test_exits_without_finalize(how, tmp_path):
    program = f"import numpy as np, pycoll; comm = pycoll.init(); comm.barrier(); {EXITS[how]}"
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with Job(["-c", program], 2, folder, timeout=20) as job:
            job.expect({})
            if how != "thread":  # which is told that its barrier was ended
                assert not any(job.output(rank).read_bytes() for rank in range(2)), job.said()


def test_exits_inside_pytest(tmp_path):
    (tmp_path / "test_inside.py").write_text(
        "import numpy as np, pycoll\n"
        "def test_inside():\n"
        "    comm = pycoll.init()\n"
        "    assert comm.allreduce(np.ones(1)) == comm.size\n"
        "    global request\n"
        "    request = comm.iallreduce(np.ones(10))\n"
    )
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with Job(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)], 2, folder, timeout=30) as job:
            job.expect({})


@ranks(2, codes={1: 1})
def test_an_exception_on_one_rank_ends_the_job_soon(comm):
    if comm.rank == 1:
        raise RuntimeError("rank 1 has a fault")
    with pytest.raises(pycoll.CollError) as caught:
        while True:
            comm.allreduce(np.ones(10))
    assert caught.value.ranks == (1,)
