"""The README tells the truth: its programs are the ones that the tests run, its commands and paths exist."""

import re

import tree

README = (tree.ROOT / "README.md").read_text()


def test_its_programs_are_the_examples():
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL))
    for language, file in {"c": "allreduce.c", "python": "allreduce.py"}.items():
        assert blocks[language] in (tree.ROOT / "docs" / "examples" / file).read_text()


def test_its_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):.*## ", (tree.ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"\bmake ([a-z-]+)\b", README))
    assert {"demo", "test"} <= used <= targets


def test_its_folders_exist():
    layout = README.split("## Layout")[1].split("##")[0]
    paths = [word for line in re.findall(r"^    (\S.*?)  ", layout, re.MULTILINE) for word in line.split()]
    assert len(paths) >= 7
    for path in paths:
        assert (tree.ROOT / path).exists(), path


def test_its_variables_exist():
    table = (tree.SOURCE / "base" / "env_table.h").read_text()
    options = "".join(
        path.read_text() for path in [tree.ROOT / "CMakeLists.txt", *(tree.ROOT / "cmake").glob("*.cmake")]
    )
    for variable in set(re.findall(r"\bCOLL_[A-Z_]+\b", README)) - {"COLL_SUCCESS", "COLL_SUM"}:
        if not variable.startswith("COLL_FLOAT"):
            assert f'"{variable}"' in table or variable in options, variable
