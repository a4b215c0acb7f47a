"""What is to be measured: the choices of the command line, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .libraries import LIBRARIES
from .workers.operations import ITEMSIZE, OPERATIONS, has_data

MODES = ("ordinary", "symmetric", "persistent")
SIZES = tuple(8 << shift for shift in (0, 3, 7, 11, 13, 15, 17, 19, 21, 23))  # 8 B to 64 MiB
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Cell:
    ranks: int
    operation: str
    nbytes: int


@dataclass(frozen=True)
class Settings:
    operations: tuple[str, ...] = tuple(OPERATIONS)
    sizes: tuple[int, ...] = SIZES
    ranks: tuple[int, ...] = (2, 4, 8)
    modes: tuple[str, ...] = MODES
    peers: tuple[str, ...] = tuple(name for name in LIBRARIES if name != "pycoll")
    peers_dir: Path = Path("build/peers")
    rounds: int = 5
    block: float = 0.05  # seconds that a library measures before the next has its turn
    late: tuple[int, float] | None = None  # rank, seconds

    def cells(self, ranks: int) -> Iterator[Cell]:
        for operation in self.operations:
            for nbytes in self.sizes if has_data(OPERATIONS[operation]) else (0,):
                yield Cell(ranks, operation, nbytes)


QUICK = {"sizes": (8, 64 << 10, 1 << 20), "ranks": (2,), "rounds": 2, "block": 0.02}


def words(text: str, allowed: Sequence[str], option: str) -> tuple[str, ...]:
    """A list with commas of some of `allowed`, in the order of `allowed`; `none` is an empty one."""
    given = [word.strip() for word in text.split(",")]
    if given == ["none"] and option == "--peers":
        return ()
    for word in given:
        if word not in allowed:
            extra = ", or none" if option == "--peers" else ""
            raise ValueError(f"{option}: {word!r} is not one of {', '.join(allowed)}{extra}")
    return tuple(word for word in allowed if word in given)


def sizes(text: str) -> tuple[int, ...]:
    """As in 8,1k,64k,16m: bytes, KiB, MiB."""
    found = set()
    for word in text.lower().split(","):
        match = re.fullmatch(r"\s*(\d+)([kmg]?)(i?b)?\s*", word)
        nbytes = int(match[1]) * UNITS[match[2]] if match else 0
        if nbytes == 0 or nbytes % ITEMSIZE:
            raise ValueError(f"--sizes: {word!r} is not a multiple of {ITEMSIZE} bytes (float64), as in 8,1k,16m")
        found.add(nbytes)
    return tuple(sorted(found))


def ranks(text: str) -> tuple[int, ...]:
    found = set()
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= 1024:
            raise ValueError(f"--ranks: {word!r} is not a number from 1 to 1024, as in 2,4,8")
        found.add(int(word))
    return tuple(sorted(found))


def late(text: str) -> tuple[int, float]:
    """As in 1:50: rank 1 comes 50 ms late to every call."""
    match = re.fullmatch(r"(\d+):(\d+(?:\.\d+)?)", text)
    if not match:
        raise ValueError(f"--late: {text!r} is not RANK:MILLISECONDS, as in 1:50")
    return int(match[1]), float(match[2]) / 1e3


def size_text(nbytes: int) -> str:
    """64 Ki, 8, or - for an operation without data."""
    if nbytes == 0:
        return "-"
    for unit, power in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.4g} {unit}"
    return str(nbytes)


def time_text(us: float | None) -> str:
    """Microseconds with three digits that count."""
    if us is None or not math.isfinite(us):
        return "-"
    digits = max(0, 2 - math.floor(math.log10(us))) if us > 0 else 0
    return f"{us:.{min(digits, 3)}f}"
