"""Where things are, and small pieces of reST."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = DOCS / "generated"
SOURCE = ROOT / "libcoll" / "src"
HEADER = ROOT / "libcoll" / "include" / "coll.h"


def save(name: str, text: str) -> None:
    """Writes docs/generated/NAME, if it is not the same already."""
    path = GENERATED / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text.rstrip("\n") + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> list[str]:
    """A list-table; cells are reST."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (header, *rows):
        for index, cell in enumerate(row):
            lines.append(f"   {'*' if index == 0 else ' '} - {cell}".rstrip())
    return [*lines, ""]


def first_comment(path: Path) -> str:
    """The comment that a C file begins with, without its stars."""
    found = re.match(r"\s*/\*(.*?)\*/", path.read_text(), re.DOTALL)
    if not found:
        raise ValueError(f"{path} does not begin with a comment")
    return re.sub(r"^[ \t]*\*(?: |$)", "", found[1].strip(), flags=re.MULTILINE)


def paragraphs(comment: str) -> list[str]:
    """A comment's paragraphs, each on one line; indented blocks such as diagrams stay out."""
    found = []
    for block in re.split(r"\n\s*\n", comment):
        if not block.startswith("    "):
            found.append(" ".join(block.split()))
    return found


def escape(text: str) -> str:
    """Plain words as reST: `name` becomes code, and nothing else is markup."""
    text = re.sub(r"([\\*|_])", r"\\\1", text)
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", lambda code: f"``{code[1].replace(chr(92), '')}``", text)
