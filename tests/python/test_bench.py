"""pycoll bench: the arithmetic, a small run with and without peers, and what becomes of a library that fails."""

import csv
import json
import math
import os
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import pytest
from launch_support import PYCOLL

from pycoll.bench import bare, breakdown, figures, page, report, settings
from pycoll.bench.command import make_settings
from pycoll.bench.job import Job, JobError
from pycoll.bench.libraries import LIBRARIES, WORKERS, Library
from pycoll.bench.measure import LONG_US, MAX_INNER, MAX_SAMPLES, plan

TINY = ["--rounds", "2", "--block-ms", "1", "--ranks", "2"]


def bench(folder, *arguments):
    command = [*PYCOLL, "bench", "-o", str(folder), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder.parent)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# ---- arithmetic ----


def test_percentile_is_by_nearest_rank():
    values = [15, 20, 35, 40, 50]
    assert [figures.percentile(values, percent) for percent in (0, 5, 30, 40, 50, 95, 100)] == [
        15, 15, 20, 20, 35, 50, 50,
    ]  # fmt: skip
    assert figures.percentile(range(100, 0, -1), 95) == 95
    assert figures.percentile(range(1, 21), 95) == 19
    assert figures.percentile([7], 95) == 7


def test_a_cell_is_described():
    got = figures.describe([4, 2, 8, 2])
    assert got == {"median": 3, "mean": 4, "stdev": pytest.approx(math.sqrt(8)), "min": 2, "max": 8, "p95": 8}
    assert figures.describe([5])["stdev"] == 0


def test_geometric_mean():
    assert figures.geometric_mean([1, 4]) == pytest.approx(2)
    assert figures.geometric_mean([0.5, 2, 8]) == pytest.approx(2)
    assert figures.geometric_mean([]) is None


def block(library, mode, us, **cell):
    return {"ranks": 2, "operation": "reduce", "bytes": 8, "round": 0, "inner": 1, **cell} | {
        "library": library,
        "mode": mode,
        "us": us,
    }


def test_ratios_are_against_the_best_peer_in_its_best_mode():
    blocks = [
        block("pycoll", "ordinary", [2, 1], round=0),
        block("pycoll", "ordinary", [2, 9], round=1),
        block("pycoll", "persistent", [1]),
        block("mpich", "ordinary", [8]),
        block("mpich", "persistent", [4]),
        block("gloo", "ordinary", [100]),
        block("pycoll", "ordinary", [10], ranks=4),
        block("gloo", "ordinary", [5], ranks=4),
        block("pycoll", "ordinary", [10], ranks=8),
    ]
    summary = figures.summarize(blocks)
    assert [row["samples"] for row in summary] == [4, 1, 1, 1, 1, 1, 1, 1]
    assert summary[0]["median"] == 2 and summary[0]["max"] == 9
    rows = figures.ratios(summary)
    assert [(row["ranks"], row["mode"], row["best"], row["best_mode"], row["ratio"]) for row in rows] == [
        (2, "ordinary", "mpich", "persistent", 2),
        (2, "persistent", "mpich", "persistent", 4),
        (4, "ordinary", "gloo", "ordinary", 0.5),
    ]
    means = {(row["ranks"], row["mode"]): row for row in figures.means(rows)}
    assert means["all", "all"]["geometric_mean"] == pytest.approx(4 ** (1 / 3))
    assert means["all", "all"]["worst"] == 0.5 and means["all", "all"]["worst_ranks"] == 4
    assert means[2, "ordinary"]["geometric_mean"] == pytest.approx(2)
    assert figures.means([]) == []


def test_samples_are_as_long_as_the_fastest_needs():
    assert plan(1, 1, 0.05).inner == 100
    assert plan(20, 1, 0.05).inner == 100, "the same for all in the cell"
    slow = plan(500, 1, 0.05)
    assert slow.inner == LONG_US / 500 and slow.samples == 10 and slow.warmup == 20
    assert plan(3e6, 2e6, 0.05)[:3] == (1, 1, 0)
    assert plan(0, 0, 0.05).inner == MAX_INNER and plan(0.01, 0.01, 10).samples == MAX_SAMPLES


def test_the_bare_figure_is_flags_and_copies():
    known = {"ranks": 4, "copiers": 2, "flags_us": 0.5, "copy_us": {"1024": 1, "65536": 10, "1048576": 300}}
    assert bare.estimate(known, "barrier", 0) == 0.5
    assert bare.estimate(known, "allreduce", 512) == 0.5 + 1  # 4 blocks of 512 bytes by 2 processes
    assert bare.estimate(known, "allgather", 8 << 10) == 0.5 + 10  # 16 blocks of 8 KiB
    assert bare.estimate(known, "broadcast", 2 << 20) == 0.5 + 900  # 3 blocks of 2 MiB, by the speed of 1 MiB


