"""Output of many ranks on one terminal: whole lines, never mixed, tagged on request, and the last ones remembered."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable
from functools import partial

from .launch_loop import WRITE, Loop, Timer

STDOUT, STDERR = 1, 2
#: A line without an end is shown when nothing has been added for IDLE seconds (a prompt), at the latest after AGE.
IDLE, AGE = 0.25, 2.0
TAIL_LINES, TAIL_WIDTH = 40, 4000
_SELF = -1  # the launcher itself, where a rank is expected


class Output:
    """Takes bytes of (rank, stream) and writes lines to this process's standard output and error.

    One queue for both, so that they stay in order where both are the same terminal. Never blocks.
    """

    def __init__(self, loop: Loop, tag: bool, on_broken: Callable[[], None]) -> None:
        self.backlog = 0
        self._loop, self._tag, self._on_broken = loop, tag, on_broken
        self._queue: deque[tuple[int, bytes]] = deque()
        self._partial: dict[tuple[int, int], _Partial] = {}
        self._unfinished: dict[int, tuple[int, int]] = {}  # fd -> whose line is shown without its end
        self._tails: dict[int, deque[tuple[int, bytes]]] = {}  # rank -> its last lines of standard error
        self._last_line: dict[int, int] = {}  # rank -> when it last wrote one, on the scale of _clock
        self._clock = 0
        for fd in (STDOUT, STDERR):
            loop.watch(fd, partial(self._interest, fd), self._write)

    def feed(self, rank: int, fd: int, data: bytes) -> None:
        """Shows the lines that `data` completes; keeps what follows them."""
        key = (rank, fd)
        begun = self._partial.get(key)
        if begun is None:
            begun = self._partial[key] = _Partial(key)
        end = data.rfind(b"\n") + 1
        if end:
            self._show(key, begun.take() + data[:end])
        if end < len(data):
            begun.add(data[end:], self._loop, self._show_partial)

    def finish(self, rank: int, fd: int) -> None:
        """The stream has ended: so has its last line."""
        begun = self._partial.pop((rank, fd), None)
        rest = begun.take() if begun else b""
        if rest:
            self._show((rank, fd), rest)

    def say(self, text: str) -> None:
        """A line of the launcher itself, on standard error."""
        self._show((_SELF, STDERR), text.encode(errors="surrogateescape") + b"\n", tag=False)

    def say_tagged(self, rank: int, lines: list[bytes]) -> None:
        self._emit(STDERR, b"".join(b"[%d] %s\n" % (rank, line) for line in lines))

    def tail(self, rank: int) -> list[bytes]:
        """The last lines that a rank wrote to standard error."""
        return [line for _, line in self._tails.get(rank, ())]

    def others_spoke_since_tail(self, rank: int) -> bool:
        """Whether a reader would have to search for those lines."""
        tail = self._tails.get(rank)
        if not tail:
            return False
        return any(last > tail[0][0] for other, last in self._last_line.items() if other not in (rank, _SELF))

    def discard(self) -> None:
        self._queue.clear()
        self.backlog = 0

    # ---- lines ----

    def _show(self, key: tuple[int, int], text: bytes, tag: bool = True) -> None:
        rank, fd = key
        owner = self._unfinished.pop(fd, None)
        if owner not in (None, key):
            self._emit(fd, b"\n")
        self._clock += 1
        self._last_line[rank] = self._clock
        lines = text.split(b"\n")
        if fd == STDERR and rank >= 0:
            tail = self._tails.setdefault(rank, deque(maxlen=TAIL_LINES))
            tail.extend(
                (self._clock, line[:TAIL_WIDTH]) for line in (lines[:-1] if not lines[-1] else lines)[-TAIL_LINES:]
            )
        if self._tag and tag:
            label = b"[%d] " % rank
            text = text[:-1].replace(b"\n", b"\n" + label) + text[-1:]
            if owner != key:
                text = label + text
        if not text.endswith(b"\n"):
            self._unfinished[fd] = key
        self._emit(fd, text)

    def _show_partial(self, begun: _Partial) -> None:
        if self.backlog:  # its end may have come already: nothing more is read while the output is behind
            begun.add(b"", self._loop, self._show_partial)
        else:
            self._show(begun.key, begun.take())

    # ---- writing ----

    def _emit(self, fd: int, data: bytes) -> None:
        self._queue.append((fd, data))
        self.backlog += len(data)

    def _interest(self, fd: int) -> int:
        return WRITE if self._queue and self._queue[0][0] == fd else 0

    def _write(self) -> None:
        if not self._queue:
            return
        fd, data = self._queue.popleft()
        # Ready means that a pipe takes PIPE_BUF bytes; a longer write could block. A file never does.
        limit = len(data) if stat.S_ISREG(os.fstat(fd).st_mode) else 4096
        try:
            written = os.write(fd, data[:limit])
        except BlockingIOError:
            written = 0
        except OSError:
            self.discard()
            self._on_broken()
            return
        self.backlog -= written
        if written < len(data):
            self._queue.appendleft((fd, data[written:]))


class _Partial:
    """The beginning of a line, and the timers after which it is shown although its end has not come."""

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key
        self._data: list[bytes] = []
        self._idle: Timer | None = None
        self._age: Timer | None = None

    def add(self, data: bytes, loop: Loop, show: Callable[[_Partial], None]) -> None:
        self._data.append(data)
        if self._idle:
            self._idle.cancel()
        self._idle = loop.after(IDLE, lambda: show(self))
        if not self._age or not self._age.action:
            self._age = loop.after(AGE, lambda: show(self))

    def take(self) -> bytes:
        data, self._data = b"".join(self._data), []
        for timer in (self._idle, self._age):
            if timer:
                timer.cancel()
        self._idle = self._age = None
        return data
