"""`pycoll run --hosts`: several hosts through a program that stands for ssh and runs everything here."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launch_support import Launch, run, script

#: Notes the host it was called for, and runs the command line in a shell, in an environment of its own, as sshd does.
FAKE_SSH = """
#!/bin/sh
test $# -eq 2 || { echo "called with $# arguments" >&2; exit 99; }
echo "$1 $$ $2" >> {log}
case "$1" in
    unreachable) echo "ssh: connect to host unreachable port 22: No route to host" >&2; exit 255;;
    greets*) echo "Welcome to $1!"; echo "(no mail)";;
    silent) sleep 600;;
    stranger) head -c 5 > /dev/null; exit 0;;
esac
cd /
exec env -i PATH="$PATH" HOME="$HOME" {mark} sh -c "$2"
"""


class Hosts:
    def __init__(self, folder: Path) -> None:
        self.log = folder / "ssh.log"
        self.program = folder / "fake ssh"
        text = FAKE_SSH.strip().replace("{log}", f"'{self.log}'").replace("{mark}", 'COLL_TEST_MARK="$COLL_TEST_MARK"')
        self.program.write_text(text)
        self.program.chmod(0o755)
        self.ssh = f"'{self.program}'"

    def run(self, *arguments, **options):
        return run("--ssh", self.ssh, *arguments, **options)

    def start(self, *arguments, **options):
        return Launch("--ssh", self.ssh, *arguments, **options)

    def calls(self) -> list[list[str]]:
        return [line.split(" ", 2) for line in self.log.read_text().splitlines()]


@pytest.fixture
def hosts(tmp_path):
    return Hosts(tmp_path)


SHOW = """
import json, os, sys
print(json.dumps([dict(os.environ), sys.argv[1:], os.getcwd(), sys.stdin.read()]))
"""


def show(result):
    assert result.code == 0, result
    ranks = [json.loads(line) for line in result.out.splitlines()]
    return sorted(ranks, key=lambda rank: int(rank[0]["COLL_RANK"]))


def test_two_hosts(hosts, tmp_path):
    arguments = ["", "a b", "'\"", "$HOME;exit", "\\", "é", "\n"]
    program = script(tmp_path, SHOW)
    extra = {
        "COLL_TIMEOUT": "77",
        "FI_PROVIDER": "tcp",
        "LD_LIBRARY_PATH": "/some where",
        "SECRETIVE": "no",
        "COLL_RANK": "9",
    }
    ranks = show(
        hosts.run(
            "--hosts", "127.0.0.1:2,127.0.0.2:1", "--env", "SAID=1 2", program, *arguments, env=extra, cwd=tmp_path
        )
    )
    assert [host for host, _, _ in hosts.calls()] == ["127.0.0.1", "127.0.0.2"]
    places = [
        [rank[0][name] for name in ("COLL_RANK", "COLL_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")] for rank in ranks
    ]
    assert places == [["0", "3", "0", "2"], ["1", "3", "1", "2"], ["2", "3", "0", "1"]]
    for env, argv, directory, stdin in ranks:
        assert argv == arguments and directory == str(tmp_path) and stdin == ""
        assert env["COLL_TIMEOUT"] == "77" and env["FI_PROVIDER"] == "tcp" and env["LD_LIBRARY_PATH"] == "/some where"
        assert env["SAID"] == "1 2" and "SECRETIVE" not in env and "COLL_NODE" not in env
        assert env["COLL_ADDR"] == "127.0.0.1" and env["COLL_PORT"] == ranks[0][0]["COLL_PORT"]
        assert env["COLL_SECRET"] == ranks[0][0]["COLL_SECRET"] and len(env["COLL_SECRET"]) == 64
    assert ranks[0][0]["COLL_SECRET"] not in hosts.log.read_text()


def test_ranks_of_two_hosts_can_meet(hosts, tmp_path):
    program = script(
        tmp_path,
        """
        import os, socket
        where = os.environ["COLL_ADDR"], int(os.environ["COLL_PORT"])
        if "COLL_LISTEN_FD" in os.environ:
            listener = socket.socket(fileno=int(os.environ["COLL_LISTEN_FD"]))
            for _ in range(3):
                listener.accept()[0].sendall(b"welcome")
        else:
            print(socket.create_connection(where, 10).recv(100).decode())
        """,
    )
    result = hosts.run("--hosts", "127.0.0.2:2,127.0.0.3:2", program)
    assert result.code == 0 and result.out == "welcome\n" * 3, result


def test_fewer_ranks_than_slots_and_a_host_named_twice(hosts, tmp_path):
    program = script(tmp_path, SHOW)
    ranks = show(hosts.run("-n", 3, "--hosts", "127.0.0.1,127.0.0.2:1,127.0.0.1:1,127.0.0.4:7", program))
    assert [(rank[0]["LOCAL_RANK"], rank[0]["LOCAL_WORLD_SIZE"]) for rank in ranks] == [
        ("0", "2"),
        ("0", "1"),
        ("1", "2"),
    ]
    assert [host for host, _, _ in hosts.calls()] == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]


def test_standard_input_of_rank_0_on_another_host(hosts, tmp_path):
    data = os.urandom(400_000).hex().encode()
    result = hosts.run("--hosts", "127.0.0.1:2", "--tag-output", "sh", "-c", "wc -c", input=data)
    assert sorted(result.out.splitlines()) == [f"[0] {len(data)}", "[1] 0"]
    # A rank that does not read, and one that reads only the beginning, hold nothing up.
    assert hosts.run("--hosts", "127.0.0.1:1", "true", input=data).code == 0
    assert hosts.run("--hosts", "127.0.0.1:1", "head", "-c", "3", input=data).out == data[:3].decode()


def test_flood_from_two_hosts(hosts):
    result = hosts.run(
        "--hosts", "127.0.0.1:1,127.0.0.2:1", sys.executable, "-c",
        "import os; r = os.environ['COLL_RANK']; [print(r * 99) for _ in range(50_000)]",
    )  # fmt: skip
    assert result.code == 0
    assert sorted(result.out.splitlines()) == ["0" * 99] * 50_000 + ["1" * 99] * 50_000


def test_a_remote_shell_may_greet(hosts):
    result = hosts.run("--hosts", "127.0.0.1:1,greets@127.0.0.1:1", "sh", "-c", "echo $COLL_RANK")
    assert result.code == 0 and sorted(result.out.split()) == ["0", "1"]


def test_failure_names_rank_and_host(hosts, tmp_path):
    program = script(
        tmp_path, "import os, time\nif os.environ['RANK'] == '2': raise ValueError('far')\ntime.sleep(600)\n"
    )
    launch = hosts.start("--hosts", "127.0.0.1:2,127.0.0.2:2", program)
    result = launch.finish()
    assert result.code == 1 and "rank 2 of 4 on host '127.0.0.2' failed first, with exit code 1" in result.err
    assert "[2] ValueError: far" in result.err and launch.gone_within(2)


def test_signals_reach_every_host(hosts):
    launch = hosts.start("--hosts", "127.0.0.1:1,127.0.0.2:2", "sh", "-c", "echo up; exec sleep 600")
    for _ in range(3):
        assert launch.process.stdout.readline() == b"up\n"
    launch.process.send_signal(signal.SIGINT)
    result = launch.finish()
    assert result.code == 130 and launch.gone_within(2)


@pytest.mark.parametrize("victim", ["launcher", "connection"])
def test_nobody_is_left_behind(hosts, tmp_path, victim):
    program = script(
        tmp_path,
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("up")
        time.sleep(600)
        """,
    )
    launch = hosts.start("--hosts", "127.0.0.1:2,127.0.0.2:2", program)
    for _ in range(4):
        assert launch.process.stdout.readline() == b"up\n"
    if victim == "launcher":
        launch.process.kill()
        launch.process.wait()
    else:  # `exec` in the command line made the agent of the process that was ssh
        os.kill(int(hosts.calls()[1][1]), signal.SIGKILL)
        result = launch.finish()
        assert result.code == 1
        assert "host '127.0.0.2': the connection was lost" in result.err and "ranks 2, 3" in result.err
    assert launch.gone_within(5)
    launch.finish()


