"""Figures of several rounds: each by its name, with its median and its spread, and ratios round by round."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

Figures: TypeAlias = dict[str, list[float]]
"""What was measured of one system, by the name of the figure: one number a round."""


def note(figures: Figures, **measured: float) -> None:
    """Add a round."""
    for name, value in measured.items():
        figures.setdefault(name, []).append(value)


@attrs.frozen
class Spread:
    """The middle one of several rounds, and the outer ones."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def ratio(of: Sequence[float], to: Sequence[float]) -> Spread:
    """One system's figures in another's, round by round: a noisy moment meets both."""
    return Spread.of([mine / theirs for mine, theirs in zip(of, to, strict=True)])


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part of all of them do not exceed."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def baseline(figures: Mapping[str, Figures], wished: Sequence[str]) -> str:
    """The first of the wished ones that was measured; else any."""
    return next((name for name in wished if name in figures), next(iter(figures)))
