"""Fixtures of the tests over several hosts: the hosts, and the libfabrics that they can have."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import pytest
from hosts import CannotMakeHosts, Hosts


def pytest_configure(config):
    config.addinivalue_line("markers", "netns: needs root, for hosts as network namespaces")


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.netns)


@pytest.fixture
def make_hosts():
    """make_hosts(count, rate=None): hosts that are removed after the test, however it ends."""
    made = []

    def make(count: int, rate: str | None = None) -> Hosts:
        try:
            made.append(Hosts(count, rate).__enter__())
        except CannotMakeHosts as error:
            pytest.fail(f"no hosts could be made: {error}", pytrace=False)
        return made[-1]

    yield make
    for hosts in made:
        hosts.close()


@pytest.fixture
def two_hosts(make_hosts):
    return make_hosts(2)


@pytest.fixture(scope="session")
def wheel_libfabric() -> str:
    """The folder of a libfabric 2.x: the one inside the PyPI package mpich."""
    try:
        files = importlib.metadata.files("mpich") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("the package mpich is missing, which brings a second libfabric: pip install mpich", pytrace=False)
    (library,) = [Path(file.locate()).resolve() for file in files if file.name == "libfabric.so.1"]
    return str(library.parent)


@pytest.fixture(params=["system", "wheel"])
def libfabric(request):
    """The environment in which a job finds the system's libfabric, or the one of the package mpich."""
    if request.param == "system":
        return {}
    return {"LD_LIBRARY_PATH": request.getfixturevalue("wheel_libfabric")}


@pytest.fixture(scope="session")
def old_libfabric(tmp_path_factory) -> str:
    """The folder of a libfabric.so.1 that says it is 1.5, and has no more than that."""
    folder = tmp_path_factory.mktemp("old")
    source = folder / "old.c"
    source.write_text("unsigned fi_version(void) { return 1u << 16 | 5; }\n")
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libfabric.so.1", source, "-o", folder / "libfabric.so.1"]
    subprocess.run(command, check=True)
    return str(folder)
