"""The files of the source tree, and what the lint tests have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "libcoll"
SOURCE = LIBRARY / "src"
HEADER = LIBRARY / "include" / "coll.h"

FOLDERS = [".ci", "bench", "cmake", "conda-recipe", "docs", "libcoll", "pycoll", "tests"]
# What building leaves inside these folders; .gitignore has the same.
MADE = re.compile(
    r"(^|/)(__pycache__|_build|generated|\.[a-z]+_cache|[^/]*\.egg-info)(/|$)"
    r"|^pycoll/(lib|include)/|^pycoll/_version\.py$"
)


def files(*suffixes: str, under: Path = ROOT) -> Iterator[Path]:
    """The tree's own files with one of these suffixes, sorted; without suffixes all of them."""
    tops = [path for path in ROOT.iterdir() if path.is_file() or path.name in FOLDERS]
    found = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]
    for file in sorted(found):
        name = file.relative_to(ROOT).as_posix()
        if file.is_file() and file.is_relative_to(under) and not MADE.search(name):
            if not suffixes or file.suffix in suffixes:
                yield file


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def without_comments(text: str) -> str:
    """C source with comments and the contents of string literals blanked; lines stay where they are."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

    def blank(match: re.Match[str]) -> str:
        return '""' if match.group().startswith('"') else re.sub(r"[^\n]", " ", match.group())

    return token.sub(blank, text)


def declared_functions() -> set[str]:
    """The functions that coll.h declares."""
    return set(re.findall(r"\b(coll_[a-z0-9_]+)\(", without_comments(HEADER.read_text())))


def enumerators(text: str, enum: str) -> list[str]:
    """The constants of `enum NAME { ... }` in their order."""
    body = re.search(rf"enum {enum}\s*{{(.*?)}}", without_comments(text), re.DOTALL)
    assert body, f"no enum {enum}"
    return re.findall(r"\b([A-Z][A-Z0-9_]+)\s*(?:=[^,]*)?(?:,|\s*$)", body.group(1))
