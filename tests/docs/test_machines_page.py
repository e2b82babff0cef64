"""What the page of several machines reckons follows from what was measured, and nginx takes its file."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

DOCS: Final = Path(__file__).parents[2] / "docs"
MONTH: Final = 30 * 24 * 60 * 60
TEXTS, PEAK = 50, 10
"""What the page assumes: texts of a person in a month, and how far the busiest hour is above the average."""


def page() -> str:
    return (DOCS / "machines.md").read_text(encoding="utf-8")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def measured() -> dict[int, tuple[float, float]]:
    """CPU of a turn in microseconds, and turns a second, by connections."""
    table = (DOCS / "speed.md").read_text(encoding="utf-8").partition("<!-- measured: ask -->")[2]
    rows = re.findall(r"(?m)^\| (\d+) \| triobot \| ([\d,]+) \| [^|]+ \| ([\d,]+) \|", table)
    return {int(connections): (number(cpu), number(rate)) for connections, cpu, rate in rows[:2]}


def test_it_says_what_was_measured() -> None:
    (alone, alone_rate), (together, rate) = measured()[1], measured()[64]
    text = " ".join(page().split())
    assert f"took {alone:,.0f} microseconds of CPU when events came one by one, and {together:,.0f}" in text
    assert f"about {round(alone_rate, -1):,.0f} of them a second one by one" in text
    assert f"about {round(rate, -1):,.0f} with 64 at once" in text
    assert f"count {alone:,.0f} microseconds an event, the last one {together:,.0f}." in text


def test_its_shares_of_a_core_follow() -> None:
    rows = re.findall(r"(?m)^\| ([\d,]+) \| ([\d.,]+) \| ([\d.,]+) \| ([\d.]+) % \|$", page())
    assert len(rows) == 4
    for row, (people, average, busiest, share) in enumerate(rows):
        events = number(people) * TEXTS / MONTH
        assert number(average) == pytest.approx(events, rel=0.05)
        assert number(busiest) == pytest.approx(events * PEAK, rel=0.05)
        cost = measured()[64 if row == len(rows) - 1 else 1][0]
        assert number(share) == pytest.approx(events * PEAK * cost / 1e4, rel=0.1)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_takes_the_rehearsal_s_file(tmp_path: Path) -> None:
    [file] = re.findall(r"(?ms)^```nginx\n(.*?)^```", page())
    (tmp_path / "rehearsal.conf").write_text(file, encoding="utf-8")
    (tmp_path / "rehearsal").mkdir()

    command = ["nginx", "-t", "-p", str(tmp_path), "-c", "rehearsal.conf"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stderr


@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")
def test_caddy_takes_the_file_for_two(tmp_path: Path) -> None:
    file = DOCS.parent / "deploy/caddy/Caddyfile-two"
    command = ["caddy", "adapt", "--config", str(file), "--adapter", "caddyfile", "--validate"]

    said = subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)})

    assert said.returncode == 0, said.stderr
