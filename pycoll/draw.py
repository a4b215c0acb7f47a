"""Pictures of algorithms: who sends to whom and when, read from the schedules that would run.

Ranks are rows, rounds are columns; an arrow is a message, labelled with its bytes, from its sender at the beginning of
the round to its receiver at the end. ``pycoll algorithms --draw`` and the documentation use it; it needs matplotlib.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One message. ``round`` counts over all ranks: it is one more than that of the last message its sender needed."""

    round: int
    source: int
    target: int
    bytes: int


def messages(algorithm: str, ranks: int, root: int = 0, count: int = 8) -> list[Message]:
    """Every message of ``algorithm`` ("allreduce:ring") among ``ranks`` ranks for ``count`` float64, by round.

    A schedule counts the rounds of its own rank. Here each message takes one unit of time, and a rank's next round
    begins when all that it receives in the one before has come.
    """
    from .introspection import schedule

    own = [_own_rounds(schedule(algorithm, rank, ranks, root, count)) for rank in range(ranks)]
    under_way: dict[tuple[int, int], list[int]] = defaultdict(list)  # (source, target) -> arrivals in order
    received: dict[tuple[int, int], int] = defaultdict(int)
    time, position = [0] * ranks, [0] * ranks
    found = []
    moved = True
    while moved:
        moved = False
        for rank, rounds in enumerate(own):
            while position[rank] < 2 * len(rounds):  # each round in two halves: it sends, then it receives
                sends, sources = rounds[position[rank] // 2]
                if position[rank] % 2 == 0:
                    for target, size in sends:
                        found.append(Message(time[rank], rank, target, size))
                        under_way[rank, target].append(time[rank] + 1)
                else:
                    needed = {source: received[source, rank] + sources.count(source) for source in sources}
                    if any(len(under_way[source, rank]) < number for source, number in needed.items()):
                        break
                    for source, number in needed.items():
                        received[source, rank] = number
                        time[rank] = max([time[rank], *under_way[source, rank][:number]])
                position[rank] += 1
                moved = True
    if any(position[rank] < 2 * len(rounds) for rank, rounds in enumerate(own)):
        raise ValueError(f"{algorithm} of {ranks} ranks: a rank waits for a message that nobody sends")
    return sorted(found)


def _own_rounds(steps: list[dict[str, Any]]) -> list[tuple[list[tuple[int, int]], list[int]]]:
    """What one rank does in each of its rounds: (target, bytes) of its sends, and sources of its receives."""
    rounds: list[tuple[list[tuple[int, int]], list[int]]] = []
    for step in steps:
        while len(rounds) <= step["round"]:
            rounds.append(([], []))
        if step["kind"] == "send":
            rounds[step["round"]][0].append((step["peer"], step["bytes"]))
        elif step["kind"] == "recv":
            rounds[step["round"]][1].append(step["peer"])
    return rounds


def draw_algorithm(algorithm: str, ranks: int, path: str, *, root: int = 0, count: int | None = None) -> None:
    """Writes the picture to ``path``; its suffix, .svg or .png, says in which format. ``count``: elements, 8 a rank."""
    kind = os.path.splitext(path)[1].lower()
    if kind not in (".svg", ".png"):
        raise ValueError(f"the file is {path!r}, allowed are names ending in .svg or .png")
    count = 8 * ranks if count is None else count
    figure = _figure(algorithm, ranks, messages(algorithm, ranks, root, count), count)
    # No date and fixed identifiers: the same schedule gives the same file.
    metadata = {"Date": None} if kind == ".svg" else {}
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": algorithm, "svg.fonttype": "none"}):
        figure.savefig(path, format=kind[1:], metadata=metadata, dpi=150)


def _figure(algorithm: str, ranks: int, all_messages: list[Message], count: int) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"drawing needs matplotlib (pip install matplotlib): {error}") from None
    rounds = 1 + max((message.round for message in all_messages), default=0)
    figure = Figure(figsize=(max(1.2 + 1.1 * rounds, 4.8), 1.3 + 0.4 * ranks), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for rank in range(ranks):
        axes.axhline(rank, color="0.85", linewidth=1, zorder=0)
    for step in range(rounds + 1):
        axes.axvline(step, color="0.92", linewidth=1, linestyle=":", zorder=0)
        axes.plot([step] * ranks, range(ranks), "o", color="0.25", markersize=3.5)
    labelled = any(message.bytes for message in all_messages)  # those of a barrier are all empty
    for message in all_messages:
        _arrow(axes, message, labelled)
    axes.set_xlim(-0.15, rounds + 0.15)
    axes.set_ylim(ranks - 0.5, -0.5)
    axes.set_xticks([step + 0.5 for step in range(rounds)], [str(step) for step in range(rounds)])
    axes.set_yticks(range(ranks))
    axes.tick_params(length=0)
    axes.set_xlabel("round")
    axes.set_ylabel("rank")
    title = f"{algorithm}, {ranks} ranks" + (f", {_size(8 * count)}" if labelled else "")
    axes.set_title(f"{title}: {len(all_messages)} messages in {rounds if all_messages else 0} rounds", fontsize=9)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _arrow(axes: Any, message: Message, labelled: bool) -> None:
    # One colour for each sender; labels sit near it, where arrows have not met yet.
    color = f"C{message.source % 10}"
    begin, end = (message.round, message.source), (message.round + 1, message.target)
    style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.1, "shrinkA": 3, "shrinkB": 3}
    axes.annotate("", xy=end, xytext=begin, arrowprops=style)
    if not labelled:
        return
    near = 0.28
    x, y = (a + near * (b - a) for a, b in zip(begin, end, strict=True))
    background = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    axes.text(x, y, _size(message.bytes), color=color, fontsize=6.5, ha="center", va="center", bbox=background)


def _size(number: int) -> str:
    for unit, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if number >= unit and number % unit == 0:
            return f"{number // unit} {name}B"
    return f"{number} B"
