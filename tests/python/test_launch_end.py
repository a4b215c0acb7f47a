"""How `pycoll run` ends when a rank fails or the time is over."""

import signal
import subprocess
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


# ---- ranks that fail ----


@pytest.mark.parametrize("code", [1, 3, 255])
def test_exit_code_of_the_failing_rank(code):
    result = run("-n", 3, "sh", "-c", f'[ "$COLL_RANK" = 1 ] && exit {code}; exit 0')
    assert result.code == code
    assert f"rank 1 of 3 failed first, with exit code {code}" in result.err


@pytest.mark.parametrize("name", ["SEGV", "KILL", "ABRT"])
def test_exit_code_of_a_rank_killed_by_a_signal(name):
    result = run("-n", 2, "sh", "-c", f"ulimit -c 0; [ $COLL_RANK = 0 ] && kill -{name} $$; exit 0")
    number = signal.Signals[f"SIG{name}"]
    assert result.code == 128 + number
    assert f"rank 0 of 2 failed first, by SIG{name} (signal {number:d})" in result.err


def test_success_is_silent():
    result = run("-n", 3, "true")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_a_failing_rank_ends_the_others_and_is_shown(tmp_path):
    """F3 without the library: the others wait for ever."""
    program = script(
        tmp_path,
        """
        import os, time
        if os.environ["COLL_RANK"] == "2":
            raise ValueError("the cause")
        time.sleep(600)
        """,
    )
    begin = time.monotonic()
    launch = Launch("-n", 4, program)
    result = launch.finish()
    assert time.monotonic() - begin < 10 and launch.gone_within(0)
    assert result.code == 1
    assert "rank 2 of 4 failed first, with exit code 1" in result.err
    assert "[2] ValueError: the cause" in result.err and "[2] Traceback (most recent call last):" in result.err


def test_the_traceback_is_repeated_below_the_noise_of_others(tmp_path):
    program = script(
        tmp_path,
        """
        import os, sys, time
        if os.environ["COLL_RANK"] == "1":
            raise ValueError("the cause")
        time.sleep(0.5)
        for i in range(500):
            print("noise", i, file=sys.stderr)
        sys.exit(9)
        """,
    )
    result = run("-n", 3, "--tag-output", program)
    report = result.err[result.err.index("pycoll run: rank 1 of 3 failed first") :].splitlines()
    assert result.code == 1
    assert report[1].startswith("---- the last lines that rank 1 wrote")
    assert report[-1] == "[1] ValueError: the cause" and not any("noise" in line for line in report)


def test_tagged_lines_without_noise_are_not_repeated():
    result = run("-n", 2, "--tag-output", "sh", "-c", '[ "$COLL_RANK" = 1 ] && { echo broken >&2; exit 4; }; exit 0')
    assert result.err.count("broken") == 1 and "rank 1 of 2 failed first" in result.err


def test_blame_goes_to_the_cause_not_to_the_first_exit(tmp_path):
    """Rank 1 fails but is slow to go; the others notice and are gone before it."""
    program = script(
        tmp_path,
        """
        import atexit, os, time
        class RankFailedError(RuntimeError):
            pass
        if os.environ["COLL_RANK"] == "1":
            atexit.register(time.sleep, 1)
            raise KeyError("the cause")
        time.sleep(0.3)
        raise RankFailedError("rank 1 left")
        """,
    )
    result = run("-n", 4, program)
    assert result.code == 1 and "rank 1 of 4 failed first" in result.err and "[1] KeyError: 'the cause'" in result.err


def test_ranks_that_ignore_sigterm_are_killed(tmp_path):
    program = script(
        tmp_path,
        """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.environ["COLL_RANK"] == "0":
            raise SystemExit(5)
        time.sleep(600)
        """,
    )
    begin = time.monotonic()
    launch = Launch("-n", 3, program)
    assert launch.finish().code == 5
    assert time.monotonic() - begin < 10 and launch.gone_within(0)


def test_one_rank():
    result = run("-n", 1, sys.executable, "-c", "raise ValueError('alone')")
    assert result.code == 1 and result.err.count("ValueError: alone") == 1
    assert "pycoll run: the program ended with exit code 1" in result.err


# ---- --timeout ----


@pytest.mark.parametrize("text", [WAIT, STUBBORN])
def test_timeout_ends_the_job(tmp_path, ready, text):
    begin = time.monotonic()
    launch = Launch("-n", 2, "--timeout", "1", script(tmp_path, text), ready)
    result = launch.finish()
    assert result.code == 124 and "has run for 1 s (--timeout)" in result.err
    assert 1 <= time.monotonic() - begin < 7 and launch.gone_within(0)


def test_timeout_of_a_python_program_shows_where_it_was(tmp_path, ready):
    result = run("-n", 1, "--timeout", "1.5", script(tmp_path, WAIT), ready)
    assert result.code == 124 and "time.sleep(600)" in result.err


def test_timeout_that_is_not_needed():
    assert run("-n", 2, "--timeout", "60", "true").code == 0


def test_output_before_the_end_is_not_lost(tmp_path):
    program = "import os, sys, time; print('x' * 70000); time.sleep(600 * (os.environ['RANK'] == '0')); sys.exit(2)"
    result = run("-n", 2, sys.executable, "-c", program)
    assert result.code == 2 and result.out == ("x" * 70000 + "\n") * 2


def test_no_shell_is_left_waiting(tmp_path):
    """A pipe that a background process holds open does not keep pycoll waiting."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pycoll", "run", "-n", "1", "sh", "-c", "sleep 600 & echo started"], stdout=-1
    )
    assert done.stdout == b"started\n" and time.monotonic() - begin < 10
