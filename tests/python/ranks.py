"""Runs the body of a test on several processes.

    @ranks(1, 2, 4)
    def test_sum(comm):
        assert comm.allreduce(np.ones(3)).tolist() == [comm.size] * 3

is three tests, on 1, 2 and 4 ranks. Each rank is a fresh interpreter that imports the file of the test and calls the
body; `comm` is the world communicator (a body without arguments calls pycoll.init() itself), `tmp_path` a folder that
the ranks share. A test has a deadline; after it every rank says where it is and is killed. If a rank ends otherwise
than expected, the test shows what all of them said.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import inspect
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

#: Beyond the deadline of the ranks themselves, for one that does not even say where it is.
GRACE = 3.0


def ranks(
    *sizes: int,
    timeout: float = 30,
    env: dict[str, str] | None = None,
    codes: dict[int, int] | None = None,
    before: Callable[[Job], None] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The decorator. `codes`: exit codes other than 0 that are expected, by rank. `before` acts on the running job."""

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        file = Path(inspect.getfile(body))

        @pytest.mark.parametrize("size", sizes)
        def test(size: int, tmp_path: Path) -> None:
            with Job([str(__file__), str(file), body.__name__], size, tmp_path, timeout, env) as job:
                if before is not None:
                    before(job)
                job.expect(codes or {})

        test.__name__ = body.__name__
        test.__doc__ = body.__doc__
        test.body = body  # type: ignore[attr-defined]
        return test

    return decorate


class Job:
    """`size` processes of `python *program` that find each other; all are gone at the end of the `with` block."""

    def __init__(
        self,
        program: Sequence[str],
        size: int,
        folder: Path,
        timeout: float = 30,
        env: dict[str, str] | None = None,
    ) -> None:
        self.size = size
        self.folder = folder
        self.deadline = time.monotonic() + timeout + GRACE
        self.processes: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as door:
            common = {
                **{key: value for key, value in os.environ.items() if not key.startswith("COLL_")},
                "COLL_SIZE": str(size),
                "COLL_ADDR": "127.0.0.1",
                "COLL_PORT": str(door.getsockname()[1]),
                "COLL_SECRET": os.urandom(16).hex(),
                "COLL_TEST_FOLDER": str(folder),
                "COLL_TEST_TIMEOUT": str(timeout),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                **(env or {}),
            }
            for rank in range(size):
                place = {"COLL_RANK": str(rank)}
                inherited = []
                if rank == 0:
                    place["COLL_LISTEN_FD"] = str(door.fileno())
                    inherited.append(door.fileno())
                with open(self.output(rank), "wb") as output:
                    self.processes.append(
                        subprocess.Popen(
                            [sys.executable, *program],
                            env={**common, **place},
                            stdin=subprocess.DEVNULL,
                            stdout=output,
                            stderr=subprocess.STDOUT,
                            pass_fds=inherited,
                        )
                    )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *problem: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def output(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.out"

    def said(self) -> str:
        return "".join(
            f"\n---- rank {rank}, exit code {process.poll()}\n{self.output(rank).read_text(errors='replace')}"
            for rank, process in enumerate(self.processes)
        )

    def wait_for(self, *names: str) -> None:
        """Until the ranks have made these files in the shared folder."""
        while not all((self.folder / name).exists() for name in names):
            assert time.monotonic() < self.deadline, f"no {names} in time{self.said()}"
            time.sleep(0.01)

    def expect(self, codes: dict[int, int]) -> None:
        """Waits for the end of all ranks, with code 0 or that of `codes`."""
        wanted = [codes.get(rank, 0) for rank in range(self.size)]
        for process in self.processes:
            try:
                process.wait(max(self.deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                pytest.fail(f"the ranks did not end in time{self.said()}", pytrace=False)
        if [process.returncode for process in self.processes] != wanted:
            pytest.fail(f"exit codes other than {wanted}{self.said()}", pytrace=False)


def meet(folder: Path, name: str, rank: int, size: int) -> None:
    """Waits for all ranks by files, that is without the library under test."""
    (folder / f"{name}{rank}").touch()
    while not all((folder / f"{name}{other}").exists() for other in range(size)):
        time.sleep(0.005)


def _main(file: str, name: str) -> None:
    """One rank: runs the body `name` of `file`."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(float(os.environ["COLL_TEST_TIMEOUT"]), exit=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[Path(file).stem] = module
    spec.loader.exec_module(module)
    body = getattr(module, name).body
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(body).parameters:
        if parameter == "comm":
            import pycoll

            arguments["comm"] = pycoll.init()
        else:
            assert parameter == "tmp_path", parameter
            arguments["tmp_path"] = Path(os.environ["COLL_TEST_FOLDER"])
    body(**arguments)


if __name__ == "__main__":
    _main(*sys.argv[1:])
