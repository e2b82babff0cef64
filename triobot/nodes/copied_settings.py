"""What becomes of a store's settings when it is copied to another number of shards.

What is the whole bot's is kept by the home shard, and goes to that of the copy. A few settings tell of a
shard's own events, alarms and payments; those are here by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from ..alarm_targets import TOLD
from ..clock import JUMPED
from ..conversations.revival.care import EARLY, LIVED_AT, ROUTING
from ..payments.cashier import EPOCH, WATCHED
from ..seams import STREAM_ID
from ..shards import home_of
from ..store.copying import Settings, SettingsFound

# What has replicas is the store that was copied; the copy begins without.
_OWN: Final = frozenset({LIVED_AT, JUMPED, EARLY, ROUTING, EPOCH, WATCHED, STREAM_ID})


def divided_settings(found: SettingsFound) -> Sequence[Settings]:
    """Return the settings of each shard of a copy."""
    home = found.sources[found.home]
    # What the home shard doesn't know of can only be by another version's shards.
    common = {name: text for one in (*found.sources, home) for name, text in one.items() if not _is_own(name)}
    divided = [dict(_everywhere(found)) for _ in range(found.shards)]
    divided[home_of(found.shards)].update(common)
    for shard, counts in _killed_early(found).items():
        divided[shard][EARLY] = " ".join(counts)
    for one in found.sources:
        seq, _, _ = (text := one.get(ROUTING, "")).partition(" ")
        if seq and (of_event := found.shard_of_event(int(seq))) is not None:
            divided[of_event][ROUTING] = text
    return divided


def _is_own(name: str) -> bool:
    return name in _OWN or name.startswith(TOLD)


def _everywhere(found: SettingsFound) -> Iterator[tuple[str, str]]:
    """Yield what each shard of a copy begins with."""
    home = found.sources[found.home]
    jumped, _ = _two(home.get(JUMPED))
    if any(JUMPED in one for one in found.sources):
        seen = max(_two(one.get(JUMPED))[1] for one in found.sources)
        yield JUMPED, f"{jumped} {seen}"
    watched = [
        at + _two(one.get(JUMPED))[0] - before
        for one in found.sources
        if WATCHED in one
        for at, before in [_two(one[WATCHED])]
    ]
    if watched:
        # The longest time in which nothing was verified counts: its payments may be in any shard now.
        yield WATCHED, f"{min(watched)} {jumped}"
    taken_up = [int(one.get(EPOCH) or 0) for one in found.sources]
    if taken_up == list(found.epochs):
        yield EPOCH, str(max(found.epochs))
    # Else one was restored, and its payments have yet to be asked about: then all are.
    for name in dict.fromkeys(name for one in found.sources for name in one if name.startswith(TOLD)):
        marks = [mark for one in found.sources for mark in json.loads(one.get(name) or "[]")]
        yield name, json.dumps(list({(kind, key): [kind, key, *rest] for kind, key, *rest in marks}.values()))


def _killed_early(found: SettingsFound) -> dict[int, list[str]]:
    divided: dict[int, list[str]] = {}
    for one in found.sources:
        for counted in one.get(EARLY, "").split():
            if (shard := found.shard_of_event(int(counted.partition(":")[0]))) is not None:
                divided.setdefault(shard, []).append(counted)
    return divided


def _two(text: str | None) -> tuple[int, int]:
    """Read two numbers, of which the second may be missing."""
    first, second, *_ = (*map(int, (text or "").split()), 0, 0)
    return first, second
