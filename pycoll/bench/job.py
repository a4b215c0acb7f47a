"""One library on so many ranks: started once, then told cell by cell what to measure.

Each rank connects to a socket of the driver and sleeps until a task comes. An answer that is late or missing ends the
job and is an error that shows the last words of the ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from .libraries import Library

START = 60.0  # seconds for all ranks to be there
END = 10.0  # for the job to be over when the driver hangs up
LINGER = 1.0  # for the last words of a rank that is gone
LAST_WORDS = 600  # characters


class JobError(Exception):
    """The library did not start, failed, or did not answer."""


class Job:
    def __init__(self, library: Library, ranks: int, peers_dir: Path, start: float = START) -> None:
        self.library = library
        self.ranks = ranks
        self._connections: list[socket.socket] = []
        self._unread: list[bytes] = [b""] * ranks
        # Short, because the path of a socket has at most 107 characters.
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        path = str(Path(self._folder.name, "socket"))
        with socket.socket(socket.AF_UNIX) as door, open(self._log(), "wb") as log:
            door.bind(path)
            door.listen(ranks)
            try:
                self._process = subprocess.Popen(
                    library.command(peers_dir, ranks, path),
                    env=library.environ(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as problem:
                self._folder.cleanup()
                raise JobError(f"{library.name} could not be started: {problem}") from None
            try:
                self.version = self._meet(door, time.monotonic() + start)
            except BaseException:
                self.close(kill=True)
                raise

    def _log(self) -> Path:
        return Path(self._folder.name, "log")

    def _meet(self, door: socket.socket, deadline: float) -> str:
        """Waits for the ranks, puts their connections in the order of ranks, and gives the library's version."""
        door.settimeout(0.1)
        arrived: dict[int, socket.socket] = {}
        while len(self._connections) < self.ranks:
            if self._process.poll() is not None:
                raise self._error(f"ended with code {self._process.returncode} at its start")
            if time.monotonic() > deadline:
                raise self._error(f"has {len(self._connections)} of {self.ranks} ranks after its time to start")
            with contextlib.suppress(TimeoutError):
                self._connections.append(door.accept()[0])
        version = ""
        for index, connection in enumerate(list(self._connections)):
            hello = self._read(index, deadline)
            if hello["size"] != self.ranks or hello["rank"] in arrived:
                raise self._error(f"rank {hello['rank']} of {hello['size']} came, {self.ranks} ranks were asked for")
            arrived[hello["rank"]] = connection
            version = hello["version"]
        self._connections = [arrived[rank] for rank in range(self.ranks)]
        return version

    def ask(self, timeout: float, tasks: list[dict[str, Any]]) -> list[Any]:
        """Gives each rank its task; their answers, which are none if the library does not offer this."""
        deadline = time.monotonic() + timeout
        with contextlib.suppress(OSError):  # reading says who is gone
            for connection, task in zip(self._connections, tasks, strict=True):
                connection.sendall(json.dumps(task).encode() + b"\n")
        answers = [self._read(rank, deadline) for rank in range(self.ranks)]
        for rank, answer in enumerate(answers):
            if "error" in answer:
                raise self._error(f"rank {rank}: {answer['error']}")
        if any("not_offered" in answer for answer in answers):
            return []
        return [answer["answer"] for answer in answers]

    def _read(self, index: int, deadline: float) -> dict[str, Any]:
        connection = self._connections[index]
        while b"\n" not in self._unread[index]:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = connection.recv(1 << 16)
            except TimeoutError:
                raise self._error(f"rank {index} did not answer in time") from None
            except OSError:
                data = b""
            if not data:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LINGER)
                raise self._error(f"rank {index} is gone")
            self._unread[index] += data
        line, _, self._unread[index] = self._unread[index].partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _error(self, what: str) -> JobError:
        said = self._log().read_text(errors="replace").strip()[-LAST_WORDS:]
        return JobError(f"{self.library.name} on {self.ranks} ranks: {what}" + (f"\n{said}" if said else ""))

    def hang_up(self) -> None:
        """Tells the ranks that there is nothing more to do."""
        for connection in self._connections:
            connection.close()

    def close(self, kill: bool = False) -> None:
        """Ends the ranks: they go when the driver hangs up, or are killed."""
        self.hang_up()
        try:
            self._process.wait(0 if kill else END)
        except subprocess.TimeoutExpired:
            # First so that a launcher can take its ranks along, which may be in sessions of their own.
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END)
                    break
        self._folder.cleanup()
