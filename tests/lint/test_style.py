"""Rules that a reader relies on: short files that say their idea, and nothing that belongs to one machine."""

import re
import warnings

import pytest
import tree

CODE = list(tree.files(".c", ".h", ".py", ".cmake", ".sh", ".toml", ".rst"))
TEXT = [path for path in tree.files() if path.suffix not in {".png", ".svg", ".so", ".pdf"}]
C_AND_PYTHON = list(tree.files(".c", ".h", ".py"))
LONG, TOO_LONG = 400, 500

# Written so that this file does not match itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~-])/(?:work|root|home/\w+)/",
    "the host of a package registry": r"py[p]i\.org|python[h]osted|deb\.debian\.org[/]|conda\.anaconda\.org[/]",
    "a build for one machine's CPU": r"-march=nativ[e]",
    "unfinished work": r"\b(?:TOD[O]|FIXM[E]|XX[X])\b",
    "a test that is not run": r"pytest\.ski[p]|mark\.ski[p]|mark\.xfai[l]|pytest\.xfai[l]|importorski[p]",
}


def lines_of(path):
    return path.read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize("path", C_AND_PYTHON, ids=tree.name)
def test_files_are_short(path):
    length = len(lines_of(path))
    if LONG < length <= TOO_LONG:
        warnings.warn(f"{tree.name(path)} has {length} lines; aim for {LONG}", stacklevel=1)
    assert length <= TOO_LONG, f"{tree.name(path)} has {length} lines: one idea a file"


@pytest.mark.parametrize("path", CODE, ids=tree.name)
def test_lines_are_clean(path):
    lines = lines_of(path)
    assert lines[-1] == "", "the file does not end with a newline"
    for number, line in enumerate(lines, 1):
        place = f"{tree.name(path)}:{number}"
        assert len(line) <= 120, f"{place}: {len(line)} columns"
        assert line == line.rstrip(), f"{place}: space at the end of the line"
        assert "\t" not in line, f"{place}: tab"


@pytest.mark.parametrize("path", TEXT, ids=tree.name)
def test_nothing_forbidden_is_written(path):
    text = path.read_text(encoding="utf-8")
    for what, pattern in FORBIDDEN.items():
        found = re.search(pattern, text)
        assert not found, f"{tree.name(path)} has {what}: {found.group()!r}"


@pytest.mark.parametrize("path", C_AND_PYTHON, ids=tree.name)
def test_files_begin_with_their_idea(path):
    text = path.read_text(encoding="utf-8")
    opening = ('"""', 'r"""', "#!") if path.suffix == ".py" else ("/*", "//")
    assert text.startswith(opening), f"{tree.name(path)} does not begin with a comment that says its idea"


@pytest.mark.parametrize("path", list(tree.files(".c", under=tree.LIBRARY)), ids=tree.name)
def test_the_library_never_ends_or_prints_for_its_caller(path):
    code = tree.without_comments(path.read_text(encoding="utf-8"))
    found = re.search(r"(?<!\w)(?:abort|exit|_exit|printf|puts|putchar|assert)\s*\(|\bstdout\b", code)
    assert not found, f"{tree.name(path)} has {found.group()!r}: an error is a status, output is the caller's"
