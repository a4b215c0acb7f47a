"""The agent: starts the ranks of one host, passes on what they say, and leaves none of them behind.

It is a child of the launcher, forked or reached through ssh, and knows nothing of policy: it sends the signals that it
is told to send. When its input ends - the launcher is done, was killed, or the connection is lost - it kills every
process below it and exits. It is single-threaded, so that what runs between fork and exec is safe.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from .launch_job import LaunchError, rank_environment
from .launch_loop import BACKLOG, CHUNK, READ, WRITE, Channel, Frame, Loop

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: How long the output of a rank is waited for after its exit, while processes that it left behind keep it open.
LINGER = 0.5
_libc = ctypes.CDLL(None, use_errno=True)


class _Rank:
    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number = number
        self.process = process  # keeps the descriptors; the agent itself waits for the process
        self.pid = process.pid
        self.open = {process.stdout.fileno(), process.stderr.fileno()}  # type: ignore[union-attr]
        self.code: int | None = None
        self.reported = False


class Agent:
    """``stdin``: the descriptor that rank 0 gets as its standard input, or None if that comes in frames."""

    def __init__(self, read_fd: int, write_fd: int, stdin: int | None) -> None:
        self._loop = Loop()
        self._channel = Channel(self._loop, read_fd, write_fd, self._on_frame, self._on_end)
        self._stdin = stdin
        self._job: dict[str, Any] = {}
        self._argv: list[str] = []
        self._listener: socket.socket | None = None
        self._ranks: list[_Rank] = []
        self._stdin_data = b""
        self._stdin_fd = -1
        self._ended = False

    def run(self) -> int:
        # Also for the children of ranks: whoever loses its parent becomes a child of the agent, which can kill it then.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signals = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._loop.on_signals(signals, self._on_signal)
        self._channel.say_magic()
        while not self._ended:
            self._loop.run_once()
        self._kill_everything()
        deadline = self._loop.after(5, lambda: None)  # for what is still in pipes
        while self._channel.backlog or any(rank.open for rank in self._ranks):
            if deadline.action is None:
                break
            self._loop.run_once()
        for rank in self._ranks:
            self._report(rank)
        while self._channel.backlog and deadline.action:
            self._loop.run_once()
        return 0

    # ---- what the launcher says ----

    def _on_frame(self, kind: int, number: int, payload: bytes) -> None:
        try:
            if kind == Frame.JOB:
                self._prepare(json.loads(payload))
            elif kind == Frame.START:
                self._start(json.loads(payload))
            elif kind == Frame.SIGNAL:
                self._signal(number)
            elif kind == Frame.STDIN:
                self._take_stdin(payload)
        except LaunchError as error:
            self._channel.send(Frame.REFUSED, 0, str(error).encode(errors="surrogateescape"))

    def _on_end(self) -> None:
        self._ended = True

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number != signal.SIGINT:  # the host shuts down, or someone wants to be rid of us
            self._ended = True

    def _prepare(self, job: dict[str, Any]) -> None:
        """Checks all that can be checked before anything runs; the first host's agent begins to listen."""
        self._job = job
        if job["directory"] is not None:
            try:
                os.chdir(job["directory"])
            except OSError as error:
                raise LaunchError(
                    f"cannot change to {job['directory']}: {error.strerror}; "
                    "start the job in a directory that every host has"
                ) from None
        self._argv = _command(job)
        address = None
        if job["listen"] is not None:
            self._listener = _listen(job["listen"], job["size"])
            address = self._listener.getsockname()[:2]
        self._channel.send(Frame.READY, 0, json.dumps(address).encode())

    def _start(self, where: dict[str, Any]) -> None:
        _allow_descriptors(4 * len(self._job["ranks"]) + 64)
        base = {**os.environ, **self._job["env"]}
        for place in self._job["ranks"]:
            env = rank_environment(base, place, where["address"], where["port"], self._job["secret"])
            self._spawn(place["rank"], env)

    def _spawn(self, number: int, env: dict[str, str]) -> None:
        inherited: tuple[int, ...] = ()
        stdin: int | None = subprocess.DEVNULL
        if number == 0:
            stdin = subprocess.PIPE if self._stdin is None else self._stdin
            if self._listener:
                inherited = (self._listener.fileno(),)
                env["COLL_LISTEN_FD"] = str(inherited[0])
        agent = os.getpid()

        def die_with_agent() -> None:  # even if the agent is killed
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != agent:
                os._exit(1)

        try:
            process = subprocess.Popen(
                self._argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=env,
                pass_fds=inherited,
                start_new_session=True,  # signals go to the rank and its children, and a Ctrl-C only to the launcher
                preexec_fn=die_with_agent,
            )
        except OSError as error:
            hint = (
                "; does it begin with #! or is it a program for this machine?" if error.errno == errno.ENOEXEC else ""
            )
            raise LaunchError(f"cannot start {self._argv[0]}: {error.strerror}{hint}") from None
        rank = _Rank(number, process)
        self._ranks.append(rank)
        self._channel.send(Frame.STARTED, number, b"%d" % rank.pid)
        self._relay(rank, process.stdout.fileno(), Frame.OUTPUT, Frame.OUTPUT_END)  # type: ignore[union-attr]
        self._relay(rank, process.stderr.fileno(), Frame.ERRORS, Frame.ERRORS_END)  # type: ignore[union-attr]
        if number == 0:
            if self._listener:  # rank 0 owns it now: if it dies, those who connect must be refused
                self._listener.close()
            if process.stdin:
                self._stdin_fd = process.stdin.fileno()
                os.set_blocking(self._stdin_fd, False)
                self._loop.watch(self._stdin_fd, lambda: WRITE if self._stdin_data else 0, self._write_stdin)

    def _signal(self, number: int) -> None:
        for rank in self._ranks:
            if rank.code is None:
                try:
                    os.killpg(rank.pid, number)
                except OSError:  # gone, or another user's by now
                    pass

    # ---- what the ranks do ----

    def _relay(self, rank: _Rank, fd: int, kind: int, end_kind: int) -> None:
        os.set_blocking(fd, False)

        def ready() -> None:
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return
            if data:
                self._channel.send(kind, rank.number, data)
                return
            self._loop.forget(fd)
            rank.open.discard(fd)
            self._channel.send(end_kind, rank.number)
            if rank.code is not None and not rank.open:
                self._report(rank)

        self._loop.watch(fd, lambda: READ if self._channel.backlog < BACKLOG else 0, ready)

    def _reap(self) -> None:
        """Takes the exit codes of ranks, and of orphans that became our children."""
        ranks = {rank.pid: rank for rank in self._ranks if rank.code is None}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in ranks:
                rank = ranks[pid]
                rank.code = rank.process.returncode = os.waitstatus_to_exitcode(status)
                if rank.open:
                    self._loop.after(LINGER, lambda rank=rank: self._report(rank))  # type: ignore[misc]
                else:
                    self._report(rank)

    def _report(self, rank: _Rank) -> None:
        if not rank.reported and rank.code is not None:
            rank.reported = True
            self._channel.send(Frame.EXIT, rank.number, b"%d" % rank.code)

    def _take_stdin(self, data: bytes) -> None:
        if self._stdin_fd < 0:
            return
        if data:
            self._stdin_data = data
        else:
            self._close_stdin()

    def _write_stdin(self) -> None:
        try:
            written = os.write(self._stdin_fd, self._stdin_data)
        except BlockingIOError:
            return
        except OSError:  # rank 0 does not want more
            self._close_stdin()
            return
        self._stdin_data = self._stdin_data[written:]
        if not self._stdin_data:
            self._channel.send(Frame.STDIN_DONE)

    def _close_stdin(self) -> None:
        self._loop.forget(self._stdin_fd)
        self._stdin_fd = -1
        for rank in self._ranks:
            if rank.process.stdin:
                rank.process.stdin.close()

    def _kill_everything(self) -> None:
        """Kills what is below this process. Those whose parent dies become our children, so children are enough."""
        deadline = time.monotonic() + 5  # a process in an uninterruptible sleep, or another user's
        while time.monotonic() < deadline:
            self._signal(signal.SIGKILL)
            self._reap()
            children = _children()
            if not children:
                return
            for pid in children:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.01)


