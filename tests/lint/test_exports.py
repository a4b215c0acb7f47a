"""The public header and the built library agree, and the header is plain C11 and C++."""

import re
import subprocess
from pathlib import Path

import pytest
import tree

import pycoll


def exported():
    library = Path(pycoll.get_library_dir(), "libcoll.so")
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", library], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[0].split("@")[0] for line in listing.splitlines()}


def test_the_library_exports_what_the_header_declares():
    declared = tree.declared_functions()
    assert declared
    assert exported() == declared


def test_the_bundled_header_is_the_trees():
    assert Path(pycoll.get_include(), "coll.h").read_bytes() == tree.HEADER.read_bytes()


@pytest.mark.parametrize(
    "language",
    [
        ["gcc", "-x", "c", "-std=c11", "-pedantic-errors", "-Wstrict-prototypes", "-Wmissing-prototypes"],
        ["gcc", "-x", "c", "-std=c17", "-pedantic-errors"],
        ["g++", "-x", "c++", "-std=c++11", "-pedantic-errors"],
        ["g++", "-x", "c++", "-std=c++20", "-pedantic-errors"],
    ],
    ids=lambda language: f"{language[0]} {language[3]}",
)
def test_the_header_compiles_strictly(language, tmp_path):
    source = tmp_path / "consumer"
    source.write_text(
        "#include <coll.h>\n#include <coll.h>\n"
        "int use(void);\nint use(void) { coll_comm_t *comm; return coll_init(0, &comm) + (COLL_IN_PLACE != 0); }\n"
    )
    flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command = [*language, *flags, f"-I{tree.HEADER.parent}", source]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_cdef_can_be_made_from_the_header():
    """cffi reads the header through the preprocessor: constants are enums, and no function has a body."""
    code = tree.without_comments(tree.HEADER.read_text())
    assert not re.search(r"\)\s*\{", code), "coll.h has a function with a body"
    assert "inline" not in code
    macros = re.findall(r"^#define (\w+)", code, re.MULTILINE)
    assert set(macros) <= {"COLL_H", "COLL_IN_PLACE"}, "constants of coll.h are enums"
