"""The description of a job: hosts, places, environment. Nothing is started here."""

import os
import shlex
import sys

import pytest

from pycoll import launch_job
from pycoll.launch_job import Host, Job, LaunchError, parse_env, parse_hosts


@pytest.mark.parametrize(
    "text, hosts",
    [
        ("a", [("a", 1, "a")]),
        ("a:2,b:10", [("a", 2, "a"), ("b", 10, "b")]),
        (" a:2 , b ", [("a", 2, "a"), ("b", 1, "b")]),
        ("me@node-1.example:3", [("me@node-1.example", 3, "node-1.example")]),
        ("10.0.0.1:2", [("10.0.0.1", 2, "10.0.0.1")]),
        ("[fe80::1]:4,me@[::1]", [("fe80::1", 4, "fe80::1"), ("me@::1", 1, "::1")]),
    ],
)
def test_hosts(text, hosts):
    assert [(host.name, host.slots, host.address) for host in parse_hosts(text)] == hosts


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,", ":2", "a:", "a:0", "a:-1", "a:x", "a:1.5", "a:2:3", "::1", "a b:2", "-oProxy=x:1", "[]:2", "me@:1"],
)
def test_garbage_instead_of_hosts(text):
    with pytest.raises(LaunchError) as caught:
        parse_hosts(text)
    assert repr(text) in str(caught.value)


def test_places_without_hosts():
    (place,) = Job(["x"], ranks=3).places()
    assert place == (None, (0, 1, 2), (0, 1, 2), 3) and str(place) == "this machine"
    assert Job(["x"]).places()[0].local_size == launch_job.usable_cpus()


def test_places_on_hosts():
    hosts = [Host("a", 2), Host("b", 1), Host("a", 2)]
    assert [place[1:] for place in Job(["x"], hosts=hosts).places()] == [
        ((0, 1), (0, 1), 4),
        ((2,), (0,), 1),
        ((3, 4), (2, 3), 4),
    ]
    assert [place[1:] for place in Job(["x"], ranks=2, hosts=hosts).places()] == [((0, 1), (0, 1), 2)]
    with pytest.raises(LaunchError, match=r"-n 6 does not fit: --hosts has room for 5"):
        Job(["x"], ranks=6, hosts=hosts).places()


def test_env_option():
    assert parse_env(["A=1", "B", "C="], {"B": "2"}) == {"A": "1", "B": "2", "C": ""}
    for items, word in (
        (["=1"], "NAME=VALUE"),
        ([""], "NAME=VALUE"),
        (["GONE"], "not set here"),
        (["COLL_RANK=1"], "sets"),
    ):
        with pytest.raises(LaunchError, match=word):
            parse_env(items, {})


def test_carried_environment():
    carried = {"PYTHONPATH": "/p", "LD_LIBRARY_PATH": "/l", "COLL_TUNE": "t", "FI_LOG_LEVEL": "debug"}
    assert launch_job.carried_environment({**carried, "HOME": "/h", "DISPLAY": ":0", "MY_COLL_": "x"}) == carried


def test_agent_command_survives_a_shell(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/a b/c:/it's")
    words = shlex.split(launch_job.agent_command("/my python"))
    assert words[0] == "exec" and words[-4:] == ["/my python", "-m", "pycoll.launch", "--agent"]
    (path,) = [word for word in words if word.startswith("PYTHONPATH=")]
    assert path.endswith("/a b/c:/it's")
    assert shlex.split(launch_job.agent_command(None))[-4] == sys.executable


def test_codes():
    assert launch_job.describe_code(3) == "exit code 3"
    assert launch_job.describe_code(-11) == "SIGSEGV (signal 11)"
    assert launch_job.describe_code(-64) in ("SIGRTMAX (signal 64)", "signal 64")
    assert [launch_job.shell_code(code) for code in (0, 3, -9)] == [0, 3, 137]


def test_quota_of_control_groups(tmp_path):
    def quota(*texts):
        files = []
        for number, text in enumerate(texts):
            files.append(str(tmp_path / str(number)))
            (tmp_path / str(number)).write_text(text)
        return launch_job._quota(*files)

    assert quota("150000 100000\n") == [1.5]
    assert quota("200000\n", "50000\n") == [4.0]
    assert quota("max 100000\n") == quota("-1\n", "100000\n") == quota("") == launch_job._quota("/no/file") == []


def test_usable_cpus_obey_affinity_and_quota(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    for quotas, cpus in (([], 6), ([2.9], 2), ([0.3], 1), ([64.0, 3.0], 3)):
        monkeypatch.setattr(launch_job, "_cgroup_quotas", lambda quotas=quotas: quotas)
        assert launch_job.usable_cpus() == cpus
