"""One agent as the launcher sees it: how it is reached, what it is told, and what it meant by ending."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from .launch_job import Job, LaunchError, Place, agent_command, carried_environment, describe_code
from .launch_loop import BACKLOG, CHUNK, MAGIC_PREFIX, READ, Channel, Frame, Loop
from .launch_output import Output

#: Seconds for an agent to go after the end of its input.
LEAVE = 3.0


class Node:
    """The ranks of one place and the channel to their agent, which is None before and after."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.channel: Channel | None = None
        self.pids: dict[int, int] = {}  # rank -> process, as long as it lives
        self.ready = False
        self._fds = (-1, -1)
        self._agent_pid = 0  # if it was forked
        self._ssh: subprocess.Popen[bytes] | None = None
        self._ssh_name = self._python = ""
        self._said: list[bytes] = []  # the last lines of ssh's standard error
        self._hear: Callable[[], None] = lambda: None

    def fork(self) -> None:
        """An agent for this machine. To be called while this process holds nothing that a child should not have."""
        from .launch_agent import Agent

        for stream in (sys.stdout, sys.stderr):
            if stream:  # None if it was closed
                stream.flush()
        to_agent, from_launcher = os.pipe()
        to_launcher, from_agent = os.pipe()
        self._agent_pid = os.fork()
        if self._agent_pid == 0:
            code = 1
            try:
                os.setsid()
                os.close(from_launcher)
                os.close(to_launcher)
                code = Agent(to_agent, from_agent, stdin=0).run()
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(code)
        os.close(to_agent)
        os.close(from_agent)
        self._fds = (to_launcher, from_launcher)

    def connect(self, job: Job) -> None:
        """An agent at the other end of ssh."""
        assert self.place.host
        self._ssh_name, self._python = job.ssh, job.python or sys.executable
        command = [*shlex.split(job.ssh), self.place.host.name, agent_command(job.python)]
        to_agent, from_launcher = os.pipe()
        to_launcher, from_agent = os.pipe()
        try:
            self._ssh = subprocess.Popen(
                command, stdin=to_agent, stdout=from_agent, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as error:
            why = f"cannot run {command[0]!r} ({error.strerror}): name the ssh program with --ssh"
            raise LaunchError(why) from None
        finally:
            os.close(to_agent)
            os.close(from_agent)
        self._fds = (to_launcher, from_launcher)

    def attach(
        self, loop: Loop, output: Output, on_frame: Callable[[int, int, bytes], None], on_end: Callable[[], None]
    ) -> None:
        """Begins to listen to the agent, and to show what ssh says."""
        self.channel = Channel(loop, *self._fds, on_frame, on_end)
        self.channel.paused = lambda: output.backlog > BACKLOG
        if not self._ssh:
            return
        assert self._ssh.stderr
        fd = self._ssh.stderr.fileno()
        os.set_blocking(fd, False)

        def hear() -> None:
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return
            if not data:
                loop.forget(fd)
            lines = [line for line in data.splitlines() if line.strip()]
            self._said = (self._said + lines)[-20:]
            for line in lines:
                output.say(f"{self.place}: {os.fsdecode(line)}")

        self._hear = hear
        loop.watch(fd, lambda: READ, hear)

    def send_job(self, job: Job, size: int, secret: str, directory: str, listen: Sequence[str] | None) -> None:
        """``listen``: the addresses to try, if rank 0 is here."""
        far = self.place.host is not None
        ranks = zip(self.place.ranks, self.place.local_ranks, strict=True)
        description = {
            "program": list(job.program),
            "module": job.module,
            "python": job.python,
            "directory": directory if far else None,
            "env": {**(carried_environment(os.environ) if far else {}), **job.env},
            "secret": secret,
            "size": size,
            "listen": listen,
            "ranks": [
                {"rank": rank, "size": size, "local_rank": local, "local_size": self.place.local_size}
                for rank, local in ranks
            ],
        }
        self.send(Frame.JOB, 0, json.dumps(description).encode())

    def send(self, kind: int, number: int = 0, payload: bytes = b"") -> None:
        if self.channel:
            self.channel.send(kind, number, payload)

    def dismiss(self) -> None:
        """The agent kills what is left, sends the rest of the output, and goes."""
        if self.channel:
            self.channel.close_write()

    def detach(self) -> Channel | None:
        """The agent is gone, or not listened to any more."""
        channel, self.channel = self.channel, None
        if channel:
            channel.close()
        return channel

    def kill_orphans(self) -> None:
        """Ends the ranks of a forked agent that was itself killed."""
        for pid in self.pids.values() if self._agent_pid else ():
            try:
                os.killpg(pid, signal.SIGKILL)
            except OSError:
                pass
        self.pids.clear()

    def wait(self) -> None:
        """Until the agent, or the ssh that leads to it, has exited; it is killed if it does not."""
        pid = self._ssh.pid if self._ssh else self._agent_pid
        if not pid:
            return
        deadline = time.monotonic() + LEAVE
        while not self._exited():
            if time.monotonic() > deadline:
                self.kill_orphans()
                os.killpg(pid, signal.SIGKILL)  # each leads a session
                deadline = float("inf")
            time.sleep(0.002)

    def _exited(self) -> bool:
        if self._ssh:
            return self._ssh.poll() is not None
        return os.waitpid(self._agent_pid, os.WNOHANG) != (0, 0)

    def why_ended(self, channel: Channel, missing: Sequence[int]) -> str:
        """For the ends that should not be; ``missing``: ranks that have not exited."""
        ranks = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        if self._ssh is None:
            return f"the agent of {ranks} ended unexpectedly"
        try:
            code = self._ssh.wait(2)
        except subprocess.TimeoutExpired:
            code = 0
        self._hear()
        ssh, host = self._ssh_name, self.place.host.name  # type: ignore[union-attr]
        if channel.greeting is not None:
            return f"{self.place}: the connection was lost ({describe_code(code)} of {ssh}), and with it {ranks}"
        python = self._python
        said = b"\n".join([channel.before_magic, *self._said])
        if b"No module named" in said and b"pycoll" in said:
            why = f"pycoll is not installed for {python} there: install it, or name another interpreter with --python"
        elif code in (126, 127):
            why = f"cannot run {python} there: name the Python interpreter with --python"
        elif code == 255:
            why = f"{ssh} could not log in: `{ssh} {host} true` must work without a password"
        else:
            why = f"no agent answered there ({describe_code(code)} of {ssh})"
        return f"{self.place}: {why}"

    def is_other_version(self) -> bool:
        """Whether an agent answered that speaks other frames."""
        return self.channel is not None and MAGIC_PREFIX in self.channel.before_magic


def listen_addresses(places: Sequence[Place]) -> list[str]:
    """Where rank 0 might listen: the addresses of the first host, without loopback if another host is elsewhere."""
    if not places[0].host:
        return ["127.0.0.1", "::1"]
    per_host = [_resolve(place.host.address) for place in places if place.host]
    if all(_is_loopback(address) for addresses in per_host for address in addresses):
        return per_host[0]
    return [address for address in per_host[0] if not _is_loopback(address)]


def _resolve(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []  # a name that only ssh's configuration knows
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")
