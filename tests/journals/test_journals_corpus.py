"""The runtime's operations are a format: today's code continues the journals of each release.

If a test fails here, an operation behaves differently from before; CONTRIBUTING, *The operations are a
format*, says what to do.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from tests.journals import corpus, operations, record, stage
from tests.journals.corpus import Release, Stored, Take
from tests.journals.going_on import go_on
from triobot.conversations.questions.asking import SHARED
from triobot.seams.journals import RunKind


@cache
def read(path: Path) -> Release:
    return corpus.read_release(path.read_text("ascii"))


RELEASES = {path.stem: read(path) for path in corpus.releases()}
TAKES = [(release, take) for release in RELEASES.values() for take in release.takes]
NAMES = [f"{name}: {take.name}" for name, release in RELEASES.items() for take in release.takes]


@pytest.mark.parametrize(("release", "take"), TAKES, ids=NAMES)
async def test_what_a_release_recorded_goes_on(release: Release, take: Take, autojump_clock: object) -> None:
    """Behind each transaction it is cut, comes back, and sends and records the rest of what was recorded."""
    with stage.no_chance():
        found = [await go_on(operations.bot, release, take, cut) for cut in take.cuts]
    others = [one for one in found if one is not None]
    stuck = [one for one in others if one.alarms]
    if others:
        counted = f"of {len(found)} cuts {len(others)} go on otherwise, {len(stuck)} with an alarm, such as"
        raise AssertionError(f"{counted}\n{(stuck or others)[0]}")


def test_each_operation_has_a_place_in_the_corpus() -> None:
    """Each public method of what authors are handed, and each of its arguments that has a default."""
    wanted = {f"Chat.ask({kind.__name__})" for kind in (*SHARED, int, float)}
    for name, (_, _, call) in record.operations_of_classes().items():
        wanted |= {name, *record.arguments_of(name, call).values()}
    wanted.remove("Broadcast.gone")  # not usable inside a conversation
    missing = wanted - {used for _, take in TAKES for used in take.uses}
    assert not missing, (
        f"no journal has {', '.join(sorted(missing))}: add a scene to tests/journals/operations.py, and run"
        " python -m tests.journals.record"
    )


def test_each_kind_of_route_has_a_place_in_the_corpus() -> None:
    rows = [
        change
        for _, take in TAKES
        for entry in take.entries
        if isinstance(entry, Stored)
        for change in entry.changes
    ]
    kinds = {row.values.get("kind") for row in rows if row.table == "conversations" and row.values}
    assert kinds >= {*get_args(RunKind)}


def test_what_is_recorded_is_what_its_code_recorded() -> None:
    """A scene is recorded before it is used, and never edited behind that."""
    today = record.code()
    for name, release in RELEASES.items():
        edited = [defined for defined, digest in release.code.items() if today.get(defined) != digest]
        assert not edited, f"{name} has journals of {', '.join(edited)} as it was: add new code beside it"
    unrecorded = {*operations.SCENES} - {take.name for _, take in TAKES}
    assert not unrecorded, f"{', '.join(unrecorded)}: python -m tests.journals.record"


def test_what_is_read_is_written_in_the_same_way() -> None:
    for path in corpus.releases():
        text = path.read_text("ascii")
        assert "\n".join(corpus.write_release(read(path))) + "\n" == text
