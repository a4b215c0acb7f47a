"""`pycoll run` and libcoll together: what a job looks like from outside when a rank fails inside a collective."""

import os
import signal
import time

import pytest
from launch_support import Launch, script


def job(tmp_path, size, text, *options):
    program = script(tmp_path, "import os, sys, time\nimport numpy as np\nimport pycoll\ncomm = pycoll.init()\n" + text)
    return Launch("-n", size, *options, program)


def test_exception_on_one_rank_before_a_barrier(tmp_path):
    """F3: its traceback, tagged; all gone within 10 s; exit code not 0."""
    begin = time.monotonic()
    launch = job(tmp_path, 4, "if comm.rank == 2: raise ValueError('the cause')\ncomm.barrier()\n")
    result = launch.finish()
    assert time.monotonic() - begin < 10 and launch.gone_within(0)
    assert result.code == 1
    assert "rank 2 of 4 failed first, with exit code 1" in result.err, result
    assert "[2] Traceback (most recent call last):" in result.err and "[2] ValueError: the cause" in result.err
    assert "RankFailedError" in result.err


def test_rank_killed_in_an_allreduce(tmp_path):
    launch = job(tmp_path, 4, "if comm.rank == 1: os.kill(os.getpid(), 9)\nwhile True: comm.allreduce(np.ones(1000))\n")
    result = launch.finish()
    assert result.code == 137 and launch.gone_within(0)
    assert "rank 1 of 4 failed first, by SIGKILL (signal 9)" in result.err, result


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_in_an_allreduce(tmp_path, times):
    """F7: KeyboardInterrupt, `finally` runs, no orphan."""
    text = (
        "print('up', flush=True)\n"
        "try:\n    while comm.rank < 2: comm.barrier()\n    time.sleep(600)\n"
        "finally:\n    print('tidied', flush=True)\n"
    )
    launch = job(tmp_path, 3, text)
    for _ in range(3):
        assert launch.process.stdout.readline() == b"up\n"
    time.sleep(0.3)
    for _ in range(times):
        launch.process.send_signal(signal.SIGINT)
        time.sleep(0.1 * (times - 1))
    begin = time.monotonic()
    result = launch.finish()
    assert result.code == 130 and time.monotonic() - begin < 6 and launch.gone_within(0)
    assert times == 2 or result.out == "tidied\n" * 3, result


def test_abort_gives_the_code(tmp_path):
    launch = job(tmp_path, 3, "if comm.rank == 1: comm.abort('enough', code=42)\ncomm.barrier()\n")
    result = launch.finish()
    assert result.code == 42 and "rank 1 of 3 failed first, with exit code 42" in result.err, result
    assert "enough" in result.err and launch.gone_within(0)


def test_nothing_is_left_of_a_killed_job(tmp_path):
    """The launcher is killed in the middle of traffic: no process, no file, no socket remains."""
    files = sorted(os.listdir("/dev/shm"))
    launch = job(tmp_path, 4, "print('up', flush=True)\nwhile True: comm.allreduce(np.ones(10000))\n")
    for _ in range(4):
        assert launch.process.stdout.readline() == b"up\n"
    launch.process.kill()
    assert launch.gone_within(5)
    launch.finish()
    assert sorted(os.listdir("/dev/shm")) == files


def test_job_started_from_a_rank(tmp_path):
    """A rank may start a job of its own; the two do not take each other for one."""
    inner = script(
        tmp_path, "import pycoll\ncomm = pycoll.init()\ncomm.barrier()\nprint('inner', comm.rank, comm.size)\n", "i.py"
    )
    text = (
        "import subprocess\n"
        f"command = [sys.executable, '-m', 'pycoll', 'run', '-n', '2', {str(inner)!r}]\n"
        "if comm.rank == 0: subprocess.run(command, check=True)\n"
        "comm.barrier()\nprint('outer', comm.rank, comm.size)\n"
    )
    result = job(tmp_path, 3, text).finish()
    assert result.code == 0, result
    assert sorted(result.out.splitlines()) == ["inner 0 2", "inner 1 2", *(f"outer {rank} 3" for rank in range(3))]


def test_init_again_and_again(tmp_path):
    """The job of a program that finalizes goes on at the launcher's address."""
    text = (
        "for _ in range(4):\n    comm = pycoll.init()\n    assert comm.allreduce(np.ones(1))[0] == comm.size\n"
        "    pycoll.finalize()\n"
    )
    result = job(tmp_path, 3, text).finish()
    assert result.code == 0, result
