"""`pycoll run` when all goes well: what ranks get, and what comes out."""

import hashlib
import os
import pty
import stat
import subprocess
import sys
import time

import pytest
from launch_support import PYCOLL, Launch, run, script

SHOW = """
import json, os, sys
names = ("COLL_RANK COLL_SIZE COLL_ADDR COLL_PORT COLL_SECRET COLL_LISTEN_FD RANK WORLD_SIZE LOCAL_RANK "
         "LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OMP_NUM_THREADS EXTRA").split()
seen = {name: os.environ.get(name) for name in names}
print(json.dumps([seen, sys.argv[1:], os.getcwd()]))
"""


def show(result):
    import json

    assert result.code == 0, result
    return sorted((json.loads(line) for line in result.out.splitlines()), key=lambda seen: int(seen[0]["COLL_RANK"]))


def test_ranks_know_their_place(tmp_path):
    stale = {"COLL_RANK": "7", "RANK": "7", "MASTER_ADDR": "far", "MASTER_PORT": "1", "COLL_LISTEN_FD": "9"}
    ranks = show(run("-n", 3, script(tmp_path, SHOW), env=stale))
    assert len(ranks) == 3
    for number, (env, _, _) in enumerate(ranks):
        assert env["COLL_RANK"] == env["RANK"] == env["LOCAL_RANK"] == str(number)
        assert env["COLL_SIZE"] == env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == "3"
        assert env["COLL_ADDR"] in ("127.0.0.1", "::1") and 0 < int(env["COLL_PORT"]) < 65536
        assert env["MASTER_ADDR"] is None and env["MASTER_PORT"] is None
        assert (env["COLL_LISTEN_FD"] is not None) == (number == 0)
    secrets = {env["COLL_SECRET"] for env, _, _ in ranks}
    assert len(secrets) == 1 and len(secrets.pop()) == 64
    assert show(run("-n", 1, script(tmp_path, SHOW)))[0][0]["COLL_SECRET"] != ranks[0][0]["COLL_SECRET"]


def test_rank_0_inherits_the_listening_socket_and_nobody_else_holds_it(tmp_path):
    program = script(
        tmp_path,
        """
        import os, socket
        where = os.environ["COLL_ADDR"], int(os.environ["COLL_PORT"])
        if os.environ["COLL_RANK"] == "0":
            listener = socket.socket(fileno=int(os.environ["COLL_LISTEN_FD"]))
            assert listener.getsockname()[:2] == where
            connection, _ = listener.accept()
            connection.sendall(b"welcome")
            connection.close()
            listener.close()
            try:
                socket.create_connection(where)
            except ConnectionRefusedError:
                print("closed")
        else:
            connection = socket.create_connection(where)
            print(connection.recv(100).decode())
        """,
    )
    result = run("-n", 2, program)
    assert result.code == 0 and sorted(result.out.split()) == ["closed", "welcome"], result


def test_the_secret_is_on_no_command_line(tmp_path):
    program = script(
        tmp_path,
        """
        import os
        secret = os.environ["COLL_SECRET"].encode()
        for name in os.listdir("/proc"):
            if name.isdecimal():
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        assert secret not in file.read(), name
                except OSError:
                    pass
        """,
    )
    assert run("-n", 2, program).code == 0


def test_arguments_arrive_as_they_were_given(tmp_path):
    arguments = ["", "a b", "'", '"', "$HOME", "`id`", "*", "\\", "-x", "--hosts", "-n", "é\n", "\udcff"]
    ranks = show(run("-n", 2, script(tmp_path, SHOW), *arguments))
    assert [rank[1] for rank in ranks] == [arguments] * 2


def test_module(tmp_path):
    package = tmp_path / "some_package"
    package.mkdir()
    script(package, SHOW, "__main__.py")
    ranks = show(run("-n", 2, "-m", "some_package", "--flag", "-n", "3", env={"PYTHONPATH": _path(tmp_path)}))
    assert [rank[1] for rank in ranks] == [["--flag", "-n", "3"]] * 2


