"""The C interface as a page: turns the sections, comments and declarations of coll.h into reST.

The header is written for readers, so nothing is added here: a comment before a declaration, or behind it on the same
line, becomes its description; one that a blank line follows becomes prose.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .files import HEADER, save

SECTION = re.compile(r"^/\* ---- (\d+)\. (.+?) -+ \*/$", re.MULTILINE)
TOKEN = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<macro>#define[^\n]*)|(?P<blank>\n[ \t]*\n)|(?P<space>\s+)", re.DOTALL)
# A declaration ends at a semicolon outside braces and comments.
DECLARATION = re.compile(r"(?:[^;{/]|/(?!\*)|\{(?:[^{}/]|/\*.*?\*/|/)*\})+;", re.DOTALL)
FUNCTION = re.compile(r"^(?P<head>[\w\s*]+?)\b(?P<name>coll_\w+)\s*\(", re.DOTALL)
BLOCK = re.compile(
    r"^(?:typedef\s+)?(?P<kind>struct|enum)\s*(?P<tag>\w*)\s*\{(?P<body>.*)\}\s*(?P<name>\w*)$", re.DOTALL
)
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)


class Item(NamedTuple):
    """One declaration with what is said about it, or (code "") prose."""

    code: str
    about: str


class Section(NamedTuple):
    number: int
    title: str
    items: list[Item]


def plain(comment: str) -> str:
    """A comment's text on one line, in reST: `name` and name() are code, numbers and * are themselves."""
    text = re.sub(r"\s*\n\s*\*?\s*", " ", comment.strip())
    text = text.replace("*done", "`*done`").replace("*out", "`*out`")
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)
    text = re.sub(r"\bcoll_(\w+)\(\)", r":c:func:`coll_\1`", text)
    text = re.sub(r"\bCOLL_ERR_\w+", r":c:enumerator:`\g<0>`", text)
    # A range of bytes such as recv[r * count], and names that end with an underscore, are no markup.
    return re.sub(r"(?<![`\w])(\w+\[[^\]]+\])", r"``\1``", text)


def parse(path: Path) -> list[Section]:
    """The numbered sections of the header."""
    text = path.read_text()
    marks = list(SECTION.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [text.index("#ifdef __cplusplus", marks[-1].end())]
    return [
        Section(int(mark[1]), mark[2], list(_items(text[mark.end() : end])))
        for mark, end in zip(marks, ends, strict=True)
    ]


def _items(text: str):
    """Walks a section: pending comments wait for the declaration that they stand before."""
    at, pending = 0, []
    while at < len(text):
        token = TOKEN.match(text, at)
        if token:
            at = token.end()
            if token["comment"] is not None:
                pending.append(plain(token["comment"]))
                if re.match(r"[ \t]*\n[ \t]*\n", text[at:]):
                    yield Item("", " ".join(pending))
                    pending = []
            elif token["macro"]:
                yield Item(token["macro"].split("(")[0].strip(), " ".join(pending))
                pending = []
            continue
        found = DECLARATION.match(text, at)
        if not found:
            raise ValueError(f"coll.h: not understood: {text[at : at + 60]!r}")
        at = found.end()
        behind = re.match(r"[ \t]*/\*(.*?)\*/", text[at:], re.DOTALL)
        if behind:
            pending.append(plain(behind[1]))
            at += behind.end()
        yield Item(found[0].rstrip(";").strip(), " ".join(pending))
        pending = []


def functions(sections: list[Section]) -> list[str]:
    """The names of all functions."""
    found = [FUNCTION.match(item.code) for section in sections for item in section.items]
    return [match["name"] for match in found if match and "{" not in match["head"] and "typedef" not in match["head"]]


def page(sections: list[Section]) -> str:
    """All sections as one page."""
    lines: list[str] = []
    for section in sections:
        title = f"{section.number}. {section.title}"
        lines += [title, "-" * len(title), ""]
        for item in section.items:
            lines += _directive(item)
    return "\n".join(lines)


def _directive(item: Item) -> list[str]:
    if not item.code:
        return [item.about, ""]
    block = BLOCK.match(item.code)
    if block:
        return _block(block, item.about)
    code = " ".join(COMMENT.sub("", item.code).split())
    if code.startswith("#define"):
        return _entry("c:macro", code.split()[1], item.about)
    if code.startswith("typedef"):
        # An opaque struct has no more than its name; others show what they stand for.
        name = code.split()[-1] if "struct" in code else code.removeprefix("typedef ")
        return _entry("c:type", name, item.about)
    return _entry("c:function", code, item.about)


def _entry(kind: str, signature: str, about: str, indent: str = "") -> list[str]:
    lines = [f"{indent}.. {kind}:: {signature}", ""]
    return lines + ([f"{indent}   {about}", ""] if about else [])


def _block(block: re.Match[str], about: str) -> list[str]:
    kind, name = block["kind"], block["name"] or block["tag"] or "@constants"
    lines = _entry(f"c:{kind}", name, about)
    end = ";" if kind == "struct" else ","
    # Comments stand behind what they are about.
    for member, comment in re.findall(
        rf"([^{end}/]+)(?:{end}|(?=/\*)|$)[ \t]*(?:/\*(.*?)\*/)?", block["body"], re.DOTALL
    ):
        member = " ".join(member.split())
        if not member:
            continue
        if kind == "enum":
            lines += _entry("c:enumerator", member, plain(comment), "   ")
            continue
        # "const char *source, *target" declares two.
        first, *others = member.split(",")
        base = first.replace("*", "").rsplit(maxsplit=1)[0]
        for each in [first, *(f"{base} {other.strip()}" for other in others)]:
            lines += _entry("c:member", each.strip(), plain(comment), "   ")
    return lines


def write() -> None:
    save("c.inc", page(parse(HEADER)))
