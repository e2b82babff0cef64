"""The webhook's secrets, where the store makes and keeps them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import trio

from ..base.clock import WallClock
from ..base.secrets import Secret
from ..seams.writes import PutSetting
from ..store import Store
from .secrets import Secrets, read_former, read_kept

_log: Final = logging.getLogger("triobot")

SECRET: Final = "webhook_secret"
FORMER_SECRET: Final = "former_webhook_secret"


async def webhook_secrets(given: Secret | None, store: Store, now: int) -> tuple[Secrets, Sequence[int]]:
    """Return the secrets of the webhook's address: those that are given, else what the store keeps.

    A store that keeps none is given one.

    Returns:
        Them, and until when those behind the current one are accepted; nothing: for good, or there are none.
    """
    if given is not None:
        return Secrets.parse(given.reveal()), ()
    kept = await store.setting(SECRET)
    if kept is None:
        kept = Secrets.generate().current
        await store.commit(PutSetting(SECRET, kept))
    return read_kept(kept, await store.setting(FORMER_SECRET) or "", now)


async def renew_webhook_secret(store: Store, until: int) -> None:
    """Have the store keep a new secret; the ones before are accepted until that moment at most, too.

    A second renewal leaves the first one's overlap as it is: the platform may still use that address.
    """
    kept = await store.setting(SECRET)
    former = [] if kept is None else [(kept, until), *await _former_secrets(store)]
    await store.commit(
        PutSetting(SECRET, Secrets.generate().current),
        PutSetting(FORMER_SECRET, " ".join(f"{secret} {min(until, own)}" for secret, own in former)),
    )


async def _former_secrets(store: Store) -> list[tuple[str, int]]:
    """Read the secrets before the current one, the newest first, and until when each is accepted."""
    return read_former(await store.setting(FORMER_SECRET) or "")


async def forget_former(secrets: Secrets, untils: Sequence[int], clock: WallClock) -> None:
    """Accept each former secret until its time, the oldest first."""
    for until in reversed(untils):
        # In pieces, since the time of day may be set.
        left = until - clock.now()
        while left > 0:
            await trio.sleep(min(left / 1_000, 3_600))
            left = until - clock.now()
        secrets.forget_oldest()
        _log.info("a former secret of the webhook is not accepted any more")