def _path(*folders):
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_any_program(tmp_path):
    result = run("-n", 2, "sh", "-c", 'echo "rank $COLL_RANK of $COLL_SIZE"')
    assert result.code == 0 and sorted(result.out.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    program = script(tmp_path, "#!/bin/sh\necho mine $1\n", "tool")
    program.chmod(0o755)
    assert run("-n", 1, program, "x").out == "mine x\n"
    assert run("-n", 1, "./tool", "y", cwd=tmp_path).out == "mine y\n"


def test_env_option_and_threads(tmp_path):
    program = script(tmp_path, SHOW)
    ranks = show(run("-n", 2, "--env", "EXTRA=a=b c", "--env", "OMP_NUM_THREADS=5", program))
    assert [(env["EXTRA"], env["OMP_NUM_THREADS"]) for env, _, _ in ranks] == [("a=b c", "5")] * 2
    plain = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    many = 4 * os.cpu_count()
    code = "import os; assert os.environ['OMP_NUM_THREADS'] == '1'"
    done = subprocess.run([*PYCOLL, "run", "-n", str(many), sys.executable, "-c", code], env=plain, timeout=60)
    assert done.returncode == 0


def test_default_number_of_ranks_is_the_cpus_it_may_use():
    one = min(os.sched_getaffinity(0))
    result = run("sh", "-c", "echo $COLL_SIZE", preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    assert result.out == "1\n"


def test_tags_on_request(tmp_path):
    program = script(
        tmp_path,
        """
        import os, sys
        print("one\\n\\nthree")
        print("to stderr", file=sys.stderr)
        """,
    )
    result = run("-n", 2, "--tag-output", program)
    assert sorted(result.out.splitlines()) == sorted(f"[{r}] {text}" for r in (0, 1) for text in ("one", "", "three"))
    assert sorted(result.err.splitlines()) == ["[0] to stderr", "[1] to stderr"]
    plain = run("-n", 2, program)
    assert sorted(plain.out.splitlines()) == sorted(["one", "", "three"] * 2)


def test_flood_is_neither_lost_nor_mixed(tmp_path):
    program = script(
        tmp_path,
        """
        import hashlib, os, random, sys
        rank = os.environ["COLL_RANK"]
        random.seed(rank)
        digest, total, number = hashlib.sha256(), 0, 0
        while total < 5_000_000:
            line = f"{rank} {number} " + rank * random.choice((1, 80, 5000, 200_000)) + "\\n"
            digest.update(line.encode())
            sys.stdout.write(line)
            total += len(line)
            number += 1
        sys.stderr.write(f"{rank} {digest.hexdigest()}\\n")
        """,
    )
    result = run("-n", 2, program, timeout=60)
    assert result.code == 0 and len(result.out) > 10_000_000
    digests = {"0": hashlib.sha256(), "1": hashlib.sha256()}
    for line in result.out.splitlines(keepends=True):
        assert set(line.split()[2]) == {line[0]}, "a line holds pieces of both ranks"
        digests[line[0]].update(line.encode())
    assert sorted(result.err.splitlines()) == [f"{rank} {digest.hexdigest()}" for rank, digest in digests.items()]


def test_slow_reader_gets_everything(tmp_path):
    launch = Launch(
        "-n", 2, sys.executable, "-c", "print('x' * 99 + '\\n', end='' ) or [print('y' * 99) for _ in range(20000)]"
    )
    time.sleep(1.5)
    result = launch.finish()
    assert result.code == 0 and len(result.out) == 2 * 100 * 20001


def test_last_line_without_end():
    result = run("-n", 2, "--tag-output", "printf", "no newline")
    assert sorted(result.out.splitlines()) == ["[0] no newline", "[1] no newline"]


def test_prompt_is_shown_before_its_line_ends(tmp_path):
    program = script(
        tmp_path,
        """
        import os, sys
        if os.environ["COLL_RANK"] == "0":
            print("got", input("name? "))
        """,
    )
    launch = Launch("-n", 2, program, stdin=subprocess.PIPE)
    os.set_blocking(launch.process.stdout.fileno(), True)
    assert os.read(launch.process.stdout.fileno(), 100) == b"name? "
    assert launch.finish(input=b"me\n").out == "got me\n"


def test_standard_input_goes_to_rank_0_only():
    data = os.urandom(300_000).hex().encode()
    result = run("-n", 3, "--tag-output", "sh", "-c", "wc -c", input=data)
    assert sorted(result.out.split("\n")) == ["", f"[0] {len(data)}", "[1] 0", "[2] 0"]


def test_terminal(tmp_path):
    """Rank 0 reads from the terminal on which pycoll runs."""
    ours, theirs = pty.openpty()
    launch = Launch("-n", 2, "sh", "-c", "[ $COLL_RANK = 1 ] || { read a; echo got $a; }", stdin=theirs)
    os.write(ours, b"line\n")
    result = launch.finish()
    os.close(ours)
    os.close(theirs)
    assert result.out == "got line\n", result


def test_closed_standard_streams(tmp_path):
    mark = tmp_path / "mark"
    command = " ".join([*PYCOLL, "run", "-n", "2", "sh", "-c", f"'echo x; echo $COLL_RANK >> {mark}'", "<&- >&- 2>&-"])
    assert subprocess.run(["sh", "-c", command], timeout=30).returncode == 0
    assert sorted(mark.read_text().split()) == ["0", "1"]


def test_output_to_a_file_and_order_of_streams(tmp_path):
    both = tmp_path / "both"
    program = "import sys\nfor i in range(200):\n print(i)\n print(i, file=sys.stderr)"
    with open(both, "wb") as file:
        launch = Launch("-n", 1, sys.executable, "-c", program, stdout=file, stderr=file)
        assert launch.process.wait(30) == 0
    assert sorted(map(int, both.read_text().split())) == sorted(list(range(200)) * 2)


def test_jobs_do_not_disturb_each_other(tmp_path):
    program = script(tmp_path, "import os, time; time.sleep(0.2); print(os.environ['COLL_PORT'])")
    launches = [Launch("-n", 2, program) for _ in range(6)]
    ports = [set(launch.finish().out.split()) for launch in launches]
    assert all(len(port) == 1 for port in ports) and len(set.union(*ports)) == 6


def test_background_children_end_with_the_job(tmp_path):
    """A rank that leaves processes behind, even in a session of their own: they hold nothing up and do not stay."""
    program = script(
        tmp_path,
        """
        import subprocess
        subprocess.Popen(["sleep", "600"])
        subprocess.Popen(["setsid", "sleep", "600"])
        print("done")
        """,
    )
    begin = time.monotonic()
    launch = Launch("-n", 2, program)
    result = launch.finish()
    assert result.code == 0 and result.out == "done\n" * 2
    assert time.monotonic() - begin < 10
    assert launch.gone_within(2)


@pytest.mark.parametrize(
    "program, words",
    [
        (["no-such-program-anywhere"], ["no-such-program-anywhere", "PATH"]),
        (["missing.py"], ["missing.py", "no file"]),
        (["./plain"], ["./plain", "executable"]),
        (["./binary"], ["./binary", "Exec format"]),
        (["--python", "/no/python", "ok.py"], ["/no/python", "No such file"]),
    ],
)
def test_programs_that_cannot_be_started(tmp_path, program, words):
    script(tmp_path, "print(1)", "ok.py")
    script(tmp_path, "print(1)", "plain")
    (tmp_path / "binary").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "binary").chmod(stat.S_IRWXU)
    result = run("-n", 2, *program, cwd=tmp_path)
    assert result.code == 1 and len(result.err.splitlines()) == 1, result
    assert all(word in result.err for word in words), result


def test_starts_quickly_without_numpy_and_library():
    code = (
        "import sys, pycoll.launch, pycoll.cli; print(sorted({'numpy', 'cffi', 'rich', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "[]\n", done
