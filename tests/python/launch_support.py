"""Runs `pycoll run` for the tests and finds the processes that it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

PYCOLL = [sys.executable, "-m", "pycoll"]
MARK = "COLL_TEST_MARK"


class Launch:
    """One `pycoll run`, whose processes carry a mark in their environment."""

    def __init__(
        self, *arguments: object, stdin: object = subprocess.DEVNULL, env: dict[str, str] | None = None, **popen
    ):
        self.mark = uuid.uuid4().hex
        popen = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        self.process = subprocess.Popen(
            [*PYCOLL, "run", *map(str, arguments)],
            stdin=stdin,
            env={**os.environ, MARK: self.mark, **(env or {})},
            start_new_session=True,
            **popen,
        )

    def finish(self, timeout: float = 30, input: bytes | None = None) -> Result:
        try:
            out, err = self.process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise
        return Result(self.process.returncode, out or b"", err or b"")

    def wait_for(self, path: Path, count: int, timeout: float = 20) -> None:
        """Until `count` ranks have made their file in the folder `path`."""
        deadline = time.monotonic() + timeout
        while len(list(path.iterdir())) < count:
            assert time.monotonic() < deadline, "the ranks did not start"
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)

    def left_behind(self) -> list[int]:
        """Processes of this job that still run, the launcher not counted."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != self.process.pid:
                try:
                    environ = Path(f"/proc/{name}/environ").read_bytes()
                except OSError:
                    continue
                if f"{MARK}={self.mark}".encode() in environ.split(b"\0"):
                    found.append(int(name))
        return found

    def gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.left_behind():
            if time.monotonic() > deadline:
                self.kill_all()
                return False
            time.sleep(0.02)
        return True

    def kill_all(self) -> None:
        for pid in [self.process.pid, *self.left_behind()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.process.wait()


class Result:
    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code, self.out, self.err = code, out.decode(errors="replace"), err.decode(errors="replace")

    def __repr__(self) -> str:
        return f"code {self.code}\n--- out\n{self.out}--- err\n{self.err}"


def run(*arguments: object, timeout: float = 30, input: bytes | None = None, **options) -> Result:
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    return Launch(*arguments, stdin=stdin, **options).finish(timeout, input)


def script(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path