def test_probes_of_the_machine():
    known = bare.probe(2)
    assert 0 < known["flags_min_us"] <= known["flags_us"] <= known["flags_max_us"]
    assert [int(size) for size in known["copy_us"]] == list(bare.COPY_SIZES)
    assert all(us > 0 for us in known["copy_us"].values())
    crowded = bare.probe(2 * len(os.sched_getaffinity(0)))
    assert crowded["copiers"] == len(os.sched_getaffinity(0)) and crowded["flags_us"] > 0


def test_the_choices_are_read():
    made = make_settings(quick=True, ops="allreduce,barrier", sizes="64m,8,1KiB", ranks="4,2", modes="persistent")
    assert made.operations == ("barrier", "allreduce")
    assert made.sizes == (8, 1024, 64 << 20) and made.ranks == (2, 4) and made.modes == ("persistent",)
    assert [(cell.operation, cell.nbytes) for cell in made.cells(2)] == [
        ("barrier", 0), ("allreduce", 8), ("allreduce", 1024), ("allreduce", 64 << 20),
    ]  # fmt: skip
    assert settings.SIZES[0] == 8 and settings.SIZES[-1] == 64 << 20
    assert make_settings(peers="none").peers == () and make_settings(peers="gloo").peers == ("gloo",)
    assert make_settings(late="1:50").late == (1, 0.05)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"ops": "allreduce,gossip"}, ["--ops", "'gossip'", "broadcast"]),
        ({"modes": ""}, ["--modes", "''", "symmetric"]),
        ({"sizes": "8,x"}, ["--sizes", "'x'", "multiple of 8"]),
        ({"sizes": "12"}, ["--sizes", "'12'"]),
        ({"sizes": "0"}, ["--sizes", "'0'"]),
        ({"ranks": "2,0"}, ["--ranks", "'0'"]),
        ({"peers": "mvapich"}, ["--peers", "'mvapich'", "openmpi", "none"]),
        ({"late": "soon"}, ["--late", "'soon'", "RANK:MILLISECONDS"]),
        ({"late": "2:50", "ranks": "2,4"}, ["--late", "no rank 2"]),
    ],
)
def test_wrong_choices_are_named(options, words):
    with pytest.raises(ValueError) as problem:
        make_settings(**options)
    assert all(word in str(problem.value) for word in words), problem.value


# ---- runs ----