# ---- hosts that cannot be used: the message names the host and says what to do ----


def refused(result, *words):
    assert result.code != 0 and result.out == "", result
    assert "Traceback" not in result.err, result
    for word in words:
        assert word in result.err, result


def test_unreachable_host(hosts):
    launch = hosts.start("--hosts", "127.0.0.1:1,unreachable:1", "sleep", "600")
    begin = time.monotonic()
    refused(launch.finish(), "host 'unreachable': ", "No route to host", "could not log in", "without a password")
    assert time.monotonic() - begin < 10 and launch.gone_within(2)


def test_no_python_there(hosts):
    refused(
        hosts.run("--python", "/no/python3", "--hosts", "127.0.0.1:1", "true"),
        "host '127.0.0.1'",
        "/no/python3",
        "--python",
    )


def test_no_pycoll_there(hosts, tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {sys.executable} -I -S "$@"\n')
    other.chmod(0o755)
    result = hosts.run("--python", other, "--hosts", "127.0.0.1:1", "true")
    refused(result, "host '127.0.0.1'", "pycoll is not installed", str(other), "--python")


def test_something_else_answers(hosts):
    refused(hosts.run("--hosts", "stranger:1", "true"), "host 'stranger'", "no agent answered")


def test_no_such_directory_there(hosts, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nrmdir '{gone}'\nexec {hosts.ssh} \"$@\"\n")
    wrapper.chmod(0o755)
    result = run("--ssh", wrapper, "--hosts", "127.0.0.1:1", "true", cwd=gone)
    refused(result, "host '127.0.0.1'", "cannot change to", "every host")


def test_no_such_program_there(hosts):
    refused(
        hosts.run("--hosts", "127.0.0.1:1,127.0.0.2:1", "no-such-program"),
        "host '127.0.0.1'",
        "no-such-program",
        "PATH",
    )


def test_no_such_ssh():
    refused(run("--ssh", "/no/ssh -v", "--hosts", "a:1", "true"), "/no/ssh", "--ssh")


def test_name_that_resolves_to_loopback_is_no_address_for_others(hosts, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    result = hosts.run("--hosts", "localhost:1,192.0.2.1:1", "true")
    refused(result, "host 'localhost'", "cannot listen", "address that the other hosts use")


def test_interrupt_while_a_host_does_not_answer(hosts):
    launch = hosts.start("--hosts", "silent:1", "true")
    while not hosts.log.exists():
        time.sleep(0.01)
    launch.process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    assert launch.finish().code == 130
    assert time.monotonic() - begin < 10 and launch.gone_within(2)


def test_a_host_that_does_not_answer_in_time(hosts):
    code = (
        "import sys, pycoll.launch as launch; launch.CONNECT = 0.5\n"
        f"job = launch.Job(['true'], hosts=launch.parse_hosts('127.0.0.1:1,silent:1'), ssh={hosts.ssh!r})\n"
        "sys.exit(launch.run(job))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "host 'silent': no answer within 0.5 s" in done.stderr, done
