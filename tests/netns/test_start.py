"""What a job on two hosts says when it cannot start: the ranks that differ, the file that is wrong, what to install."""

from __future__ import annotations

import sys

PROGRAM = [sys.executable, "-c", "import pycoll; print('met', pycoll.init(timeout=20).size)"]

#: Runs a command with the folder $1 first on LD_LIBRARY_PATH on ranks of the second host, or ("all") on every rank.
WITH_LIBRARY = ["sh", "-c", '[ $COLL_RANK -lt $2 ] || export LD_LIBRARY_PATH="$1"; shift 2; exec "$@"', "sh"]

#: Runs a command where libfabric is not installed: in a mount namespace whose /usr/lib has none.
WITHOUT_LIBRARY = [
    "unshare",
    "--mount",
    "sh",
    "-ec",
    """
    for file in $(ldconfig -p | sed -n 's/.*libfabric.* => //p'); do
        folder=$(dirname "$(realpath "$file")")
        above=$(mktemp -d)
        mount -t tmpfs none "$above"
        mkdir "$above/upper" "$above/work"
        mount -t overlay none -o "lowerdir=$folder,upperdir=$above/upper,workdir=$above/work" "$folder"
        rm -f "$folder"/libfabric.so*
    done
    exec "$@"
    """,
    "sh",
]


def refused(result, *words):
    assert result.returncode != 0 and "met" not in result.stdout, result.stdout
    for word in words:
        assert word in result.stderr, result.stderr


def test_hosts_with_different_libfabrics(two_hosts, wheel_libfabric):
    result = two_hosts.run("--hosts", two_hosts.slots(2), *WITH_LIBRARY, wheel_libfabric, "2", *PROGRAM)
    refused(result, "ConfigError", "libfabric differs", "rank 0 has tcp;ofi_rxm 1.", "rank 2 has tcp 2.")


def test_the_same_other_libfabric_on_both_hosts(two_hosts, wheel_libfabric):
    result = two_hosts.run("--hosts", two_hosts.slots(1), *WITH_LIBRARY, wheel_libfabric, "0", *PROGRAM)
    assert result.returncode == 0 and result.stdout == "met 2\n" * 2, result.stderr


def test_an_old_libfabric_is_named_with_its_version(two_hosts, old_libfabric):  # S5
    result = two_hosts.run("--hosts", two_hosts.slots(1), *WITH_LIBRARY, old_libfabric, "1", *PROGRAM)
    refused(result, f"{old_libfabric}/libfabric.so.1 is libfabric 1.5", "1.17 or newer is needed", "on rank 1")
    assert "undefined symbol" not in result.stderr


def test_a_file_that_is_no_libfabric_is_named(two_hosts, tmp_path):
    (tmp_path / "libfabric.so.1").write_bytes(b"not a library, and longer than the header of one " * 100)
    result = two_hosts.run("--hosts", two_hosts.slots(1), *WITH_LIBRARY, tmp_path, "1", *PROGRAM)
    refused(result, f"{tmp_path}/libfabric.so.1", "install libfabric1", "on rank 1")


def test_without_libfabric_one_host_works_and_two_are_told_what_to_install(two_hosts):  # S4
    alone = two_hosts.run("--hosts", f"{two_hosts.address(0)}:2", *WITHOUT_LIBRARY, *PROGRAM)
    assert alone.returncode == 0 and alone.stdout == "met 2\n" * 2, alone.stderr
    both = two_hosts.run("--hosts", two_hosts.slots(2), *WITHOUT_LIBRARY, *PROGRAM)
    refused(both, "libfabric.so.1: cannot open shared object file", "install libfabric1 (Debian)")


def test_interface_and_provider_that_are_not_there(two_hosts):
    result = two_hosts.run("--hosts", two_hosts.slots(1), *PROGRAM, env={"COLL_IFACE": "ib0"})
    refused(result, 'COLL_IFACE is "ib0"', "eth0 (10.77.0.1)", "lo (127.0.0.1)")
    result = two_hosts.run("--hosts", two_hosts.slots(1), *PROGRAM, env={"COLL_PROVIDER": "pigeon"})
    refused(result, 'no provider "pigeon"', "COLL_PROVIDER can be one of: ", "tcp")


def test_an_interface_can_be_chosen_by_name_or_address(two_hosts):
    for iface in ("eth0", ""):
        result = two_hosts.run("--hosts", two_hosts.slots(1), *PROGRAM, env={"COLL_IFACE": iface, "COLL_LOG": "info"})
        assert result.returncode == 0 and result.stdout == "met 2\n" * 2, result.stderr
        assert "at 10.77.0.1" in result.stderr and "at 10.77.0.2" in result.stderr, result.stderr
