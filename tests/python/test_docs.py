"""The documentation tells all there is: every function, variable, status, algorithm and layer; and its programs run.

`make docs` builds the pages, without a warning; what is looked at here are the pieces that they are made from.
"""

import re
import sys
from pathlib import Path

import pytest

import pycoll

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS), str(ROOT / "tests" / "lint")]

import test_layers  # noqa: E402
import tree  # noqa: E402
from generate import algorithms, header, layers, outputs, tables  # noqa: E402

PAGES = {path: path.read_text() for path in sorted(DOCS.rglob("*.rst")) if not path.is_relative_to(DOCS / "generated")}
INCLUDED = {
    (path.parent / name).resolve()
    for path, text in PAGES.items()
    for name in re.findall(r"\.\. (?:literal)?include:: (\S+)", text)
}
C_PAGE = header.page(header.parse(tree.HEADER))

#: What a program must say, beyond ending as the table in docs/generate/outputs.py wants it.
SAYS = {
    "abort": "PeerError: rank 1 aborted the job: the loss is not a number",
    "argument": "PeerError: rank 1 made an error in allreduce",
    "counters": "'allreduce:ring': 10",
    "death": "RankFailedError: rank 1 failed",
    "exception": "RankFailedError: rank 2 left the job",
    "explain": 'by the rule "allreduce:64k-inf:ring" of COLL_TUNE',
    "late": "CollTimeoutError: timed out after 0.5 s",
    "mismatch": "rank 1 called allreduce(1000 x float32, sum)",
    "order-ring": "allreduce:ring: ",
    "order-doubling": "allreduce:recursive_doubling: ",
    "order-deterministic": ": 0 of 1000 sums differ",
    "protocols": "8193 bytes: {'eager': 0, 'rendezvous': 1}",
    "refused": "ConfigError: RANK is set",
    "trace": "COLL_SUCCESS",
    "truncate": "TruncateError: a message of 32 bytes came for a buffer of 16 bytes",
}


def name_of(run):
    return run.name or Path(run.program).stem


def test_what_pages_include_exists():
    made = {name_of(run) for run in outputs.EXAMPLES + outputs.PROGRAMS}
    for path in INCLUDED:
        if path.parent == DOCS / "generated" / "output":
            assert path.stem in made, f"no program prints {path.name}"
        elif not path.is_relative_to(DOCS / "generated"):
            assert path.is_file(), path


@pytest.mark.parametrize("folder", ["examples", "programs"])
def test_every_program_is_shown(folder):
    programs = {path for suffix in ("*.py", "*.c") for path in (DOCS / folder).glob(suffix)}
    assert len(programs) > 10
    assert programs <= INCLUDED, sorted(path.name for path in programs - INCLUDED)


@pytest.mark.parametrize("run", outputs.PROGRAMS, ids=name_of)
def test_program(run):
    assert SAYS[name_of(run)] in outputs.output(run)


def test_every_c_function_is_described():
    declared = tree.declared_functions()
    assert declared == set(header.functions(header.parse(tree.HEADER)))
    for name in declared:
        assert re.search(rf"^\.\. c:function:: .*\b{name}\(", C_PAGE, re.MULTILINE), name
    assert DOCS / "generated" / "c.inc" in INCLUDED


def test_every_c_constant_and_type_is_described():
    source = tree.without_comments(tree.HEADER.read_text())
    constants = set(re.findall(r"\bCOLL_[A-Z0-9_]+\b", source)) - {"COLL_H"}
    described = set(re.findall(r"^ *\.\. c:(?:enumerator|macro):: (\w+)", C_PAGE, re.MULTILINE))
    assert constants == described
    types = set(re.findall(r"\b(coll_\w+_t)\b", source))
    assert types == set(
        re.findall(r"^\.\. c:(?:type|struct|enum):: (?:\w+ )*\(?\*?(coll_\w+_t)\b", C_PAGE, re.MULTILINE)
    )


def test_every_python_name_is_described():
    page = PAGES[DOCS / "python.rst"]
    described = set(re.findall(r":: (?:pycoll\.)?([\w.]+)", page))
    assert set(pycoll.__all__) <= described
    members = {name for name in dir(pycoll.Communicator) if not name.startswith("_")}
    # Public in the class, but only for the package's own use.
    members -= {"interrupted"}
    other_names = {"ibcast", "bcast_init"}  # named where bcast is
    assert {f"Communicator.{name}" for name in members - other_names} <= described


def test_every_variable_is_described():
    text = tables.environment()
    assert re.findall(r"^\.\. envvar:: (\w+)$", text, re.MULTILINE) == list(pycoll.config())
    for row in pycoll.config().values():
        assert row["help"].split(",")[0] in text.replace("\\", "")
    assert "COLL_PACKET_SIZE" in tables.agreed() and "COLL_RANK" not in tables.agreed()


def test_variables_that_pages_name_exist():
    known = set(pycoll.config())
    for path, text in PAGES.items():
        for name in re.findall(r":envvar:`(\w+)`", text):
            assert name in known, f"{path.name} names {name}"


def test_every_status_is_described():
    text = tables.statuses()
    for name in tree.enumerators(tree.HEADER.read_text(), "coll_status"):
        assert name == "COLL_SUCCESS" or f":c:enumerator:`{name}`" in text
    classes = [getattr(pycoll, name) for name in pycoll.__all__ if name.endswith("Error")]
    for kind in classes:
        assert f":class:`pycoll.{kind.__name__}`" in text


def test_every_algorithm_has_its_place():
    rows = pycoll.algorithms()
    for operation in {row["operation"] for row in rows}:
        mine = [row for row in rows if row["operation"] == operation]
        text = algorithms.page(operation, mine)
        for row in mine:
            assert f".. _{operation}-{row['name']}:" in text
            assert f"COLL_TUNE={operation}:{row['name']}" in text
            drawn = algorithms.ranks_to_draw(f"{operation}:{row['name']}")
            assert bool(drawn) == (f"image:: {operation}-{row['name']}.svg" in text)
    drawn = [row["name"] for row in rows if algorithms.ranks_to_draw(f"{row['operation']}:{row['name']}")]
    assert len(drawn) > 20 and set(row["name"] for row in rows) - set(drawn) <= {"node"}


def test_the_diagram_is_the_table_of_layers():
    allowed = layers.table_of_layers()
    assert allowed == test_layers.ALLOWED
    picture = layers.diagram(allowed)
    assert set(re.findall(r'<g id="(\w+)">', picture)) == set(allowed)
    arrows = {tuple(name.split("-")) for name in re.findall(r'<path class="([\w-]+)"', picture)}
    assert arrows == {(layer, other) for layer, others in allowed.items() for other in others - {"base"}}


def test_every_layer_is_described():
    page = PAGES[DOCS / "layers.rst"]
    for folder in tree.SOURCE.iterdir():
        if folder.is_dir():
            assert re.search(rf"^{folder.name}\n~+$", page, re.MULTILINE), folder.name
            for source in folder.rglob("*.[ch]"):
                assert f"``{source.relative_to(folder)}``" in "\n".join(layers.files(folder.name))


def test_files_that_the_walk_names_exist():
    page = PAGES[DOCS / "layers.rst"].split("What lives where")[0]
    named = re.findall(r"``((?:pycoll|tests|[a-z0-9]+)/[\w/]+\.\w+)``", page)
    assert len(named) > 15
    for name in named:
        assert (ROOT / name).is_file() or (tree.SOURCE / name).is_file(), name


def test_continuous_integration_builds_the_pages():
    assert re.search(r"^make docs$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert re.search(r"sphinx -W ", (ROOT / "Makefile").read_text())
