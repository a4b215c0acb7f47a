"""Hosts and ranks that are lost in the middle of a job: the others are told which, soon, and can end."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import textwrap
import time

import pytest

#: Allreduces until something happens, then says what, how late, and whether closing came to an end.
PROGRAM = textwrap.dedent("""
    import os, sys, time
    import numpy as np, pycoll
    length, timeout = int(sys.argv[1]), float(sys.argv[2])
    comm = pycoll.init(timeout=20)
    x = np.ones(length)
    assert (comm.allreduce(x) == comm.size).all()
    print("running", os.getpid(), flush=True)
    last = time.monotonic()
    try:
        while True:
            assert (comm.allreduce(x, timeout=timeout) == comm.size).all()
            last = time.monotonic()
    except pycoll.CollError as error:
        print(type(error).__name__, sorted(error.ranks), round(time.monotonic() - last, 2), error, sep="|", flush=True)
    before = time.monotonic()
    pycoll.finalize()
    print("closed", time.monotonic() - before, flush=True)
""")


class Job:
    """Two ranks on each of two hosts, started without a launcher: nothing ends the others when one is lost."""

    def __init__(self, hosts, length: int, timeout: float) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        shared = {"COLL_SIZE": "4", "COLL_ADDR": "10.77.0.1", "COLL_PORT": str(port), "COLL_SECRET": "5" * 64}
        command = [sys.executable, "-c", PROGRAM, str(length), str(timeout)]
        self.ranks = [hosts.start(rank // 2, command, {**shared, "COLL_RANK": str(rank)}) for rank in range(4)]
        self.pids = []
        for rank in self.ranks:
            line = rank.stdout.readline()
            assert line.startswith("running "), line + rank.stdout.read()
            self.pids.append(int(line.split()[1]))
        time.sleep(0.3)

    def outcome(self, rank: int) -> tuple[str, list[int], float]:
        text = self.ranks[rank].communicate(timeout=40)[0]
        lines = text.splitlines()
        assert len(lines) == 2, text
        kind, ranks, seconds, message = lines[0].split("|", 3)
        word, closing = lines[1].split()
        assert word == "closed" and float(closing) < 12
        assert self.ranks[rank].returncode == 0
        return kind, json.loads(ranks), float(seconds)


@pytest.fixture(params=[1, 3_000_000], ids=["small", "large"])
def length(request):
    return request.param


def test_ranks_of_a_host_are_killed(two_hosts, length):
    job = Job(two_hosts, length, timeout=20)
    for pid in job.pids[2:]:
        os.kill(pid, signal.SIGKILL)
    for rank in (0, 1):
        kind, ranks, seconds = job.outcome(rank)
        assert kind == "RankFailedError" and ranks and set(ranks) <= {2, 3}
        assert seconds < 5


def test_a_rank_of_the_other_host_is_stopped(two_hosts, length):
    job = Job(two_hosts, length, timeout=2)
    os.kill(job.pids[3], signal.SIGSTOP)
    for rank in (0, 1, 2):
        kind, ranks, seconds = job.outcome(rank)
        assert kind in ("CollTimeoutError", "RankFailedError") and ranks
        assert seconds < 7
    os.kill(job.pids[3], signal.SIGKILL)


def test_the_plug_of_a_host_is_pulled(two_hosts, length):
    job = Job(two_hosts, length, timeout=3)
    two_hosts.link(1, "down")
    for rank in range(4):
        kind, ranks, seconds = job.outcome(rank)
        there = {2, 3} if rank < 2 else {0, 1}
        assert kind in ("CollTimeoutError", "RankFailedError") and ranks and set(ranks) & there
        assert seconds < 8
