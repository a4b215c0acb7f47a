"""pycoll run: starts the ranks of a job, on this machine or on several hosts, and answers for how it ends.

    launcher --+-- agent of this machine (forked)         --+-- rank 0
               |                                            +-- rank 1
               +-- ssh -- agent of another host           --+-- rank 2 ...

The agents (launch_agent) start processes and pass on what they say; what happens when a rank fails, a signal comes or
the time is over is decided here. Each rank leads a session of its own, so a Ctrl-C reaches the launcher alone, which
forwards it. An agent whose launcher is gone kills its ranks: whatever happens to the launcher, nobody is left behind.

Other hosts. For each entry of --hosts the launcher runs, with the program given by --ssh (default: ssh; options may
follow it, split as a shell would),

    PROGRAM HOST COMMAND

where HOST is the entry's name without the count, and COMMAND is one argument to be run by a shell there. COMMAND
is ``exec [env PYTHONPATH=...] PYTHON -m pycoll.launch --agent``; frames go over its standard input and output, so
PROGRAM must pass both on unchanged and end COMMAND's input when its own ends or it is killed. Its standard error is
shown. PROGRAM runs in a session without a terminal: ssh has to log in by key. Everything about the job, its secret
included, goes through the frames, never onto a command line. The first host listens on the address that its name
resolves to (an address in --hosts is taken as it is), else on the one by which ssh reached it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from functools import partial

from .launch_job import Job, LaunchError, describe_code, parse_env, parse_hosts, shell_code
from .launch_loop import CHUNK, READ, Channel, Frame, Loop, Timer
from .launch_node import Node, listen_addresses
from .launch_output import STDERR, STDOUT, Output

__all__ = ["Job", "LaunchError", "parse_env", "parse_hosts", "run"]

#: Seconds: for an agent to answer; for the other ranks to notice that one failed; after a forwarded signal; after
#: SIGTERM; of silence, for an agent that should be about to go.
CONNECT, NOTICE, GRACE, TERM, SILENCE = 30.0, 3.0, 5.0, 2.0, 4.0
TIMEOUT_CODE = 124  # as timeout(1)
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
#: How the last line of a rank begins that failed only because another one did.
_CONSEQUENCE = re.compile(rb"^(pycoll\.)?(\w+\.)*(RankFailedError|CommClosedError|PeerError)\b")


def run(job: Job) -> int:
    """Runs the job to its end; returns the exit code for the shell."""
    if job.timeout is not None and not 0 < job.timeout < 1e9:
        raise LaunchError(f"--timeout {job.timeout:g}: it must be a number of seconds above 0")
    # Ranks must not inherit what whoever started this process ignores or blocks; SIGCHLD tells of their ends.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for fd in (0, 1, 2):  # a descriptor of ours must not become someone's standard output
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return _Launcher(job).run()


class _Launcher:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._nodes = [Node(place) for place in job.places()]
        self._size = sum(len(node.place.ranks) for node in self._nodes)
        self._codes: dict[int, int] = {}  # rank -> exit code
        self._failures: list[int] = []  # ranks, in the order in which they failed before anyone was ended by us
        self._ending: str | None = None  # why: "failed", "signal", "timeout", "refused", "lost", "broken"
        self._signal = 0  # the one that the launcher got
        self._signalled = False  # whether the ranks got one to end them
        self._code = 0
        self._started = False
        self._heard = 0  # frames
        self._escalation: list[Timer] = []
        self._secret = os.urandom(32).hex()
        try:
            self._directory = os.getcwd()
        except OSError as error:
            raise LaunchError(f"the working directory cannot be used: {error.strerror}") from None

    def run(self) -> int:
        places = [node.place for node in self._nodes]
        if not self._job.hosts:
            self._nodes[0].fork()
        self._loop = loop = Loop()
        self._output = Output(loop, self._job.tag_output, self._on_broken_output)
        loop.on_signals(_FORWARDED, self._on_signal)
        try:
            for node in self._nodes:
                if node.place.host:
                    node.connect(self._job)
                self._attach(node)
                listen = listen_addresses(places) if node is self._nodes[0] else None
                node.send_job(self._job, self._size, self._secret, self._directory, listen)
            if self._job.hosts:
                loop.after(CONNECT, self._on_connect_timeout)
            if self._job.timeout is not None:
                loop.after(self._job.timeout, self._on_timeout)
            while any(node.channel for node in self._nodes):
                loop.run_once()
            self._report()
            while self._output.backlog:
                loop.run_once()
        finally:
            for node in self._nodes:  # after an error of our own, the end of its input is the agent's last chance
                node.detach()
            for node in self._nodes:
                node.wait()
        return self._code

    # ---- agents ----

    def _attach(self, node: Node) -> None:
        node.attach(
            self._loop,
            self._output,
            lambda kind, number, payload: self._on_frame(node, kind, number, payload),
            lambda: self._on_agent_end(node),
        )

    def _on_frame(self, node: Node, kind: int, number: int, payload: bytes) -> None:
        self._heard += 1
        if kind in (Frame.OUTPUT, Frame.ERRORS):
            self._output.feed(number, STDOUT if kind == Frame.OUTPUT else STDERR, payload)
        elif kind in (Frame.OUTPUT_END, Frame.ERRORS_END):
            self._output.finish(number, STDOUT if kind == Frame.OUTPUT_END else STDERR)
        elif kind == Frame.READY:
            node.ready = True
            if node is self._nodes[0]:
                self._address = json.loads(payload)
            if all(other.ready for other in self._nodes) and not self._ending:
                self._start()
        elif kind == Frame.STARTED:
            node.pids[number] = int(payload)
        elif kind == Frame.EXIT:
            node.pids.pop(number, None)
            self._on_exit(number, int(payload))
        elif kind == Frame.STDIN_DONE:
            self._stdin_idle = True
        elif kind == Frame.REFUSED:
            self._refuse(f"{node.place}: {payload.decode(errors='surrogateescape')}")

    def _start(self) -> None:
        self._started = True
        address, port = self._address
        where = json.dumps({"address": address, "port": port}).encode()
        for node in self._nodes:
            node.send(Frame.START, 0, where)
        first = self._nodes[0]
        if first.place.host and first.channel:
            self._forward_stdin(first.channel)

    def _forward_stdin(self, channel: Channel) -> None:
        """To rank 0 on another host, one piece at a time: nothing is read that the rank does not take."""
        self._stdin_idle = True

        def interest() -> int:
            if not self._stdin_idle or not channel.open:
                return 0
            # Reading a terminal from the background would stop this process.
            return 0 if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp() else READ

        def ready() -> None:
            try:
                data = os.read(0, CHUNK)
            except OSError:
                data = b""
            self._stdin_idle = False
            channel.send(Frame.STDIN, 0, data)
            if not data:
                self._loop.forget(0)

        self._loop.watch(0, interest, ready)

    def _on_agent_end(self, node: Node) -> None:
        """The agent is gone: because its work is done, or not."""
        channel = node.detach()
        node.kill_orphans()
        missing = [rank for rank in node.place.ranks if rank not in self._codes]
        if channel and missing and not self._ending:
            self._refuse(node.why_ended(channel, missing), "lost")

    # ---- how it ends ----

    def _on_exit(self, rank: int, code: int) -> None:
        self._codes[rank] = code
        if code and not self._ending:
            self._ending = "failed"
            self._escalate((NOTICE, signal.SIGTERM), (TERM, signal.SIGKILL))
        if code and self._ending == "failed" and not self._signalled:
            self._failures.append(rank)
        if len(self._codes) == self._size:
            self._dismiss()

    def _on_signal(self, number: int) -> None:
        if number in (signal.SIGUSR1, signal.SIGUSR2):
            self._send_signal(number)
        elif len(self._codes) == self._size:  # only output is left
            self._ending, self._signal = "signal", number
            self._abandon()
        elif self._ending == "signal" or not self._started:
            self._ending, self._signal = "signal", self._signal or number
            self._escalate((0, signal.SIGKILL))
        else:
            self._ending, self._signal = "signal", number
            self._escalate((0, number), (GRACE, signal.SIGKILL))

    def _on_timeout(self) -> None:
        if self._ending:
            return
        self._ending = "timeout"
        self._output.say(f"pycoll run: the job has run for {self._job.timeout:g} s (--timeout): it is ended")
        # SIGINT, because a Python program shows then where it was.
        self._escalate((0, signal.SIGINT), (TERM, signal.SIGKILL))

    def _on_connect_timeout(self) -> None:
        late = [node for node in self._nodes if not node.ready and node.channel]
        if not late or self._ending:
            return
        why = f"no answer within {CONNECT:g} s; is `{self._job.ssh} HOST true` quick?"
        if any(node.is_other_version() for node in late):
            why = "another version of pycoll is installed there"
        self._refuse(f"{', '.join(str(node.place) for node in late)}: {why}")

    def _on_broken_output(self) -> None:
        """Whoever read our output is gone (`pycoll run ... | head`)."""
        if self._ending is None:
            self._ending = "broken"
            self._escalate((0, signal.SIGTERM), (TERM, signal.SIGKILL))

    def _refuse(self, text: str, ending: str = "refused") -> None:
        self._ending = ending
        self._output.say(f"pycoll run: {text}")
        self._escalate((NOTICE if ending == "lost" else 0, signal.SIGTERM), (TERM, signal.SIGKILL))

    def _escalate(self, *steps: tuple[float, int]) -> None:
        """Sends these signals one after the other, each so many seconds after the one before; then it is the end."""
        for timer in self._escalation:
            timer.cancel()
        when, self._escalation = 0.0, []
        if not any(node.pids for node in self._nodes):
            steps = ()
        for delay, number in steps:
            when += delay
            self._escalation.append(self._loop.after(when, partial(self._send_signal, number, True)))
        self._escalation.append(self._loop.after(when, self._dismiss))

    def _send_signal(self, number: int, ending: bool = False) -> None:
        self._signalled = self._signalled or ending
        for node in self._nodes:
            node.send(Frame.SIGNAL, number)

    def _dismiss(self) -> None:
        """Lets the agents go. One that stays, and says nothing, is on a host that hangs: it is not waited for."""
        for node in self._nodes:
            node.dismiss()
        heard = self._heard

        def silence() -> None:
            # A slow reader of our output, which holds the agents up, gets everything; unless it shall end now.
            busy = self._heard != heard or self._output.backlog
            if busy and self._ending not in ("signal", "broken"):
                self._dismiss()
            else:
                self._abandon()

        self._loop.after(SILENCE, silence)

    def _abandon(self) -> None:
        self._output.discard()
        for node in self._nodes:
            node.detach()

    # ---- the last words ----

    def _report(self) -> None:
        """Says how the job ended, if not well, and settles the exit code."""
        failed = {rank: code for rank, code in self._codes.items() if code}
        if self._ending == "timeout":
            self._code = TIMEOUT_CODE
        elif self._ending == "broken":
            self._code = shell_code(-signal.SIGPIPE)
        elif self._failures:
            self._report_failure()
        elif self._ending == "signal":
            self._code = shell_code(-self._signal) if failed or len(self._codes) < self._size else 0
            self._output.say(f"pycoll run: ended by {signal.Signals(self._signal).name}")
        elif self._ending in ("refused", "lost"):
            self._code = 1

    def _report_failure(self) -> None:
        first = self._first_failure()
        node = next(node for node in self._nodes if first in node.place.ranks)
        code, output = self._codes[first], self._output
        self._code = shell_code(code)
        how = f"with {describe_code(code)}" if code > 0 else f"by {describe_code(code)}"
        where = f" on {node.place}" if node.place.host else ""
        tail = output.tail(first)
        if self._size == 1:
            output.say(f"pycoll run: the program ended {how}")
            return
        output.say(f"pycoll run: rank {first} of {self._size}{where} failed first, {how}; the job was ended")
        if not tail:
            output.say(f"pycoll run: rank {first} wrote nothing to standard error")
        elif not self._job.tag_output or output.others_spoke_since_tail(first):
            output.say(f"---- the last lines that rank {first} wrote to standard error ----")
            output.say_tagged(first, tail)

    def _first_failure(self) -> int:
        """The rank to blame: the first that failed for a reason of its own, not because a peer was gone."""
        for rank in self._failures:
            if not any(_CONSEQUENCE.match(line) for line in self._output.tail(rank)[-5:]):
                return rank
        return self._failures[0]


if __name__ == "__main__":
    if sys.argv[1:] != ["--agent"]:
        sys.exit("pycoll.launch is started by `pycoll run`: see `pycoll run --help`")
    from pycoll.launch_agent import main

    sys.exit(main())
