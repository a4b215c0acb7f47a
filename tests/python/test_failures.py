"""What goes wrong between ranks: calls that do not match, errors of one rank, time-outs, deaths, interrupts."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from ranks import meet, ranks

import pycoll


@ranks(3)
def test_dtypes_that_differ(comm):
    x = np.ones(4, np.float32 if comm.rank == 1 else np.float64)
    with pytest.raises(pycoll.MismatchError) as caught:
        comm.allreduce(x)
    assert "float32" in str(caught.value) and "float64" in str(caught.value)
    assert caught.value.operation == "allreduce"


@ranks(3)
def test_counts_that_differ(comm):
    for count in (1000, 1 << 20):
        part = comm.dup()
        x = np.ones(count + (part.rank == 2))
        with pytest.raises(pycoll.MismatchError) as caught:
            part.allreduce(x)
        assert str(count) in str(caught.value) and str(count + 1) in str(caught.value), str(caught.value)


@ranks(2)
def test_collectives_that_differ(comm):
    with pytest.raises(pycoll.MismatchError) as caught:
        if comm.rank == 0:
            comm.allreduce(np.ones(3))
        else:
            comm.broadcast(np.ones(3))
    assert "allreduce" in str(caught.value) and "broadcast" in str(caught.value)
    with pytest.raises(pycoll.CommClosedError):
        comm.barrier()


@ranks(3)
def test_an_error_of_one_rank_is_raised_on_all(comm):
    """The others name the rank that made it, and the communicator still works."""
    mistakes = [
        lambda: comm.allreduce([1.0]),
        lambda: comm.allreduce(np.zeros(2), np.zeros(3)),
        lambda: comm.allreduce(np.zeros(2), op="nonsense"),
        lambda: comm.allreduce(np.zeros(2), op="band"),
        lambda: comm.allreduce(np.zeros(2), timeout=-1),
        lambda: comm.iallreduce("text"),
    ]
    for mistake in mistakes:
        begin = time.monotonic()
        if comm.rank == 1:
            with pytest.raises((TypeError, ValueError)) as caught:
                mistake()
            assert isinstance(caught.value, pycoll.CollError) and caught.value.code < 0
        else:
            with pytest.raises(pycoll.PeerError) as caught:
                comm.allreduce(np.zeros(2))
            assert caught.value.ranks == (1,) and "rank 1" in str(caught.value)
        assert time.monotonic() - begin < 5
        assert comm.allreduce(np.ones(1)).tolist() == [3]
    with pytest.raises(ValueError if comm.rank == 2 else pycoll.PeerError):
        comm.split(-4 if comm.rank == 2 else 0)
    assert comm.split(0).size == 3


@ranks(2, 4)
def test_the_same_error_on_every_rank(comm):
    for _ in range(20):
        with pytest.raises(TypeError, match="x is a list"):
            comm.allreduce([1, 2, 3])
        with pytest.raises(ValueError, match="op is 'nonsense'"):
            comm.reduce(np.zeros(2), op="nonsense")
        with pytest.raises(TypeError, match="op band does not apply to float64, allowed are"):
            comm.allreduce(np.zeros(2), op="band")
        assert comm.allreduce(np.ones(1)).tolist() == [comm.size]


@ranks(3)
def test_timeout_of_a_call(comm, tmp_path):
    """It is honoured, names the missing rank, and breaks the communicator, but not the others."""
    other = comm.dup()
    if comm.rank != 2:
        begin = time.monotonic()
        with pytest.raises(pycoll.CollTimeoutError) as caught:
            comm.allreduce(np.ones(2), timeout=0.5)
        assert 0.4 < time.monotonic() - begin < 1.6
        assert isinstance(caught.value, TimeoutError)
        assert 2 in caught.value.ranks and "2" in str(caught.value)
        assert caught.value.operation == "allreduce" and caught.value.sequence is not None
        with pytest.raises(pycoll.CommClosedError):
            comm.barrier()
    meet(tmp_path, "done", comm.rank, comm.size)
    assert other.allreduce(np.ones(1)).tolist() == [3]


@ranks(2, env={"COLL_TIMEOUT": "0.5"})
def test_timeout_of_the_environment_and_of_a_request(comm, tmp_path):
    other = comm.dup(timeout=20)
    if comm.rank == 0:
        for wait in (lambda: comm.irecv(np.zeros(1), 1).wait(), lambda: other.ibarrier().wait(timeout=0.3)):
            begin = time.monotonic()
            with pytest.raises(pycoll.CollTimeoutError):
                wait()
            assert 0.25 < time.monotonic() - begin < 1.6
    meet(tmp_path, "done", comm.rank, comm.size)


@ranks(3)
def test_a_late_rank_is_waited_for(tmp_path):
    """init(timeout=60) and a rank that comes 3 s late: every collective succeeds."""
    comm = pycoll.init(timeout=60)
    calls = [
        lambda: comm.barrier(),
        lambda: comm.allreduce(np.ones(2)),
        lambda: comm.broadcast(np.ones(2)),
        lambda: comm.allgather(np.ones(2)),
        lambda: comm.reduce(np.ones(2), timeout=30),
    ]
    if comm.rank == 1:
        time.sleep(3)
    for call in calls:
        if comm.rank == 1:
            time.sleep(0.3)
        call()


def kill(rank, number):
    def act(job):
        job.wait_for(*(f"ready{each}" for each in range(job.size)))
        time.sleep(0.1)
        job.processes[rank].send_signal(number)

    return act


@ranks(3, codes={1: -signal.SIGKILL}, before=kill(1, signal.SIGKILL))
def test_a_killed_rank_is_named(comm, tmp_path):
    meet(tmp_path, "ready", comm.rank, comm.size)
    x = np.ones(100_000)
    begin = time.monotonic()
    with pytest.raises(pycoll.RankFailedError) as caught:
        while True:
            comm.allreduce(x)
            begin = time.monotonic()
    assert time.monotonic() - begin < 2.5
    assert caught.value.ranks == (1,) and "rank 1" in str(caught.value)
    with pytest.raises((pycoll.CommClosedError, pycoll.RankFailedError)):
        comm.barrier()
    begin = time.monotonic()
    comm.close()
    assert time.monotonic() - begin < 5


def stop_and_go_on(job):
    kill(1, signal.SIGSTOP)(job)
    job.wait_for("late0", "late2")
    job.processes[1].send_signal(signal.SIGCONT)


@ranks(3, before=stop_and_go_on)
def test_a_stopped_rank_is_named(comm, tmp_path):
    meet(tmp_path, "ready", comm.rank, comm.size)
    if comm.rank == 1:
        while not ((tmp_path / "late0").exists() and (tmp_path / "late2").exists()):
            time.sleep(0.01)
        return
    time.sleep(0.3)
    begin = time.monotonic()
    with pytest.raises(pycoll.CollTimeoutError) as caught:
        comm.barrier(timeout=0.5)
    assert 0.4 < time.monotonic() - begin < 1.6
    assert 1 in caught.value.ranks
    meet(tmp_path, "late", comm.rank // 2 * 2, 1)
    (tmp_path / f"late{comm.rank}").touch()


def interrupt(job):
    job.wait_for("ready0", "ready1")
    time.sleep(0.5)
    job.processes[0].send_signal(signal.SIGINT)
    job.wait_for("interrupted0")


@ranks(2, before=interrupt)
def test_ctrl_c_ends_a_blocked_call(comm, tmp_path):
    meet(tmp_path, "ready", comm.rank, comm.size)
    if comm.rank == 0:
        timer = threading.Timer(20, os._exit, [9])
        timer.start()
        tidied = False
        with pytest.raises(KeyboardInterrupt):
            try:
                comm.allreduce(np.ones(3))
            finally:
                tidied = True
        assert tidied
        timer.cancel()
        with pytest.raises(pycoll.CollError):
            comm.barrier()
        (tmp_path / "interrupted0").touch()
    else:
        while not (tmp_path / "interrupted0").exists():
            time.sleep(0.01)
        with pytest.raises(pycoll.CollError, match="rank 0 .*KeyboardInterrupt"):
            while True:  # what rank 0 had sent before it gave up may be enough for one
                comm.allreduce(np.ones(3))


@ranks(2, before=interrupt)
def test_ctrl_c_ends_the_wait_for_a_request(comm, tmp_path):
    request = comm.irecv(np.zeros(1), 1 - comm.rank)
    meet(tmp_path, "ready", comm.rank, comm.size)
    if comm.rank == 0:
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            request.wait()
        assert time.monotonic() - begin < 2.5
        (tmp_path / "interrupted0").touch()
    else:
        with pytest.raises(pycoll.CollError):
            request.wait(timeout=10)


@ranks(2, before=interrupt)
def test_a_signal_whose_handler_returns_disturbs_nothing(comm, tmp_path):
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
    meet(tmp_path, "ready", comm.rank, comm.size)
    if comm.rank == 1:
        time.sleep(1.5)
    begin = time.monotonic()
    assert comm.allreduce(np.ones(3)).tolist() == [2, 2, 2]
    if comm.rank == 0:
        assert len(seen) == 1 and seen[0] - begin < 1.5
        (tmp_path / "interrupted0").touch()
    comm.barrier()


def interrupt_init(job):
    job.wait_for("starting0")
    time.sleep(0.7)
    job.processes[0].send_signal(signal.SIGINT)


@ranks(2, before=interrupt_init)
def test_ctrl_c_ends_init(tmp_path):
    if os.environ["COLL_RANK"] == "0":
        (tmp_path / "starting0").touch()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            pycoll.init()
        assert time.monotonic() - begin < 3


@ranks(3, codes={rank: 7 if rank == 1 else 0 for rank in range(3)})
def test_abort(comm):
    if comm.rank == 1:
        comm.abort("the weights are not finite", code=7)
    with pytest.raises(pycoll.CollError, match="the weights are not finite"):
        while True:
            comm.allreduce(np.ones(10))


@ranks(2)
def test_use_after_fork(comm):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            comm.barrier()
        except pycoll.CollError as error:
            code = 0 if "fork" in str(error) else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    comm.barrier()


@ranks(1)
def test_wrong_timeouts(comm):
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout is"):
            comm.barrier(timeout=wrong)
    with pytest.raises(TypeError, match="timeout is 'soon'"):
        comm.barrier(timeout="soon")
    comm.barrier(timeout=float("inf"))
    comm.barrier(timeout=np.float32(2))
