"""What a job is: the program, its ranks, their places and their environment. Nothing in here starts anything."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class LaunchError(Exception):
    """The job cannot be started; the text says why and what to do."""


class Host(NamedTuple):
    """One entry of --hosts: ``name[:ranks]``; the name may be anything that the ssh program takes (``user@name``)."""

    name: str
    slots: int

    @property
    def address(self) -> str:
        """The name without the user: what others resolve."""
        return self.name.rpartition("@")[2].strip("[]")


class Place(NamedTuple):
    """The ranks of one agent. ``host`` None: this machine, without ssh."""

    host: Host | None
    ranks: tuple[int, ...]
    local_ranks: tuple[int, ...]  # as LOCAL_RANK counts them, over all entries of the same host
    local_size: int

    def __str__(self) -> str:
        return f"host {self.host.name!r}" if self.host else "this machine"


class Job(NamedTuple):
    """What ``pycoll run`` was asked for."""

    program: Sequence[str]  # the program and its arguments
    module: bool = False  # -m: program[0] is the name of a Python module
    ranks: int | None = None  # None: as many as --hosts has slots, or as CPUs this process may use
    hosts: Sequence[Host] = ()
    timeout: float | None = None
    tag_output: bool = False
    python: str | None = None  # None: the same path as this interpreter's
    ssh: str = "ssh"
    env: Mapping[str, str] = {}

    def places(self) -> list[Place]:
        """Ranks in order over the hosts in order."""
        if not self.hosts:
            size = usable_cpus() if self.ranks is None else self.ranks
            everyone = tuple(range(size))
            return [Place(None, everyone, everyone, size)]
        slots = sum(host.slots for host in self.hosts)
        size = slots if self.ranks is None else self.ranks
        if size > slots:
            raise LaunchError(f"-n {size} does not fit: --hosts has room for {slots} (write NAME:COUNT for more)")
        used: dict[str, int] = {}
        places, first = [], 0
        for host in self.hosts:
            count = min(host.slots, size - first)
            if count:
                before = used.get(host.name, 0)
                used[host.name] = before + count
                places.append((host, range(first, first + count), range(before, before + count)))
            first += count
        return [Place(host, tuple(ranks), tuple(local), used[host.name]) for host, ranks, local in places]


def parse_hosts(text: str) -> list[Host]:
    """``a:2,user@b,[fe80::1]:4`` as hosts; without a count, one rank."""
    hosts = []
    for part in text.split(","):
        part = part.strip()
        name, colon, count = part.rpartition(":")
        if part.endswith("]") or not colon:
            name, count = part, "1"
        bare = name.rpartition("@")[2]
        bracketed = bare.startswith("[") and bare.endswith("]") and len(bare) > 2
        odd = any(c.isspace() for c in name) or (not bracketed and any(c in bare for c in ":[]"))
        if not bare or name.startswith("-") or odd:
            raise LaunchError(f"{part!r} in {text!r} is not a host: write NAME:COUNT, or [ADDRESS]:COUNT for IPv6")
        if not count.isdecimal() or not 1 <= int(count) <= 1 << 20:
            raise LaunchError(f"{part!r} in {text!r}: the number of ranks must be 1 or more, not {count!r}")
        hosts.append(Host(name.replace("[", "").replace("]", ""), int(count)))
    return hosts


#: Variables that the launcher gives to each rank; what the caller's environment says about them is dropped.
PLACE_VARIABLES = frozenset(
    "COLL_RANK COLL_SIZE COLL_ADDR COLL_PORT COLL_SECRET COLL_LISTEN_FD RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE "
    "MASTER_ADDR MASTER_PORT".split()
)


def parse_env(items: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """--env NAME=VALUE, or NAME for its value here."""
    result = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not name:
            raise LaunchError(f"--env {item!r}: write NAME=VALUE, or NAME to pass the value it has here")
        if name in PLACE_VARIABLES:
            raise LaunchError(f"--env {name}: pycoll run sets this variable itself")
        if not equals and name not in environ:
            raise LaunchError(f"--env {name}: it is not set here; write {name}=VALUE")
        result[name] = value if equals else environ[name]
    return result


def carried_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What goes along to other hosts: what decides how Python and the library behave, not what describes this host."""
    return {
        name: value
        for name, value in environ.items()
        if name in ("PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS") or name.startswith(("COLL_", "FI_"))
    }


def rank_environment(
    base: Mapping[str, str], place: Mapping[str, object], address: str, port: int, secret: str
) -> dict[str, str]:
    """The environment of one rank. ``place`` has rank, size, local_rank and local_size."""
    env = {name: value for name, value in base.items() if name not in PLACE_VARIABLES}
    env.update(
        COLL_RANK=str(place["rank"]),
        COLL_SIZE=str(place["size"]),
        COLL_ADDR=address,
        COLL_PORT=str(port),
        COLL_SECRET=secret,
        RANK=str(place["rank"]),
        WORLD_SIZE=str(place["size"]),
        LOCAL_RANK=str(place["local_rank"]),
        LOCAL_WORLD_SIZE=str(place["local_size"]),
    )
    env.setdefault("PYTHONUNBUFFERED", "1")  # lines appear when they are printed, and none is lost by a kill
    if place["local_size"] != 1:  # or each rank would start one thread for every CPU
        env.setdefault("OMP_NUM_THREADS", str(max(1, usable_cpus() // int(str(place["local_size"])))))
    return env


def usable_cpus() -> int:
    """CPUs that this process may use: its affinity, cut by the quota of its control group."""
    cpus = len(os.sched_getaffinity(0))
    for quota in _cgroup_quotas():
        cpus = min(cpus, max(1, int(quota)))
    return cpus


def _cgroup_quotas() -> list[float]:
    """CPUs' worth of time allowed by each control group above this process (version 2) or by its own (version 1)."""
    quotas = []
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    for _, controllers, path in lines:
        if not controllers:
            folder = "/sys/fs/cgroup" + path.rstrip("/")
            while folder.startswith("/sys/fs/cgroup"):
                quotas += _quota(folder + "/cpu.max")
                folder = os.path.dirname(folder)
        elif "cpu" in controllers.split(","):
            for folder in ("/sys/fs/cgroup/cpu" + path, "/sys/fs/cgroup/cpu"):
                quotas += _quota(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us")
    return quotas


def _quota(*files: str) -> list[float]:
    words: list[str] = []
    try:
        for name in files:
            with open(name) as file:
                words += file.read().split()
        return [int(words[0]) / int(words[1])] if int(words[0]) > 0 else []
    except (OSError, ValueError, IndexError):  # no such file, or "max"
        return []


def agent_command(python: str | None) -> str:
    """The command line for a remote shell. It holds nothing secret, and nothing of the job: that goes over stdin."""
    words = [python or sys.executable, "-m", "pycoll.launch", "--agent"]
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not {"site-packages", "dist-packages"} & set(source.split(os.sep)) and source not in folders:
        folders.insert(0, source)  # run from a source tree that the hosts share
    if folders:
        words = ["env", "PYTHONPATH=" + os.pathsep.join(folders), *words]
    return "exec " + " ".join(shlex.quote(word) for word in words)


def describe_code(code: int) -> str:
    """An exit code for people; negative means a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"{signal.Signals(-code).name} (signal {-code})"
    except ValueError:
        return f"signal {-code}"


def shell_code(code: int) -> int:
    """An exit code as shells give it: 128 + the signal."""
    return code if code >= 0 else 128 - code
