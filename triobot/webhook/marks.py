"""Remembers which deliveries were answered, after each answer.

The platform repeats what it got no answer to, and users say the same thing twice. An equal event is a
repetition only if the earlier one's 200 was not fully written. The store therefore notes each answer at once,
in a way that outlives the process. What outlives the machine is committed later, in batches, since no answer
waits for it, and `settle` closes the one gap that this leaves.

A kill may come between an answer and its note, whichever is first. If the note came first, the platform would
repeat an event that counts as answered, and the event would be handled twice. As the note comes second, the
worst case is a user who says the same again within a minute and is taken for the platform.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, final

import trio

from ..errors import StoreError
from ..seams import Acknowledge, Store

_log: Final = logging.getLogger("triobot.webhook")

# Later, an equal event counts as new whether or not the earlier one was answered (gap 28), so that a mark
# that could not be written for so long has nothing to say any more.
_WORTH_SECONDS: Final = 60.0
_BATCH: Final = 500
_REPEAT_SECONDS: Final = 1.0
_LAST_SECONDS: Final = 2.0

# The machine was up a second later: its crash, whenever that comes, leaves no doubt about these.
_BEAT_SECONDS: Final = 1.5


@final
class Marks:
    """The answered deliveries that the store doesn't know of yet.

    Bounded: when `most` wait, further ones are not remembered but counted in `lost`. Then an equal event
    within a minute is taken for a repetition, as after an unclean stop. Only a store that has not written for
    a while gets there, and such a store refuses new events as well.
    """

    def __init__(self, store: Store, *, most: int = 10_000, pause_seconds: float = 0.25) -> None:
        self._store = store
        self._most = most
        self._pause = pause_seconds
        # When each was added, and a number that tells two additions of one key apart.
        self._waiting: dict[str, tuple[float, int]] = {}
        self._added = 0
        self._some = trio.Event()
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Remember that the delivery with this key was answered. Never waits."""
        self._store.note_answered(key)
        if key not in self._waiting and len(self._waiting) >= self._most:
            self.lost += 1
            return
        self._added += 1
        self._waiting[key] = (trio.current_time(), self._added)
        self._some.set()

    async def settle(self, key: str) -> None:
        """Store this key if it still waits; call before an event with the same key is accepted.

        Without it a user's second "yes" within the pause would be taken for a repetition of the first.

        Raises:
            StoreError: it could not be written.

        Cancellation: *ambiguous*, and harmless: the key is written again later.
        """
        if key in self._waiting:
            await self._write((key,))

    async def flush(self) -> None:
        """Write all marks that wait.

        Raises:
            StoreError: they could not be written, and still wait.

        Cancellation: *ambiguous*, and harmless, as above.
        """
        self._drop_stale()
        while self._waiting:
            await self._write(tuple(self._waiting)[:_BATCH])

    async def run(self) -> None:
        """Write marks in batches until cancelled, then the last ones.

        Cancellation: finishes one last write within two seconds, shielded: marks lost at a clean stop would
        make a user's repeated word look like the platform's repetition after the restart.
        """
        try:
            while True:
                await self._some.wait()
                await trio.sleep(self._pause)
                try:
                    await self.flush()
                    self._some = trio.Event()
                    with trio.move_on_after(_BEAT_SECONDS) as quiet:
                        await self._some.wait()
                    if quiet.cancelled_caught:
                        await self._store.check()
                except StoreError as error:
                    _log.warning("could not mark deliveries as answered: %s", type(error).__name__)
                    await trio.sleep(_REPEAT_SECONDS)
        finally:
            with trio.move_on_after(_LAST_SECONDS, shield=True):
                try:
                    await self.flush()
                except StoreError as error:
                    _log.warning("could not mark the last deliveries as answered: %s", type(error).__name__)

    async def _write(self, keys: Sequence[str]) -> None:
        written = {key: self._waiting[key] for key in keys}
        await self._store.commit(Acknowledge(tuple(keys)))
        for key, mark in written.items():
            # One that was added again meanwhile stays: it may belong to a delivery accepted since.
            if self._waiting.get(key) == mark:
                del self._waiting[key]

    def _drop_stale(self) -> None:
        oldest = trio.current_time() - _WORTH_SECONDS
        for key in [key for key, (at, _) in self._waiting.items() if at < oldest]:
            del self._waiting[key]
