"""Pictures of algorithms: who sends to whom in which round, read from the schedules that would run.

Ranks are rows, rounds are columns; an arrow is a message, labelled with its bytes, from its sender at the beginning of
the round to its receiver at the end. ``pycoll algorithms --draw`` and the documentation use it; it needs matplotlib.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One message of a schedule."""

    round: int
    source: int
    target: int
    bytes: int


def messages(algorithm: str, ranks: int, root: int = 0, count: int = 8) -> list[Message]:
    """Every message of ``algorithm`` ("allreduce:ring") among ``ranks`` ranks for ``count`` float64, by round."""
    from .introspection import schedule

    found = [
        Message(step["round"], rank, step["peer"], step["bytes"])
        for rank in range(ranks)
        for step in schedule(algorithm, rank, ranks, root, count)
        if step["kind"] == "send"
    ]
    return sorted(found)


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
    figure = Figure(figsize=(1.6 + 1.15 * rounds, 1.4 + 0.42 * ranks), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for rank in range(ranks):
        axes.axhline(rank, color="0.85", linewidth=1, zorder=0)
    for step in range(rounds + 1):
        axes.axvline(step, color="0.92", linewidth=1, linestyle=":", zorder=0)
        axes.plot([step] * ranks, range(ranks), "o", color="0.25", markersize=3.5)
    for message in all_messages:
        _arrow(axes, message)
    axes.set_xlim(-0.15, rounds + 0.15)
    axes.set_ylim(ranks - 0.5, -0.5)
    axes.set_xticks([step + 0.5 for step in range(rounds)], [str(step) for step in range(rounds)])
    axes.set_yticks(range(ranks))
    axes.tick_params(length=0)
    axes.set_xlabel("round")
    axes.set_ylabel("rank")
    axes.set_title(f"{algorithm}, {ranks} ranks, {8 * count} bytes: {len(all_messages)} messages", fontsize=10)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _arrow(axes: Any, message: Message) -> None:
    # One colour for each sender; labels sit near it, where arrows have not met yet.
    color = f"C{message.source % 10}"
    begin, end = (message.round, message.source), (message.round + 1, message.target)
    style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.1, "shrinkA": 3, "shrinkB": 3}
    axes.annotate("", xy=end, xytext=begin, arrowprops=style)
    near = 0.28
    x, y = (a + near * (b - a) for a, b in zip(begin, end, strict=True))
    background = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    axes.text(x, y, _size(message.bytes), color=color, fontsize=6.5, ha="center", va="center", bbox=background)


def _size(number: int) -> str:
    for unit, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if number >= unit and number % unit == 0:
            return f"{number // unit} {name}B"
    return f"{number} B"