def _children() -> list[int]:
    """Processes whose parent is this one, zombies included."""
    me, found = str(os.getpid()), []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat") as file:
                    # "pid (name) state parent ...": the name may hold anything
                    if file.read().rpartition(")")[2].split()[1] == me:
                        found.append(int(name))
            except (OSError, IndexError):
                continue
    return found


def _command(job: dict[str, Any]) -> list[str]:
    """The command line of a rank: a module, a Python script, or any program."""
    first, *arguments = job["program"]
    python = job["python"] or sys.executable
    if job["module"]:
        return [python, "-m", first, *arguments]
    if first.endswith(".py"):
        if not os.path.isfile(first):
            raise LaunchError(f"there is no file {first!r} in {os.getcwd()}")
        return [python, first, *arguments]
    from shutil import which  # slow to import, and most jobs are Python's

    program = which(first, path=job["env"].get("PATH"))
    if program is None:
        if os.path.isfile(first):
            raise LaunchError(
                f"{first!r} may not be executed: make it executable, or write `python {first}`"
                if not os.access(first, os.X_OK)
                else f"{first!r} is not on PATH: write ./{first}"
            )
        raise LaunchError(f"there is no program {first!r} on PATH (scripts that Python shall run end in .py)")
    return [program, *arguments]


def _listen(candidates: list[str], size: int) -> socket.socket:
    """A listening socket on the first of the addresses that is this host's, on a free port."""
    seen = []
    connection = os.environ.get("SSH_CONNECTION", "").split()
    for address in candidates + connection[2:3]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            seen.append(f"{address}: {error.strerror}")
            continue
        try:
            listener.bind((address, 0))
            # Only now, so that the port is nobody else's: a later init() of the program may then listen here again.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.listen(max(size, 128))
            return listener
        except OSError as error:
            listener.close()
            seen.append(f"{address}: {error.strerror}")
    raise LaunchError(
        f"cannot listen for the other ranks ({'; '.join(seen) or 'no address'}): "
        "put into --hosts, first, the address that the other hosts use to reach this one"
    )


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )


def main() -> int:
    """The agent at the far end of ssh: frames on standard input and output."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # whatever prints must not print between frames
    return Agent(read_fd, write_fd, stdin=None).run()
