"""The conformance suite of transports and the tests of libfabric's peers, with each libfabric, on a host of their own.

The programs are those of `make check-c`, built here if they are not there yet.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "check"
PROGRAMS = {
    "conformance/test_packets": ["ofi"],
    "conformance/test_bulk": ["ofi"],
    "conformance/test_waiting": ["ofi"],
    "unit/test_ofi_library": [],
    "unit/test_ofi_peers": [],
}


@pytest.fixture(scope="module")
def built():
    targets = [program.replace("/", "_") for program in PROGRAMS]
    for command in (
        ["cmake", "-S", ROOT, "-B", BUILD, "-DCOLL_TESTS=ON", "-DCOLL_DEVELOPER=ON"],
        ["cmake", "--build", BUILD, "--parallel", "2", "--target", *targets],
    ):
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert result.returncode == 0, result.stdout
    return BUILD / "tests"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", PROGRAMS)
def test_with_each_libfabric(make_hosts, built, libfabric, program):
    host = make_hosts(1)
    ran = host.start(0, [str(built / program), *PROGRAMS[program]], env=libfabric)
    output = ran.communicate(timeout=200)[0]
    assert ran.returncode == 0 and "  PASSED  " in output, output
    assert "absent" not in output, output
