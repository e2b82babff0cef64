"""The webhook's secrets that the store generates and keeps."""

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
    """Return the accepted secrets of the webhook: `given`, or the store's secrets if `given` is None.

    Generate a secret if the store has no secret.

    Returns:
        The secrets, and the time until which each former secret is accepted. If `given` is used, there are no
        such times, because given secrets don't expire.
    """
    if given is not None:
        return Secrets.parse(given.reveal()), ()
    kept = await store.setting(SECRET)
    if kept is None:
        kept = Secrets.generate().current
        await store.commit(PutSetting(SECRET, kept))
    return read_kept(kept, await store.setting(FORMER_SECRET) or "", now)


async def renew_webhook_secret(store: Store, until: int) -> None:
    """Store a new secret. The present secret is accepted until `until`.

    A second renewal keeps the former secrets, because the platform may still use one. A renewal never
    prolongs a former secret's time.
    """
    kept = await store.setting(SECRET)
    former = [] if kept is None else [(kept, until), *await _former_secrets(store)]
    await store.commit(
        PutSetting(SECRET, Secrets.generate().current),
        PutSetting(FORMER_SECRET, " ".join(f"{secret} {min(until, own)}" for secret, own in former)),
    )


async def _former_secrets(store: Store) -> list[tuple[str, int]]:
    return read_former(await store.setting(FORMER_SECRET) or "")


async def forget_former(secrets: Secrets, untils: Sequence[int], clock: WallClock) -> None:
    """Stop accepting each former secret when it expires, the oldest first."""
    for until in reversed(untils):
        # Sleep at most an hour at a time, since the computer's clock may be set.
        left = until - clock.now()
        while left > 0:
            await trio.sleep(min(left / 1_000, 3_600))
            left = until - clock.now()
        secrets.forget_oldest()
        _log.info("a former secret of the webhook is not accepted any more")