def check_files(folder, cells):
    """`cells`: how many of (library, mode, operation, bytes) there are."""
    raw = json.loads((folder / "raw.json").read_text())
    samples = rows_of(folder / "raw.csv")
    assert len(samples) == sum(len(block["us"]) for block in raw["blocks"])
    assert len(raw["blocks"]) == cells * raw["settings"]["rounds"], raw["problems"]
    summary = rows_of(folder / "summary.csv")
    assert len(summary) == len(json.loads((folder / "summary.json").read_text())["summary"]) == cells
    for row in summary:
        key = [row[name] for name in report.CELL]
        us = [float(sample["us"]) for sample in samples if [sample[name] for name in report.CELL] == key]
        assert len(us) == int(row["samples"]) >= 2
        assert float(row["p95"]) == figures.percentile(us, 95) and float(row["max"]) == max(us)
        assert float(row["min"]) == min(us) > 0 and float(row["bare"]) > 0
    assert (folder / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (folder / "bench.svg").read_text()
    return raw


def test_a_run_without_peers(tmp_path):
    folder, rst = tmp_path / "out", tmp_path / "results.rst"
    choices = ["--ops", "barrier,allreduce,allgather", "--sizes", "8,1k", "--peers", "none"]
    run = bench(folder, *TINY, *choices, "--rst", rst)
    assert run.returncode == 0, run.stdout + run.stderr
    # barrier in two modes; two operations with two sizes in three
    raw = check_files(folder, 2 + 2 * 2 * 3)
    assert raw["problems"] == [] and raw["libraries"]["mpich"] == "not asked for"
    assert rows_of(folder / "ratios.csv") == []
    assert run.stdout.index("load") < run.stdout.index("flags, us") < run.stdout.index("medians in us")
    text = rst.read_text()
    assert "results.svg" in text and (tmp_path / "results.svg").exists()
    assert all(word in text for word in ("allgather", "1 Ki", "persistent", "load", "The way through Python"))
    assert max(map(len, text.splitlines())) <= 120 and not any(line != line.rstrip() for line in text.splitlines())

    again = bench(tmp_path / "again", "--from", folder)
    assert again.returncode == 0, again.stderr
    for name in ("raw.json", "raw.csv", "summary.json", "summary.csv", "bench.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


FAKE_MPI = """
    # As much of mpi4py as the bench uses, over pycoll; persistent requests and one operation are missing.
    import pycoll

    class Comm:
        def __init__(self):
            self.comm = pycoll.init()
            self.rank, self.size, self.Barrier = self.comm.rank, self.comm.size, self.comm.barrier
        def Bcast(self, x, root):
            self.comm.broadcast(x, root)
        def Reduce(self, x, out, op, root):
            self.comm.reduce(x, out if self.rank == root else None, op, root)
        def Allreduce(self, x, out, op):
            self.comm.allreduce(x, out, op)
            out *= x.size != 128  # the wrong result for 1 KiB
        def Allgather(self, x, out):
            raise RuntimeError("no allgather today")

    class MPI:
        COMM_WORLD, SUM, REQUEST_NULL = Comm(), "sum", None
        Get_library_version = staticmethod(lambda: "Fake  MPI 1.0, of the tests\\n")
"""


@pytest.fixture
def fake_peer(tmp_path):
    """An environment of MPICH by its looks: mpiexec is `pycoll run`, and mpi4py is the above."""
    folder = tmp_path / "peers" / "mpich"
    (folder / "mpi4py").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "mpi4py" / "__init__.py").write_text(textwrap.dedent(FAKE_MPI))
    for name, command in {"python": sys.executable, "mpiexec": f"{sys.executable} -m pycoll run"}.items():
        (folder / "bin" / name).write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {command} "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    return folder.parent


def test_a_run_with_peers_that_fail_and_that_are_missing(tmp_path, fake_peer):
    folder = tmp_path / "out"
    choices = ["--ops", "broadcast,allreduce,allgather", "--sizes", "8,1k", "--peers", "mpich,gloo"]
    run = bench(folder, *TINY, *choices, "--peers-dir", fake_peer)
    assert run.returncode == 0, run.stdout + run.stderr
    # Ours: three operations, two sizes, three modes. The peer's: broadcast, and allreduce of 8 bytes, ordinary.
    raw = check_files(folder, 3 * 2 * 3 + 2 + 1)
    assert raw["libraries"]["mpich"] == "Fake MPI 1.0"
    assert "not installed" in raw["libraries"]["gloo"] and raw["libraries"]["impi"] == "not asked for"
    assert len(raw["problems"]) == 3
    wrong, *missing = raw["problems"]
    assert "allreduce 1 KiB" in wrong and "gave [0.0] ..., not [3.0]" in wrong
    assert all("no allgather today" in problem and problem in run.stdout for problem in missing)
    ratios = rows_of(folder / "ratios.csv")
    assert [(row["operation"], row["bytes"]) for row in ratios if row["mode"] == "symmetric"] == [
        ("broadcast", "8"), ("broadcast", "1024"), ("allreduce", "8"),
    ]  # fmt: skip
    assert all(row["best"] == "mpich" and float(row["ratio"]) > 0 for row in ratios) and len(ratios) == 9
    assert "geometric mean" in run.stdout and "not installed" in run.stdout


def test_a_late_rank_is_noticed(tmp_path):
    """A root of a broadcast does not wait for the others: its own time would say nothing."""
    folder = tmp_path / "out"
    run = bench(folder, *TINY, "--ops", "broadcast", "--sizes", "8", "--peers", "none", "--late", "1:50")
    assert run.returncode == 0, run.stdout + run.stderr
    raw = check_files(folder, 3)
    assert all(us >= 50_000 for block in raw["blocks"] for us in block["us"])


def marked(mark):
    """Processes with this mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in entry.read_bytes():
                found.append((entry.parent / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def test_an_interrupted_run_gives_what_it_has(tmp_path):
    folder, mark = tmp_path / "out", f"COLL_TEST_MARK={uuid.uuid4().hex}"
    choices = ["--ranks", "3", "--rounds", "100000", "--peers", "none", "--ops", "allreduce", "--sizes", "8,16"]
    process = subprocess.Popen(
        [*PYCOLL, "bench", "-o", str(folder), *choices],
        env={**os.environ, **dict([mark.split("=")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while sum(b"worker_pycoll.py" in command for command in marked(mark)) < 3 + 2:  # the launcher and its agent too
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(2)
        process.terminate()
        said = process.communicate(timeout=40)[0]
    finally:
        process.kill()
    assert process.returncode == 130 and "interrupted" in said, said
    assert all("interrupted" in problem for problem in json.loads((folder / "raw.json").read_text())["problems"])
    assert marked(mark) == []


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--ops", "gossip"], ["--ops", "'gossip'"]),
        (["--rounds", "0"], ["--rounds"]),
        (["--from", "nowhere"], ["nowhere/raw.json"]),
    ],
)
def test_usage_errors(tmp_path, arguments, words):
    run = bench(tmp_path / "out", *arguments)
    assert run.returncode != 0 and all(word in run.stderr for word in words), run.stderr
    assert "Traceback" not in run.stderr


def test_raw_files_of_others_are_refused(tmp_path):
    (tmp_path / "raw.json").write_text('{"blocks": []}')
    with pytest.raises(ValueError, match="not the raw.json of a run"):
        report.load(tmp_path)


# ---- jobs ----


def library(program):
    """One whose ranks are `program`, run once."""
    return Library("odd", "", "", lambda folder, ranks: [sys.executable, "-c", textwrap.dedent(program)], "python", ())


CONNECT = """
    import json, socket, sys, time
    door = socket.socket(socket.AF_UNIX)
    door.connect(sys.argv[2])
    door.sendall(json.dumps({"rank": 0, "size": SIZE, "version": "odd 1"}).encode() + b"\\n")
"""


@pytest.mark.parametrize(
    "program, words",
    [
        ("raise SystemExit('no licence')", ["ended with code 1", "no licence"]),
        ("import time; time.sleep(60)", ["0 of 1 ranks"]),
        (CONNECT.replace("SIZE", "2"), ["rank 0 of 2", "1 ranks were asked for"]),
    ],
)
def test_a_library_that_does_not_start(tmp_path, program, words):
    with pytest.raises(JobError) as problem:
        Job(library(program), 1, tmp_path, start=1)
    assert all(word in str(problem.value) for word in words), problem.value


@pytest.mark.parametrize(
    "deed, words",
    [
        ("time.sleep(60)", ["rank 0 did not answer in time"]),
        ("raise SystemExit('crash')", ["rank 0 is gone"]),
        ('door.recv(9); door.sendall(b\'{"error": "no"}\\n\'); time.sleep(60)', ["rank 0: no"]),
    ],
)
def test_a_library_that_does_not_answer(tmp_path, deed, words):
    # 10 s are for a slow start; what is tested takes one.
    job = Job(library(f"{CONNECT.replace('SIZE', '1')}    {deed}"), 1, tmp_path, start=10)
    try:
        assert job.version == "odd 1"
        with pytest.raises(JobError) as problem:
            job.ask(1, [{"action": "measure"}])
        assert all(word in str(problem.value) for word in words), problem.value
    finally:
        job.close(kill=True)


def test_the_maximum_is_over_the_ranks(tmp_path):
    task = {"action": "measure", "operation": "reduce", "mode": "ordinary", "nbytes": 64}
    task |= {"warmup": 1, "inner": 3, "samples": 4}
    job = Job(LIBRARIES["pycoll"], 3, tmp_path)
    try:
        answers = job.ask(30, [task] * 3)
        assert [len(us) for us in answers] == [4, 4, 4] and min(map(min, answers)) > 0
        assert job.ask(30, [task | {"operation": "barrier", "mode": "symmetric"}] * 3) == []
    finally:
        job.close()


def test_the_breakdown_adds_up(monkeypatch):
    monkeypatch.setattr(breakdown, "ROUNDS", 1)
    rows = breakdown.measure()
    for call in {row["call"] for row in rows}:
        *parts, whole = [row["ns"] for row in rows if row["call"] == call]
        assert len(parts) >= 3 and sum(parts) == pytest.approx(whole)
        assert all(ns > 0 for ns in parts[:-1]) and whole > 0


def test_a_loop_in_python_is_subtracted():
    ns = {"empty": 10, "crossing": 60, "buffers": 110, "codes": 50, "c": 100}
    ns |= {"python": 510, "c persistent": 90, "python persistent": 210}
    rows = [(row["part"], row["ns"]) for row in breakdown.rows(ns)]
    assert [value for _, value in rows] == [100, 40, 50, 100, 210, 500, 50, 90, 60, 200]
    assert [part for part, _ in rows if part in ("rest", "all of it")] == ["rest", "all of it"] * 2


def test_workers_need_no_pycoll():
    """They run where it is not installed."""
    for name in ("operations.py", "measuring.py", "worker_mpi4py.py", "worker_gloo.py"):
        assert "import pycoll" not in (WORKERS / name).read_text() and "from pycoll" not in (WORKERS / name).read_text()


def test_words_in_a_page_are_quoted():
    table = page._table(["a", "b"], [['say "x"', "1, 2"]])
    assert table.splitlines()[-1] == '   "say ""x""", "1, 2"'
