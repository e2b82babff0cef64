"""What an operator may ask of broadcasts, as plain JSON values: one question in, one answer out.

====================================  ================================================================
``{"ask": "broadcast.list"}``         ``{"broadcasts": [{"key", "at", "state", "total", "sent", ...}]}``
``{"ask": "broadcast.status",``       ``{"broadcast": {...}}``; its state is ``none`` for an unknown key
``"key": ...}``
``{"ask": "broadcast.stop",``         ``{"stopped": true}``; false if there was nothing to stop
``"key": ...}``
====================================  ================================================================

What can't be answered is ``{"error": words}``. No answer holds a message or a chat's id. How they travel
is not decided here: over a running bot's own socket, or inside a command that has taken the store's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final

import attrs

from ..errors import LocalProtocolError
from ..jobs import BroadcastJob, TurnBroadcast
from ..seams import Store
from ..wire.rules import JsonValue

BROADCAST_QUESTIONS: Final = frozenset({"broadcast.list", "broadcast.status", "broadcast.stop"})


class BroadcastDesk(Protocol):
    """What operators' questions are answered from: `Broadcasts` in a running bot, else `StoredBroadcasts`."""

    async def jobs(self) -> Sequence[BroadcastJob]:
        """Return all broadcasts, in the order in which they were started."""
        ...

    async def stop(self, key: str) -> bool:
        """Start nothing more of a broadcast; False if there was nothing to stop."""
        ...


@final
class StoredBroadcasts:
    """The broadcasts of a store that no bot has open."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def jobs(self) -> Sequence[BroadcastJob]:
        """Return all broadcasts, in the order in which they were started."""
        return await self._store.broadcasts()

    async def stop(self, key: str) -> bool:
        """Let the next start of the bot tell nobody more."""
        job = await self._store.broadcast(key)
        if job is None or job.status.state != "sending":
            return False
        # The next start counts those who were on their way, and ends it.
        await self._store.commit(TurnBroadcast(key, "stopping"))
        return True


async def answer(desk: BroadcastDesk, question: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Answer an operator's question about broadcasts."""
    asked, key = question.get("ask"), question.get("key")
    if asked == "broadcast.list":
        return {"broadcasts": [view_of(job) for job in await desk.jobs()]}
    if not isinstance(key, str):
        return {"error": "name a broadcast by its key"}
    try:
        if asked == "broadcast.status":
            found = [view_of(job) for job in await desk.jobs() if job.key == key]
            return {"broadcast": found[0] if found else {"key": key, "state": "none"}}
        if asked == "broadcast.stop":
            return {"stopped": await desk.stop(key)}
    except LocalProtocolError as error:
        return {"error": str(error)}
    return {"error": "this is no question about broadcasts"}


def view_of(job: BroadcastJob) -> dict[str, JsonValue]:
    """Return a broadcast as plain JSON values, without its content."""
    return {"key": job.key, "at": job.at, **attrs.asdict(job.status)}
