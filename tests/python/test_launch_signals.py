"""Signals to `pycoll run`, and the death of any part of it: nobody is left behind."""

import os
import signal
import sys
import time

import pytest
from launch_support import Launch, run, script

#: Each rank makes a file when it is ready, then does what its test says.
READY = """
import os, signal, sys, time
rank = int(os.environ["COLL_RANK"])
def ready():
    open(os.path.join(sys.argv[1], str(rank)), "w").close()
"""
WAIT = READY + "ready()\ntime.sleep(600)\n"
STUBBORN = (
    READY
    + "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    + ("ready()\ntime.sleep(600)\n")
)


@pytest.fixture
def ready(tmp_path):
    folder = tmp_path / "ready"
    folder.mkdir()
    return folder


def test_sigint_becomes_keyboard_interrupt_and_finally_runs(tmp_path, ready):
    text = READY + "try:\n    ready(); time.sleep(600)\nexcept KeyboardInterrupt:\n    print('tidied'); raise\n"
    launch = Launch("-n", 3, script(tmp_path, text), ready)
    launch.wait_for(ready, 3)
    begin = time.monotonic()
    launch.process.send_signal(signal.SIGINT)
    result = launch.finish()
    assert result.code == 130 and result.out == "tidied\n" * 3
    assert "ended by SIGINT" in result.err
    assert time.monotonic() - begin < 4 and launch.gone_within(0)


def test_sigterm_is_forwarded_as_such(tmp_path, ready):
    text = READY + (
        "def handler(number, _):\n    print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, handler); ready(); time.sleep(600)\n"
    )
    launch = Launch("-n", 2, script(tmp_path, text), ready)
    launch.wait_for(ready, 2)
    launch.process.send_signal(signal.SIGTERM)
    result = launch.finish()
    assert result.out == "saved\n" * 2 and result.code == 0
    launch = Launch("-n", 2, "sleep", "600")
    time.sleep(0.5)
    launch.process.send_signal(signal.SIGTERM)
    assert launch.finish().code == 143


@pytest.mark.parametrize("times, limit", [(1, 9), (2, 4)])
def test_ranks_that_ignore_the_signal_are_killed(tmp_path, ready, times, limit):
    launch = Launch("-n", 3, script(tmp_path, STUBBORN), ready)
    launch.wait_for(ready, 3)
    begin = time.monotonic()
    for _ in range(times):
        launch.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    assert launch.finish().code == 130
    assert time.monotonic() - begin < limit and launch.gone_within(0)


def test_ctrl_c_ends_the_children_of_ranks_too():
    launch = Launch("-n", 2, "sh", "-c", "sleep 600; sleep 600")
    time.sleep(0.5)
    launch.process.send_signal(signal.SIGINT)
    assert launch.finish().code == 130 and launch.gone_within(1)


def test_sigint_reaches_ranks_of_a_job_in_the_background(tmp_path, ready):
    """A shell without job control starts `command &` with SIGINT ignored; ranks must not inherit that."""
    text = READY + "try:\n    ready(); time.sleep(600)\nexcept KeyboardInterrupt:\n    print('tidied')\n"
    launch = Launch(
        "-n", 2, script(tmp_path, text), ready, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    launch.wait_for(ready, 2)
    launch.process.send_signal(signal.SIGINT)
    result = launch.finish()
    assert result.out == "tidied\n" * 2 and result.code == 0


def test_what_the_caller_ignores_and_blocks_is_not_inherited(tmp_path):
    def odd():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD})

    program = "import signal; print(signal.pthread_sigmask(0, ()), signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)"
    result = run("-n", 2, sys.executable, "-c", program, preexec_fn=odd)
    assert result.code == 0 and result.out == "set() True\n" * 2, result


def test_signals_work_while_nobody_reads_the_output(tmp_path):
    launch = Launch("-n", 2, "sh", "-c", "yes")
    time.sleep(1)
    launch.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    launch.process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    launch.process.wait(15)
    assert time.monotonic() - begin < 10 and launch.gone_within(1)
    launch.process.communicate()


def test_reader_that_goes_away(tmp_path):
    launch = Launch("-n", 2, "sh", "-c", "yes")
    launch.process.stdout.read(1000)
    launch.process.stdout.close()
    begin = time.monotonic()
    assert launch.process.wait(15) == 128 + signal.SIGPIPE
    assert time.monotonic() - begin < 5 and launch.gone_within(1)
    assert launch.process.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_user_signals_are_passed_on(tmp_path, ready, number):
    text = READY + f"signal.signal({number:d}, lambda *_: sys.exit(print('got it')))\nready()\ntime.sleep(600)\n"
    launch = Launch("-n", 2, script(tmp_path, text), ready)
    launch.wait_for(ready, 2)
    launch.process.send_signal(number)
    result = launch.finish()
    assert result.code == 0 and result.out == "got it\n" * 2


# ---- death of the machinery ----


def test_kill_9_of_the_launcher_leaves_nobody(tmp_path, ready):
    text = STUBBORN.replace("ready()\n", "ready()\nimport subprocess; subprocess.Popen(['setsid', 'sleep', '600'])\n")
    launch = Launch("-n", 3, script(tmp_path, text), ready)
    launch.wait_for(ready, 3)
    assert len(launch.left_behind()) >= 4
    launch.process.kill()
    assert launch.gone_within(5)
    launch.finish()


def test_kill_9_of_the_launchers_process_group(tmp_path, ready):
    launch = Launch("-n", 3, script(tmp_path, WAIT), ready)
    launch.wait_for(ready, 3)
    os.killpg(launch.process.pid, signal.SIGKILL)
    assert launch.gone_within(5)
    launch.finish()


def test_kill_9_of_the_agent(tmp_path, ready):
    launch = Launch("-n", 2, "sh", "-c", f"{sys.executable} {script(tmp_path, STUBBORN)} {ready}; true")
    launch.wait_for(ready, 2)
    children = f"/proc/{launch.process.pid}/task/{launch.process.pid}/children"
    with open(children) as file:
        (agent,) = map(int, file.read().split())
    os.kill(agent, signal.SIGKILL)
    result = launch.finish()
    assert result.code == 1 and "the agent of ranks 0, 1 ended unexpectedly" in result.err
    assert launch.gone_within(2)


def test_kill_9_during_start(tmp_path):
    for delay in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        launch = Launch("-n", 4, "sleep", "600")
        time.sleep(delay)
        launch.process.kill()
        assert launch.gone_within(5)
        launch.finish()


def test_signals_during_start(tmp_path):
    for delay in (0.02, 0.06, 0.1, 0.14, 0.18, 0.25):
        launch = Launch("-n", 4, "sleep", "600")
        time.sleep(delay)
        launch.process.send_signal(signal.SIGINT)
        assert launch.finish().code != 0
        assert launch.gone_within(2)


def test_a_signal_after_a_failure_does_not_hide_it(tmp_path, ready):
    text = STUBBORN.replace("time.sleep(600)", "sys.exit(7) if rank == 1 else time.sleep(600)")
    launch = Launch("-n", 3, script(tmp_path, text), ready)
    launch.wait_for(ready, 3)
    time.sleep(1)
    launch.process.send_signal(signal.SIGINT)
    result = launch.finish()
    assert result.code == 7 and "rank 1 of 3 failed first, with exit code 7" in result.err, result
    assert launch.gone_within(0)
