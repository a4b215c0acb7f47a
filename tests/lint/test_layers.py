"""Folders of libcoll/src are layers: who may include whom."""

import re

import pytest
import tree

# A layer may include what stands at its right, itself and base; nothing else.
ALLOWED = {
    "base": set(),
    "data": set(),
    "pattern": set(),
    "topo": set(),
    "sched": set(),
    "transport": set(),
    "bootstrap": set(),
    "node": {"topo", "data"},
    "algo": {"sched", "pattern", "topo", "data"},
    "select": {"algo"},
    "p2p": {"transport"},
    "engine": {"sched", "node", "p2p", "data", "bootstrap"},
    # At the start api chooses and opens the transports; nothing else there speaks to them.
    "api": {"engine", "select", "algo", "node", "topo", "bootstrap", "data", "transport"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]', re.MULTILINE)
SOURCES = list(tree.files(".c", ".h", under=tree.SOURCE))


def layer(path):
    return path.relative_to(tree.SOURCE).parts[0]


def test_every_folder_is_a_layer():
    folders = {path.name for path in tree.SOURCE.iterdir() if path.is_dir() and any(path.rglob("*.[ch]"))}
    assert folders <= set(ALLOWED), f"not in the layer table: {sorted(folders - set(ALLOWED))}"
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=tree.name)
def test_includes_follow_the_layers(source):
    own = layer(source)
    wrong = []
    for bracket, header in INCLUDE.findall(source.read_text()):
        if bracket == "<":
            if header.startswith("rdma/") and source.relative_to(tree.SOURCE).parts[:2] != ("transport", "ofi"):
                wrong.append(f"<{header}>: only transport/ofi may use libfabric")
            continue
        if not (tree.SOURCE / header).is_file():
            wrong.append(f'"{header}": includes are written relative to libcoll/src, and this file is not there')
            continue
        theirs = header.split("/")[0]
        if theirs not in ALLOWED[own] | {own, "base"}:
            wrong.append(f'"{header}": {own} may include {sorted(ALLOWED[own] | {own, "base"})}')
        if theirs == own == "transport" and header.count("/") == 2:
            if source.relative_to(tree.SOURCE).parts[1] != header.split("/")[1]:
                wrong.append(f'"{header}": one transport may not include another')
    assert not wrong, "\n".join([tree.name(source), *wrong])


@pytest.mark.parametrize("source", SOURCES, ids=tree.name)
def test_only_env_reads_the_environment(source):
    if source == tree.SOURCE / "base" / "env.c":
        return
    calls = re.findall(r"\b(?:secure_)?getenv\s*\(", tree.without_comments(source.read_text()))
    assert not calls, f"{tree.name(source)} reads the environment; only base/env.c does"
