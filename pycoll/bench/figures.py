"""What the samples say: statistics of a cell, and ratios against the best peer."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

OURS = "pycoll"
STATISTICS = ("median", "mean", "stdev", "min", "max", "p95")


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank: the smallest value that is not below `percent` per cent of all."""
    ordered = sorted(values)
    return ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1]


def describe(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "stdev": statistics.stdev(values) if len(values) > 1 else 0.0,
        "min": min(values),
        "max": max(values),
        "p95": percentile(values, 95),
    }


def geometric_mean(values: Iterable[float]) -> float | None:
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def summarize(blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each library, mode and cell, out of the samples of all its blocks."""
    samples: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for block in blocks:
        key = tuple(block[name] for name in ("ranks", "operation", "bytes", "library", "mode"))
        samples[key] += block["us"]
    return [
        dict(zip(("ranks", "operation", "bytes", "library", "mode"), key, strict=True))
        | {"samples": len(us)}
        | describe(us)
        for key, us in samples.items()
    ]


def ratios(summary: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each of our cells and modes: the best peer in whatever mode it is fastest, and best / ours.

    Above 1 we are faster. A cell that no peer has gives no row.
    """
    ours: list[dict[str, Any]] = []
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in summary:
        key = row["ranks"], row["operation"], row["bytes"]
        if row["library"] == OURS:
            ours.append(row)
        elif key not in best or row["median"] < best[key]["median"]:
            best[key] = row
    found = []
    for row in ours:
        peer = best.get((row["ranks"], row["operation"], row["bytes"]))
        if peer:
            found.append(
                {name: row[name] for name in ("ranks", "operation", "bytes", "mode")}
                | {"us": row["median"], "best": peer["library"], "best_mode": peer["mode"]}
                | {"best_us": peer["median"], "ratio": peer["median"] / row["median"]}
            )
    return found


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means of ratios: for each number of ranks and mode, and of all, with the worst cell of each."""
    groups: dict[tuple[Any, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["ranks"], row["mode"]].append(row)
    if rows:
        groups["all", "all"] = list(rows)
    found = []
    for (ranks, mode), members in groups.items():
        worst = min(members, key=lambda row: row["ratio"])
        found.append(
            {"ranks": ranks, "mode": mode, "cells": len(members)}
            | {"geometric_mean": geometric_mean(row["ratio"] for row in members), "worst": worst["ratio"]}
            | {"worst_operation": worst["operation"], "worst_bytes": worst["bytes"], "worst_ranks": worst["ranks"]}
        )
    return found
