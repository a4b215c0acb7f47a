"""The command ``pycoll``. Each subcommand imports what it needs when it runs, so that `pycoll run` starts quickly."""

from __future__ import annotations

import os
import sys
from typing import Any

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Collective communication for numpy arrays."""


@main.command(context_settings={"allow_interspersed_args": False})
@click.option("-n", "--ranks", type=click.IntRange(1, 1 << 20), help="Number of ranks [CPUs, or all slots of --hosts].")
@click.option("--hosts", metavar="A:2,B:2", help="Run on these hosts through ssh: NAME:COUNT, filled in this order.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="End the job after S seconds.")
@click.option("--tag-output", is_flag=True, help="Begin each line of output with its rank, as in `[2] `.")
@click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Set a variable for all ranks; repeatable.")
@click.option("--python", metavar="PATH", help="Python for the ranks [the one that runs pycoll].")
@click.option(
    "--ssh", default="ssh", metavar="PROGRAM", help="How to reach other hosts; called as PROGRAM HOST COMMAND."
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is the name of a Python module.")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    ranks: int | None,
    hosts: str | None,
    timeout: float | None,
    tag_output: bool,
    env: tuple[str, ...],
    python: str | None,
    ssh: str,
    module: bool,
    program: tuple[str, ...],
) -> None:
    """Run PROGRAM [ARGUMENTS] once for each rank: a script (ending in .py), with -m a module, or any program.

    \b
    pycoll run -n 4 train.py --epochs 3
    pycoll run -n 4 -m package.module
    pycoll run --hosts node1:2,node2:2 train.py

    Lines of output are passed through unmixed; standard input goes to rank 0. Signals are forwarded. When a rank fails,
    the others are ended, its last lines are shown, and pycoll exits with its code (128 + N for signal N; 124 after
    --timeout). No process is left behind.

    With --hosts, the working directory, PYTHONPATH, LD_LIBRARY_PATH and the variables COLL_* and FI_* go along.
    Ranks that share a host get OMP_NUM_THREADS = CPUs / ranks unless it is set.
    """
    from . import launch

    try:
        job = launch.Job(
            program=program,
            module=module,
            ranks=ranks,
            hosts=launch.parse_hosts(hosts) if hosts is not None else (),
            timeout=timeout,
            tag_output=tag_output,
            python=python,
            ssh=ssh,
            env=launch.parse_env(env, os.environ),
        )
        code = launch.run(job)
    except launch.LaunchError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(code)


@main.command()
def info() -> None:
    """Show versions, transports and providers, CPUs and the interface that would be used."""
    import platform

    facts = [("python", f"{platform.python_version()} ({sys.executable})")]
    try:
        import pycoll

        facts.insert(0, ("pycoll", pycoll.__version__))
        facts += pycoll.info().items()
    except ImportError as error:
        facts.append(("libcoll", str(error)))
    table = _table(None, None)
    for key, value in facts:
        table.add_row(key, value)
    _print(table)


@main.command()
def env() -> None:
    """Show every environment variable of the library, with its value here and its default."""
    pycoll = _loaded()
    table = _table("variable", "value", "default", "meaning")
    for name, entry in pycoll.config().items():
        value = entry["value"] if entry["source"] != "default" else ""
        table.add_row(name, str(value), str(entry["default"]), entry["help"])
    _print(table)


@main.command()
@click.option("--draw", metavar="OPERATION:NAME", help="Draw the message pattern of one algorithm.")
@click.option("-n", "--ranks", type=click.IntRange(1, 64), default=8, show_default=True, help="Ranks of the drawing.")
@click.option("--root", type=click.IntRange(0), default=0, show_default=True, help="Root of the drawing.")
@click.option("--count", type=click.IntRange(0), help="Elements (float64) of the drawing.  [default: 8 a rank]")
@click.option(
    "-o", "--output", metavar="FILE", help="File of the drawing, .svg or .png.  [default: OPERATION_NAME.svg]"
)
def algorithms(draw: str | None, ranks: int, root: int, count: int | None, output: str | None) -> None:
    """Show every algorithm, or draw the messages of one."""
    pycoll = _loaded()
    if draw is None:
        table = _table("operation", "algorithm", "summary", "restrictions")
        for algorithm in pycoll.algorithms():
            words = (algorithm[key] for key in ("operation", "name", "summary", "restrictions"))
            table.add_row(*map(str, words))
        _print(table)
        return
    from .draw import draw_algorithm

    path = output or f"{draw.replace(':', '_')}.svg"
    try:
        draw_algorithm(draw, ranks, path, root=root, count=count)
    except (ValueError, ImportError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(path)


@main.command()
@click.option("--quick", is_flag=True, help="Three sizes on 2 ranks, briefly.")
@click.option("--ops", metavar="LIST", help="Operations.  [default: all]")
@click.option("--sizes", metavar="LIST", help="Bytes a rank, as in 8,64k,16m.  [default: from 8 B to 64 MiB]")
@click.option("--ranks", metavar="LIST", help="Numbers of ranks.  [default: 2,4,8]")
@click.option("--modes", metavar="LIST", help="Of ordinary,symmetric,persistent.  [default: all]")
@click.option("--peers", metavar="LIST", help="Of mpich,openmpi,impi,gloo; or none.  [default: all that are installed]")
@click.option("--peers-dir", metavar="DIR", help="Where the peers' environments are.  [default: build/peers]")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Turns of each library in a cell.  [default: 5]")
@click.option(
    "--block-ms", type=click.FloatRange(0, min_open=True), metavar="MS", help="Length of a turn.  [default: 50]"
)
@click.option("--late", metavar="RANK:MS", help="A rank comes late to every call, to see that the method notices.")
@click.option("--breakdown", is_flag=True, help="Only show where a small call's nanoseconds go in Python.")
@click.option("--from", "source", metavar="DIR", help="Measure nothing: show what an earlier run left there.")
@click.option("-o", "--output", default="build/bench", show_default=True, metavar="DIR", help="Where the files go.")
@click.option("--rst", metavar="FILE", help="Write a page of results too, with its drawing beside it.")
def bench(breakdown: bool, source: str | None, output: str, rst: str | None, **choices: Any) -> None:
    """Measure collectives beside other libraries, in turns: tables, CSV, JSON and a plot.

    `make bench-peers` installs the peers: mpi4py over MPICH, Open MPI and Intel MPI, and torch with Gloo.
    """
    from pathlib import Path

    _loaded()
    from .bench import command
    from .bench.breakdown import measure as measure_breakdown
    from .bench.job import JobError

    page = Path(rst) if rst else None
    try:
        settings = command.make_settings(**choices)
        if breakdown:
            command.show_breakdown(measure_breakdown())
            return
        if source:
            code = command.again(Path(source), Path(output), page)
        else:
            code = command.bench(settings, Path(output), page)
    except (ValueError, OSError, JobError) as error:
        raise click.ClickException(str(error)) from None
    sys.exit(code)


def _loaded() -> Any:
    """The package with its library, or an error of one line."""
    import pycoll

    try:
        pycoll.libcoll_version()
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    return pycoll


def _table(*columns: str | None) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD if columns[0] else None, show_header=bool(columns[0]), pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column or "", no_wrap=index == 0, overflow="fold", style="bold" if index == 0 else None)
    return table


def _print(table: Any) -> None:
    """On a terminal as wide as that; to a file or pipe, one row is one line."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(markup=False, highlight=False, width=10_000)
    with wide.capture() as text:
        wide.print(table)
    click.echo("\n".join(line.rstrip() for line in text.get().splitlines() if line.strip()))
