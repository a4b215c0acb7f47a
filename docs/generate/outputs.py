"""What the programs print: they are run while the documentation is built, and must end as this table says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pycoll

from .files import DOCS, ROOT, save

SECONDS = 120  # far more than any of them takes


class Run(NamedTuple):
    program: str  # in docs
    ranks: int
    env: str = ""  # one NAME=VALUE
    code: int = 0
    name: str = ""  # of the output, if not the program's


EXAMPLES = [
    Run(f"examples/{path.name}", 4) for path in sorted((DOCS / "examples").glob("*.py")) if path.name != "digits.py"
]
PROGRAMS = [
    Run("programs/abort.py", 3, code=3),
    Run("programs/argument.py", 3),
    Run("programs/counters.py", 4, "COLL_TUNE=allreduce:64k-inf:ring"),
    Run("programs/death.py", 3, code=128 + 9),
    Run("programs/exception.py", 3, code=1),
    Run("programs/explain.py", 4, "COLL_TUNE=allreduce:64k-inf:ring"),
    Run("programs/late.py", 3),
    Run("programs/mismatch.py", 3),
    Run("programs/order.py", 4, "COLL_TUNE=allreduce:ring", name="order-ring"),
    Run("programs/order.py", 4, "COLL_TUNE=allreduce:recursive_doubling", name="order-doubling"),
    Run("programs/order.py", 4, "COLL_DETERMINISTIC=1", name="order-deterministic"),
    Run("programs/protocols.py", 2),
    Run("programs/refused.py", 0),
    Run("programs/trace.py", 2),
    Run("programs/truncate.py", 2),
]


def write() -> None:
    with ThreadPoolExecutor(2) as pool:
        for run, text in zip(EXAMPLES + PROGRAMS, pool.map(output, EXAMPLES + PROGRAMS), strict=True):
            save(f"output/{run.name or Path(run.program).stem}.txt", text)


def output(run: Run) -> str:
    """What it prints: the ranks' lines in the order of ranks, then what was said on standard error."""
    command = [sys.executable]
    if run.ranks:
        command += ["-m", "pycoll", "run", "-n", str(run.ranks), *(["--env", run.env] if run.env else [])]
    env = {key: value for key, value in os.environ.items() if not key.startswith("COLL_")}
    done = subprocess.run(
        [*command, str(DOCS / run.program)], capture_output=True, text=True, cwd=ROOT, env=env, timeout=SECONDS
    )
    if done.returncode != run.code:
        raise RuntimeError(f"{run.program} ended with {done.returncode}, not {run.code}:\n{done.stdout}{done.stderr}")
    lines = sorted(done.stdout.splitlines(), key=rank_of)
    return "\n".join(lines) + "\n" + without_places(done.stderr)


def rank_of(line: str) -> int:
    found = re.match(r"\D*\brank (\d+)\b|(\d+)\b", line)
    return int(found[1] or found[2]) if found else 0


def without_places(text: str) -> str:
    """Paths as they are in the tree, not on the machine that builds the pages."""
    for place in (ROOT, Path(pycoll.__file__).resolve().parents[1]):
        text = text.replace(f"{place}/", "")
    return text
