"""Each list exists once: what the tables say and what the tree holds agree."""

import re

import pytest
import tree


def rows(path):
    """The rows X(...) of a table, as text; a row may go over several lines."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL).replace("\\\n", " ")
    return re.findall(r'\bX\((\w+\s*,(?:"(?:\\.|[^"\\])*"|[^()"])*)\)', text)


def test_statuses_are_the_same_in_the_header_and_the_table():
    header = tree.HEADER.read_text()
    table = [row.split(",")[0] for row in rows(tree.SOURCE / "base" / "status.h")]
    assert table == tree.enumerators(header, "coll_status")


def test_the_environment_table_is_sound():
    table = [
        re.match(r'(\w+), "(\w+)", (\w+), "([^"]*)", ([01]), "([^"]*)"$', row)
        for row in rows(tree.SOURCE / "base" / "env_table.h")
    ]
    assert table and all(table)
    names = [row.group(2) for row in table]
    assert len(set(names)) == len(names)
    for row in table:
        field, variable, help_text = row.group(1), row.group(2), row.group(6)
        assert variable == f"COLL_{field.upper()}"
        assert len(help_text) > 10 and not help_text.endswith("."), f"{variable}: help is one line without a full stop"


def test_every_transport_has_a_folder_and_a_row():
    table = {row.split(",")[0] for row in rows(tree.SOURCE / "transport" / "transport_table.h")}
    folders = {path.name for path in (tree.SOURCE / "transport").iterdir() if path.is_dir()}
    assert table == folders


def test_every_algorithm_file_is_in_the_table():
    """A file algo/OPERATION_ALGORITHM.c whose build function the table does not name would be dead code."""
    table = (tree.SOURCE / "algo" / "algo_table.h").read_text()
    operations = [
        name.removeprefix("COLL_OP_").lower() for name in tree.enumerators(tree.HEADER.read_text(), "coll_operation")
    ]
    files = [path for path in tree.files(".c", under=tree.SOURCE / "algo") if path.stem.split("_")[0] in operations]
    assert files
    for path in files:
        operation, _, algorithm = path.stem.partition("_")
        assert re.search(rf"\b{operation}\b", table) and re.search(rf"\b\w*{algorithm}\w*\b", table), (
            f"{tree.name(path)} has no row in algo_table.h"
        )


@pytest.mark.parametrize("tier", ["unit", "sim", "conformance", "multi", "fuzz"])
def test_every_tier_of_c_tests_has_tests(tier):
    pattern = "fuzz_*.c" if tier == "fuzz" else "test_*.c"
    assert list((tree.ROOT / "tests" / tier).glob(pattern))


def test_every_python_class_of_error_is_documented_by_its_status():
    """A status of C that Python shows as a class of its own is one that exists."""
    statuses = set(tree.enumerators(tree.HEADER.read_text(), "coll_status"))
    used = set(re.findall(r"\bCOLL_ERR_[A-Z_]+\b", (tree.ROOT / "pycoll" / "_lib.py").read_text()))
    assert used and used <= statuses
