"""Every program in docs/examples, at 1, 2 and 4 ranks. What it must print stands at its top, as

    Each rank prints: TEXT      or      Rank 0 prints: TEXT

where {expressions} in TEXT may use rank and size."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from launch_support import run

import pycoll

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SIZES = (1, 2, 4)
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "digits.py")
C_PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.c"))


def promised(source: Path, size: int) -> list[str]:
    """The lines that the file says its ranks print."""
    found = re.search(r"^[ *]*(Each rank|Rank 0) prints: (.*)$", source.read_text(), re.MULTILINE)
    assert found, f"{source} does not say what it prints"
    ranks = range(size) if found[1] == "Each rank" else [0]
    return sorted(eval(f"f'''{found[2]}'''", {"rank": rank, "size": size}) for rank in ranks)


def check(source: Path, size: int, *command: object) -> None:
    result = run("-n", size, "--timeout", 60, *command, timeout=90)
    assert result.code == 0 and result.err == "", result
    assert sorted(result.out.splitlines()) == promised(source, size), result


def test_there_are_examples():
    assert len(PROGRAMS) >= 13 and len(C_PROGRAMS) >= 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name, size):
    check(EXAMPLES / name, size, EXAMPLES / name)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Builds an example against the libcoll that pycoll carries, once."""
    folder = tmp_path_factory.mktemp("examples")

    def build(name: str) -> Path:
        program = folder / Path(name).stem
        if not program.exists():
            library = pycoll.get_library_dir()
            command = [os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", EXAMPLES / name]
            command += ["-o", program, "-I", pycoll.get_include(), "-L", library, "-lcoll", f"-Wl,-rpath,{library}"]
            subprocess.run(command, check=True)
        return program

    return build


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", C_PROGRAMS)
def test_c_example(compiled, name, size):
    check(EXAMPLES / name, size, compiled(name))


@pytest.mark.parametrize("size, deterministic", [(1, "0"), (2, "0"), (4, "0"), (4, "1"), (3, "1")])
def test_digits(tmp_path, size, deterministic):
    picture = tmp_path / "loss.png"
    result = run(
        "-n", size, "--timeout", 60, "--env", f"COLL_DETERMINISTIC={deterministic}", EXAMPLES / "digits.py",
        "--epochs", 30, "--output", picture, timeout=90,
    )  # fmt: skip
    assert result.code == 0, result
    (accuracy,) = re.findall(r"^test accuracy: (0\.\d+)$", result.out, re.MULTILINE)
    assert float(accuracy) >= 0.95
    assert re.search(r"^time spent communicating: \d+\.\d% ", result.out, re.MULTILINE)
    assert "weights: equal to those of one process" in result.out
    if deterministic == "1":
        assert "bit for bit" in result.out
    assert str(picture) in result.out and picture.read_bytes().startswith(b"\x89PNG")
