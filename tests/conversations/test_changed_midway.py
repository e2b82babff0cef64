"""A row that was written in the middle of a turn tells of waits that the turn's rest has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from triobot.conversations.revival.changed import Changed

RESTS = '[6,[["1/2.3","within",[5],""]]]'


@pytest.mark.parametrize(("midway", "kind"), [(True, "within"), (True, "receive"), (False, "within")])
def test_a_wait_for_another_branch_may_be_over_where_a_kill_came_in_the_middle(
    midway: bool, kind: str
) -> None:
    """One branch got an event and handed it to another one; the kill came before that said anything."""
    row = SimpleNamespace(rests=RESTS.replace("within", kind), position=6, unfinished=midway, updated_at=0)
    changed = Changed(cast("Any", SimpleNamespace(sites=None)), cast("Any", row), [])
    asked: list[str] = []
    cast("Any", changed).judge = SimpleNamespace(
        compare_standing=lambda at, recorded, now: asked.append(recorded.kind)
    )

    changed.standing([])

    assert asked == ([] if midway and kind == "within" else [kind])
