"""Passes over the journals of the project's own tests: the last state of a pass must be the run's state.

The replay-check runs each conversation's journal again after an answer. This module also makes a pass over
some of these journals (with ``--long``, over all). A test fails if the pass shows another state than the run.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from tests import samples
from tests.schema import wrong
from triobot.conversations.inspection import checking
from triobot.conversations.inspection.checking import Checked
from triobot.conversations.inspection.replay_state import difference
from triobot.conversations.inspection.rerun import Divergence, dry_services
from triobot.conversations.shared import Shared
from triobot.studio.travel.notches import FRAMES
from triobot.studio.travel.passes import Passed, run_pass

SCHEMA: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "docs" / "travel.schema.json").read_text(encoding="utf-8")
)
EVERY: Final = 30
"""By default, a pass over one of so many journals, by their length."""

passes: Final[list[int]] = []
"""Notches of the passes so far, for a test that looks whether there are any."""

_compare: Final[Callable[[Shared, Checked], Awaitable[Divergence | None]]] = checking.compare


async def compare(shared: Shared, checked: Checked) -> Divergence | None:
    """As the replay-check does, and by a pass, too."""
    found = await _compare(shared, checked)
    records = checked.stored.records
    if found is not None or not (samples.takes_all() or len(records) % EVERY == 2):
        return found
    live = shared.services
    dry = dry_services(live.texts, live.resources, checked.stored.row.updated_at, live.charge_hosts)
    passed = await run_pass(dry, shared.table, checked.stored, set_by=checked.set_by)
    passes.append(len(passed.turns))
    said = disagreement(passed, checked)
    return None if said is None else Divergence("0", f"a pass: {said}", checked.standing.line)


def disagreement(passed: Passed, checked: Checked) -> str | None:
    """Say in what a pass parts from where its conversation stood; None if in nothing."""
    head, notches, state = passed.head, notches_of(passed), dict[str, Any]()
    for told, kind in [(head, "head"), *((notch, "notch") for notch in notches)]:
        if (unfit := wrong(told, SCHEMA["$defs"][kind], SCHEMA, kind)) is not None:
            return f"docs/travel.schema.json: {unfit}"
    if head["divergence"] is not None or head["hangs"] is not None:
        return f"it parts: {head['divergence'] or head['hangs']}"
    if (parts := difference(checked.standing, passed.standing)) is not None:
        return parts
    for n, notch in enumerate(notches):
        if notch["n"] != n:
            return f"notch {n} has the number {notch['n']}"
        state = folded(state, notch)
    if checked.standing.ending is not None:
        return None if state["k"] in ("end", "continued") else f"its last notch is {state['k']}"
    shown = {one["id"]: one["kind"] for one in state["parked"]}
    if shown != {id: kind for id, kind, _ in checked.standing.operations}:
        return f"the last notch rests in {shown}"
    blocks = [(one["id"], one["due"], one["ended"]) for one in state["blocks"]]
    if sorted(blocks) != sorted(checked.standing.blocks):
        return f"the last notch has the blocks {blocks}"
    sources = [source["path"] for source in head["sources"]]
    lines = {path: tuple(f"{sources[file]}:{line}" for file, line, _ in f) for path, f in state["f"].items()}
    spots = {path: spot.lines for path, spot in checked.standing.spots.items()}
    if lines != spots and all(len(spot) <= FRAMES for spot in spots.values()):
        return f"the last notch stands in {lines}"
    if any(len(state["v"][path]) != len(state["f"][path]) for path in state["f"]):
        return "variables of another number of frames"
    return None


def notches_of(passed: Passed) -> list[dict[str, Any]]:
    """All notches, as a page gets them."""
    return list(passed.window(0, passed.head["notches"]))  # type: ignore[arg-type]


def folded(state: dict[str, Any], notch: dict[str, Any]) -> dict[str, Any]:
    """The complete state at a notch, from that at the notch before."""
    whole = {**notch, "whole": True}
    if notch.get("whole"):
        return whole
    for name in ("parked", "blocks"):
        whole[name] = notch.get(name, state[name])
    for name in ("f", "data"):
        both = {**state[name], **notch.get(name, {})}
        whole[name] = {key: one for key, one in both.items() if one is not None or name == "data"}
    whole["v"] = dict(state["v"])
    for branch, frames in notch.get("v", {}).items():
        before = whole["v"].pop(branch, [])
        if frames is not None:
            known = [*before, *({} for _ in frames)]
            both = [{**known[depth], **changes} for depth, changes in enumerate(frames)]
            whole["v"][branch] = [{k: one for k, one in frame.items() if one is not None} for frame in both]
    return whole


def install() -> None:
    """Have the replay-check of this process make passes."""
    checking.compare = compare  # type: ignore[assignment]
