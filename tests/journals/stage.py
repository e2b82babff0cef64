"""Runs a bot's process for the corpus, without chance: random draws are the same in every run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import httpx
import trio

from triobot import Bot
from triobot.base.alarm_kinds import Alarm
from triobot.conversations import blocks as blocks_module
from triobot.conversations import conversation as conversation_module
from triobot.conversations import early as early_module
from triobot.conversations.revival import stored as stored_module
from triobot.conversations.routes.router import table_of
from triobot.payments.cashier import Cashier
from triobot.runtime.settings import Settings
from triobot.seams.money import Charge
from triobot.store.memory import MemoryRows
from triobot.testing.process import DrivenProcess
from triobot.testing.virtual import VirtualWallClock
from triobot.wire.ids import RefId, as_ref_id

from .corpus import BEGAN

AUTHORITY = "127.0.0.1:9"
TOKEN = "token-of-the-recorded-bot"


def new_process(
    nursery: trio.Nursery,
    bot: Bot,
    rows: MemoryRows,
    transport: httpx.AsyncBaseTransport,
    alarms: list[Alarm],
    *,
    at: int = 0,
) -> DrivenProcess:
    """Make a bot's process, which begins so many milliseconds after the start."""
    return DrivenProcess(
        nursery,
        bot,
        None,
        settings=Settings(
            token=TOKEN,
            base_url=f"http://{AUTHORITY}",
            webhook_secret="secret-of-the-recorded-bot",
            store="memory:",
            # Ended conversations are kept, so that their last records can be read.
            keep_ended=1,
        ),
        clock=VirtualWallClock(BEGAN + at),
        transport=transport,
        rows=rows,
        on_alarm=alarms.append,
        on_failure=lambda *_: None,
        provided=(),
        replays=None,
    )


_table_of = cache(table_of)


def failures(alarms: Sequence[Alarm]) -> Sequence[Alarm]:
    """Return the alarms that tell of the bot; the ledger has its own."""
    return [alarm for alarm in alarms if alarm.kind.startswith(("conversation_", "replay_"))]


@contextmanager
def no_chance(seed: int = 0) -> Generator[None]:
    """Have a run draw by its route and its chat, and a payment's number be of its chat and its operation."""
    began = stored_module.open_run

    def open_run(route: Any, opening: Any, *given: Any, **more: Any) -> Any:
        drawn = bytes.fromhex(_digest(route.name, opening.event.chat_id))
        with patch.object(stored_module.os, "urandom", lambda _: drawn):
            return began(route, opening, *given, **more)

    counted = Cashier.number

    def number(self: Cashier, charge: Charge) -> RefId:
        counted(self, charge)
        owner = (charge.owner or "").partition("/")[2]
        drawn = int(_digest(charge.chat_id, charge.amount, owner), 16)
        return as_ref_id(str(10**15 + drawn % (8 * 10**15)))

    with ExitStack() as patched:
        for module in (early_module, conversation_module, blocks_module):
            patched.enter_context(patch.object(module, "open_run", open_run))
        patched.enter_context(patch.object(Cashier, "number", number))
        # The table is always the same, and takes longer to build than the rest of a start.
        patched.enter_context(patch("triobot.runtime.bot.table_of", _table_of))
        # The seed fixes the order in which Trio runs ready tasks.
        patched.enter_context(patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True))
        patched.enter_context(patch("trio._core._run._r", random.Random(seed)))
        yield


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
