"""What the launcher and its agents stand on: one poll() loop, and frames over a pair of descriptors.

asyncio could do this, but importing it costs more time than starting the ranks. Nothing here blocks except the poll()
itself, so a signal or the end of a connection is always seen, even while the terminal takes no output.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable

READ, WRITE = select.POLLIN, select.POLLOUT
CHUNK = 1 << 16
#: Bytes that may wait in a queue before its owner stops reading what would fill it further.
BACKLOG = 1 << 20


class Loop:
    """Descriptors, timers and signals in one poll().

    A descriptor is watched with two functions: ``interest()`` is asked before each poll() which events matter now, and
    ``ready()`` is called when one came. So there is nothing to switch on and off.
    """

    def __init__(self) -> None:
        self._sources: dict[int, tuple[Callable[[], int], Callable[[], None]]] = {}
        self._timers: list[Timer] = []
        self._signals: list[int] = []

    def watch(self, fd: int, interest: Callable[[], int], ready: Callable[[], None]) -> None:
        self._sources[fd] = (interest, ready)

    def forget(self, fd: int) -> None:
        self._sources.pop(fd, None)

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + seconds, action)
        self._timers.append(timer)
        return timer

    def on_signals(self, numbers: Iterable[int], action: Callable[[int], None]) -> None:
        """Calls ``action(number)`` from the loop for each signal. SIGHUP stays ignored if it was (nohup)."""
        receiver, sender = os.pipe()
        os.set_blocking(receiver, False)
        os.set_blocking(sender, False)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        for number in numbers:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            signal.signal(number, lambda *_: None)

        def ready() -> None:
            for number in os.read(receiver, 512):
                action(number)

        self.watch(receiver, lambda: READ, ready)

    def run_once(self) -> None:
        poller = select.poll()
        for fd, (interest, _) in self._sources.items():
            events = interest()
            if events:
                poller.register(fd, events)
        self._timers = [timer for timer in self._timers if timer.action]
        due = min((timer.when for timer in self._timers), default=None)
        wait = None if due is None else max(0.0, due - time.monotonic()) * 1000 + 1
        for fd, _ in poller.poll(wait):
            if fd in self._sources:  # an earlier one may have ended it
                self._sources[fd][1]()
        now = time.monotonic()
        for timer in self._timers:
            if timer.when <= now and timer.action:
                action, timer.action = timer.action, None
                action()


class Timer:
    """One call in the future, unless cancelled."""

    def __init__(self, when: float, action: Callable[[], None]) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Frame:
    """Kinds of frames: to an agent, then from an agent. The number beside the kind is a rank unless said otherwise."""

    JOB = 1  # JSON: what to run, and where
    START = 2  # JSON: the address where rank 0 listens
    SIGNAL = 3  # the number is a signal, for every rank
    STDIN = 4  # bytes for rank 0; none: its end
    READY = 16  # JSON: the address, from the agent that listens
    STARTED = 17  # payload: the process id in decimal
    OUTPUT = 18  # bytes of standard output
    ERRORS = 19  # bytes of standard error
    OUTPUT_END = 20
    ERRORS_END = 21
    EXIT = 22  # payload: the exit code in decimal, negative for a signal
    STDIN_DONE = 23  # the last STDIN frame was written
    REFUSED = 24  # payload: why this agent cannot do it


#: What an agent says first. A remote shell may print a greeting before it. The digit is the version of the frames.
MAGIC_PREFIX = b"\0pycoll-agent-"
MAGIC = MAGIC_PREFIX + b"1\n"
_HEADER = struct.Struct("!BiI")


class Channel:
    """Frames in both directions over a readable and a writable descriptor, which it owns."""

    def __init__(
        self,
        loop: Loop,
        read_fd: int,
        write_fd: int,
        on_frame: Callable[[int, int, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self.backlog = 0  # bytes not yet written
        self.paused: Callable[[], bool] = lambda: False  # asked before reading
        self.greeting: bytes | None = None  # what came before MAGIC, once that has come
        self._loop, self._read_fd, self._write_fd = loop, read_fd, write_fd
        self._on_frame, self._on_end = on_frame, on_end
        self._out: deque[bytes] = deque()
        self._in = bytearray()
        self._closing = False
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)
        loop.watch(read_fd, lambda: 0 if self.paused() else READ, self._read)
        loop.watch(write_fd, lambda: WRITE if self._out else 0, self._write)

    @property
    def open(self) -> bool:
        return self._read_fd >= 0

    @property
    def before_magic(self) -> bytes:
        """What the other side said so far, as long as it has not said MAGIC."""
        return bytes(self._in)

    def say_magic(self) -> None:
        self.greeting = b""  # the launcher sends no magic of its own
        self._queue(MAGIC)

    def send(self, kind: int, number: int = 0, payload: bytes = b"") -> None:
        self._queue(_HEADER.pack(kind, number, len(payload)) + payload)

    def close_write(self) -> None:
        """Tells the other side that nothing more comes, after what is queued."""
        self._closing = True
        if not self._out:
            self._drop_write()

    def close(self) -> None:
        self._drop_write()
        if self._read_fd >= 0:
            self._loop.forget(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1

    def _queue(self, data: bytes) -> None:
        if self._write_fd >= 0 and not self._closing:
            self._out.append(data)
            self.backlog += len(data)

    def _write(self) -> None:
        try:
            while self._out:
                written = os.write(self._write_fd, self._out[0])
                self.backlog -= written
                if written < len(self._out[0]):
                    self._out[0] = self._out[0][written:]
                else:
                    self._out.popleft()
        except BlockingIOError:
            return
        except OSError:  # the reader is gone; the end of our input will tell
            self._drop_write()
            return
        if self._closing:
            self._drop_write()

    def _drop_write(self) -> None:
        self._out.clear()
        self.backlog = 0
        if self._write_fd >= 0:
            self._loop.forget(self._write_fd)
            os.close(self._write_fd)
            self._write_fd = -1

    def _read(self) -> None:
        try:
            data = os.read(self._read_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._on_end()
            return
        self._in += data
        if self.greeting is None and not self._find_magic():
            return
        position = 0
        while len(self._in) - position >= _HEADER.size:
            kind, number, size = _HEADER.unpack_from(self._in, position)
            end = position + _HEADER.size + size
            if end > len(self._in):
                break
            payload = bytes(self._in[position + _HEADER.size : end])
            position = end
            self._on_frame(kind, number, payload)
        del self._in[:position]

    def _find_magic(self) -> bool:
        at = self._in.find(MAGIC)
        if at < 0:
            return False
        self.greeting = bytes(self._in[:at])
        del self._in[: at + len(MAGIC)]
        return True
