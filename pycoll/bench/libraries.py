"""The libraries that are measured: one row each, with how its ranks are started as its users would start them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

WORKERS = Path(__file__).with_name("workers")
HOW_TO_INSTALL = "not installed (`make bench-peers` does)"


class Library(NamedTuple):
    name: str
    worker: str
    #: The folder of its virtual environment under --peers-dir; empty for this one.
    environment: str
    #: Of the environment's bin folder and the number of ranks: the words before `worker.py SOCKET`.
    launch: Callable[[Path, int], list[str]]
    #: The program that launches, in the bin folder.
    launcher: str
    modes: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    def bin(self, peers_dir: Path) -> Path:
        # Not resolved: a virtual environment is known by the path of its python, which is a link.
        return peers_dir.absolute() / self.environment / "bin" if self.environment else Path(sys.executable).parent

    def is_installed(self, peers_dir: Path) -> bool:
        folder = self.bin(peers_dir)
        return not self.environment or all((folder / name).exists() for name in ("python", self.launcher))

    def command(self, peers_dir: Path, ranks: int, socket: str) -> list[str]:
        return [*self.launch(self.bin(peers_dir), ranks), str(WORKERS / self.worker), socket]

    def environ(self) -> dict[str, str]:
        """One thread a rank. The paths of our own modules are not for the environments of others."""
        kept = {name: value for name, value in os.environ.items() if not (self.environment and name == "PYTHONPATH")}
        return {**kept, "OMP_NUM_THREADS": "1", **dict(self.variables)}


def _mpi(name: str, *options: str) -> Library:
    def launch(folder: Path, ranks: int) -> list[str]:
        return [str(folder / "mpiexec"), *options, "-n", str(ranks), str(folder / "python")]

    return Library(name, "worker_mpi4py.py", name, launch, "mpiexec", ("ordinary", "persistent"))


LIBRARIES = {
    row.name: row
    for row in (
        Library(
            "pycoll",
            "worker_pycoll.py",
            "",
            lambda folder, ranks: [sys.executable, "-m", "pycoll", "run", "-n", str(ranks)],
            "python",
            ("ordinary", "symmetric", "persistent"),
        ),
        _mpi("mpich"),
        _mpi("openmpi", "--allow-run-as-root", "--oversubscribe"),
        _mpi("impi"),
        Library(
            "gloo",
            "worker_gloo.py",
            "torch",
            lambda folder, ranks: [str(folder / "torchrun"), "--nproc-per-node", str(ranks)],
            "torchrun",
            ("ordinary",),
            (("GLOO_SOCKET_IFNAME", "lo"),),
        ),
    )
}
