"""The command line: usage errors, tables and drawings."""

import subprocess
import sys

import pytest
from launch_support import PYCOLL, run

import pycoll
from pycoll.draw import Message, messages


def call(*arguments, **options):
    return subprocess.run([*PYCOLL, *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["-n", "0", "true"], ["'-n'", "0 is not in the range"]),
        (["-n", "-3", "true"], ["'-n'", "-3 is not in the range"]),
        (["-n", "many", "true"], ["'-n'", "'many' is not a valid integer"]),
        (["-n", "2"], ["Missing argument 'PROGRAM"]),
        (["--hosts", "a:b:c", "true"], ["'a:b:c'", "NAME:COUNT"]),
        (["--hosts", "", "true"], ["''", "NAME:COUNT"]),
        (["-n", "5", "--hosts", "a:2,b:2", "true"], ["-n 5", "room for 4"]),
        (["--timeout", "0", "true"], ["'--timeout'", "0"]),
        (["--timeout", "-1", "true"], ["'--timeout'", "-1"]),
        (["--timeout", "nan", "true"], ["--timeout nan", "seconds"]),
        (["--timeout", "inf", "true"], ["--timeout inf", "seconds"]),
        (["--timeout", "soon", "true"], ["'--timeout'", "'soon'"]),
        (["--env", "=x", "true"], ["'=x'", "NAME=VALUE"]),
        (["--env", "COLL_RANK=1", "true"], ["COLL_RANK", "itself"]),
        (["--no-such-option", "true"], ["--no-such-option"]),
    ],
)
def test_run_refuses(arguments, words):
    result = run(*arguments)
    assert result.code != 0 and result.out == "" and "Traceback" not in result.err, result
    assert all(word in result.err for word in words), result


def test_help():
    names = ["run", "info", "env", "algorithms"]
    assert all(name in call("--help").stdout for name in names)
    for name in names:
        assert call(name, "--help").returncode == 0
    assert call("nonsense").returncode == 2


def test_module_that_cannot_be_found_by_the_ranks():
    result = run("-n", 2, "-m", "no_such_module_anywhere")
    assert result.code == 1 and "No module named no_such_module_anywhere" in result.err


def test_info():
    result = call("info")
    assert result.returncode == 0, result
    facts = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert facts["pycoll"] == pycoll.__version__ and facts["libcoll"] == pycoll.libcoll_version()
    assert sys.version.split()[0] in facts["python"]
    for key in pycoll.info():
        assert any(line.startswith(key) for line in result.stdout.splitlines())


def test_env():
    lines = call("env", env={"PATH": "/bin", "COLL_TIMEOUT": "77", "COLL_LOG": "error"}).stdout.splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip().startswith("COLL_")}
    assert set(rows) == set(pycoll.config())
    assert rows["COLL_TIMEOUT"].split()[1] == "77" and pycoll.config()["COLL_TIMEOUT"]["help"] in rows["COLL_TIMEOUT"]


def test_algorithms():
    lines = call("algorithms").stdout.splitlines()
    rows = [line.split()[:2] for line in lines]
    for algorithm in pycoll.algorithms():
        assert [algorithm["operation"], algorithm["name"]] in rows


@pytest.mark.parametrize("suffix, begin", [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_drawing(tmp_path, suffix, begin):
    path = tmp_path / f"ring.{suffix}"
    result = call("algorithms", "--draw", "allreduce:ring", "-n", 4, "-o", path)
    assert result.returncode == 0 and result.stdout == f"{path}\n", result
    assert path.read_bytes().startswith(begin)
    if suffix == "svg":
        text = path.read_text()
        assert "allreduce:ring, 4 ranks, 256 B: 24 messages in 6 rounds" in text and text.count(">64 B<") == 24


def test_every_algorithm_can_be_drawn(tmp_path):
    from pycoll.draw import draw_algorithm

    for algorithm in pycoll.algorithms():
        path = tmp_path / "picture.svg"
        if algorithm["name"] == "node":  # no message to draw, and says so
            with pytest.raises(ValueError, match="all ranks on one node"):
                draw_algorithm(f"{algorithm['operation']}:node", 4, str(path))
            continue
        draw_algorithm(f"{algorithm['operation']}:{algorithm['name']}", 4, str(path))
        assert algorithm["name"] in path.read_text()
    first = path.read_bytes()
    draw_algorithm(f"{algorithm['operation']}:{algorithm['name']}", 4, str(path))
    assert path.read_bytes() == first, "the same schedule must give the same file"


def test_default_name_of_a_drawing(tmp_path):
    result = call("algorithms", "--draw", "barrier:linear", cwd=tmp_path)
    assert result.stdout == "barrier_linear.svg\n" and (tmp_path / "barrier_linear.svg").exists(), result


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--draw", "allreduce:nonsense"], ["allreduce:nonsense", "allreduce:ring"]),
        (["--draw", "ring"], ["'ring'", "allreduce:ring"]),
        (["--draw", "allreduce:ring", "-o", "x.pdf"], ["x.pdf", ".svg or .png"]),
        (["--draw", "allreduce:ring", "-n", "0"], ["'-n'", "0 is not in the range"]),
        (["--draw", "broadcast:binomial", "-n", "4", "--root", "4"], ["root", "4"]),
        (["--draw", "allreduce:ring", "-o", "/no/such/folder/x.svg"], ["/no/such/folder", "No such file"]),
    ],
)
def test_drawing_refuses(arguments, words):
    result = call("algorithms", *arguments)
    assert result.returncode != 0 and "Traceback" not in result.stderr, result
    assert all(word in result.stderr for word in words), result


def test_messages_of_a_binomial_broadcast():
    assert messages("broadcast:binomial", 8, count=1) == [
        Message(0, 0, 1, 8),
        Message(0, 0, 2, 8),
        Message(0, 0, 4, 8),
        Message(1, 2, 3, 8),
        Message(1, 4, 5, 8),
        Message(1, 4, 6, 8),
        Message(2, 6, 7, 8),
    ]


def test_messages_of_a_tree():
    """Eight ranks: 14 messages, 6 of them to or from the root, in 2 x 3 rounds."""
    tree = messages("allreduce:tree", 8, count=1)
    assert len(tree) == 14 and sum(0 in (message.source, message.target) for message in tree) == 6
    assert max(message.round for message in tree) == 5
