"""Several hosts on one machine: network namespaces joined by a bridge that no other namespace sees.

    with Hosts(2, rate="1gbit") as hosts:
        hosts.run("--hosts", hosts.slots(2), "python", "program.py")   # pycoll run over the ssh of this folder
        process = hosts.start(1, ["sleep", "9"])                       # a process on host 1

Needs root, and `ip` (and `tc` for a rate). All names carry this process's id and a number of its own, and the addresses
10.77.0.1, ... exist in the namespaces only, so that runs side by side do not meet. Leaving the block ends every
process that is still on a host and removes the namespaces; what a killed test left behind, the next one removes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PREFIX = "coll"
_numbers = itertools.count()


class CannotMakeHosts(Exception):
    """What is missing, and how to run the tests without it."""


def ip(*arguments: object) -> str:
    command = ["ip", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CannotMakeHosts(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def remove(namespace: str) -> None:
    """The namespace and every process in it."""
    with contextlib.suppress(CannotMakeHosts):
        for pid in ip("netns", "pids", namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        ip("netns", "del", namespace)


def remove_orphans() -> None:
    """Namespaces of test runs that were killed."""
    for name in re.findall(rf"^{PREFIX}(\d+)-\S+", ip("netns", "list"), re.MULTILINE):
        if not Path(f"/proc/{name}").exists():
            for namespace in re.findall(rf"^{PREFIX}{name}-\S+", ip("netns", "list"), re.MULTILINE):
                remove(namespace)


class Hosts:
    def __init__(self, count: int, rate: str | None = None) -> None:
        self.count, self.rate = count, rate
        self.name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        self._namespaces: list[str] = []
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Hosts:
        if os.geteuid() != 0:
            raise CannotMakeHosts("network namespaces need root; deselect these tests with -m 'not netns'")
        if not shutil.which("ip"):
            raise CannotMakeHosts(
                "there is no `ip` (Debian: apt-get install iproute2); or deselect with -m 'not netns'"
            )
        remove_orphans()
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def namespace(self, host: int) -> str:
        return f"{self.name}-h{host}"

    @staticmethod
    def address(host: int) -> str:
        return f"10.77.0.{host + 1}"

    def slots(self, ranks: int) -> str:
        """For --hosts: every host with as many ranks."""
        return ",".join(f"{self.address(host)}:{ranks}" for host in range(self.count))

    def _namespace(self, name: str) -> str:
        ip("netns", "add", name)
        self._namespaces.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def _make(self) -> None:
        switch = self._namespace(f"{self.name}-sw")
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for host in range(self.count):
            name = self._namespace(self.namespace(host))
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{host}", "netns", switch)
            ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", switch, "link", "set", f"port{host}", "master", "br0", "up")
            if self.rate:
                self._limit(name)

    def _limit(self, name: str) -> None:
        assert self.rate
        limit = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst", "128kb"]
        ip("netns", "exec", name, *limit, "latency", "20ms")

    def link(self, host: int, state: str) -> None:
        """Pulls the plug ("down") or puts it back ("up"), at the switch: the host itself is not told."""
        ip("-n", f"{self.name}-sw", "link", "set", f"port{host}", state)

    def start(self, host: int, command: list[str], env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace(host), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._processes.append(process)
        return process

    def run(
        self, *arguments: object, env: dict[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """`pycoll run`, outside the hosts."""
        ssh = f"{sys.executable} {FOLDER / 'ssh_to_host.py'} {self.name}"
        return subprocess.run(
            [sys.executable, "-m", "pycoll", "run", "--ssh", ssh, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **(env or {})},
        )

    def close(self) -> None:
        for namespace in reversed(self._namespaces):
            remove(namespace)
        self._namespaces.clear()
        for process in self._processes:
            process.wait()
            process.stdout.close()
        self._processes.clear()
