"""The control API's routes that concern the platform as a whole; their keys are in `control`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar, cast, final

import attrs
import trio

from ..wire.ids import ChatId, SenderId
from ..wire.rules import JsonValue
from . import acts
from .asked import Asked, BadAskError, Given, as_number
from .bot_process import BotProcess
from .chats import HISTORY
from .exchange import Exchange
from .faults import EventFault, Fault
from .page.follower import NEWEST, NEWEST_CALLS, view_history
from .page.script import write_test
from .people import ImpossibleActError
from .skipping import skip
from .traffic import view_calls
from .views import JsonObject, view_bill, view_user

SettingsT = TypeVar("SettingsT")

_MOST_CALLS: Final = 1_000
_NOT_OURS: Final = "the bot's process isn't ours: only `triobot dev` starts one"


@final
class PlatformControl:
    """What concerns the platform as a whole."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._world = exchange.world
        self._skipping = trio.Lock()

    def changes(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {
            "users": self._make_user,
            "groups": self._make_group,
            "faults": self._plan_fault,
            "faults/clear": self._clear_faults,
            "outage": self._outage,
            "clock": self._clock,
            "switches": self._switches,
            "forget-uploads": self._forget_uploads,
            "bot/kill": lambda asked: self._do_to_bot(lambda bot: bot.kill(), asked),
            "bot/restart": lambda asked: self._do_to_bot(lambda bot: bot.restart(), asked),
        }

    def looks(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {
            "users": lambda asked: [view_user(user) for user in self._world.people],
            "payments": self._payments,
            "faults": lambda asked: [_plain(fault) for fault in self._exchange.plan.pending()],
            "requests": lambda asked: [_plain(entry) for entry in self._exchange.requests],
            "calls": self._calls,
            "history": self._history,
            "script": self._script,
            "bot": self._bot,
            "bot/journal": self._journal,
            "deliveries": lambda asked: [_plain(entry) for entry in self._exchange.pusher.deliveries],
        }

    def _make_user(self, asked: Asked) -> JsonValue:
        asked.only(("name", "username", "phone", "wallet"))
        wallet = asked.inner("wallet")
        wallet.only(("IRR", "coin"))
        user = self._world.add_user(
            asked.text("name"),
            username=asked.optional_text("username"),
            phone=asked.optional_text("phone"),
            irr=wallet.integer("IRR", 0),
            coin=wallet.integer("coin", 0),
        )
        return view_user(user)

    def _make_group(self, asked: Asked) -> JsonValue:
        asked.only(("name", "members"))
        members = [self._world.people.get(SenderId(member)) for member in asked.integers("members")]
        self._exchange.pusher.check_room()
        chat = self._world.add_group(asked.text("name"))
        for user in members:
            self._exchange.act(partial(acts.join, self._world, user, chat=chat.id))
        return {"chat_id": chat.id, "name": chat.name, "seq": self._world.seq}

    def _payments(self, asked: Asked) -> JsonValue:
        now = self._exchange.clock.now()
        self._world.catch_up(now)
        return [view_bill(bill, now) for bill in self._world.till]

    def _plan_fault(self, asked: Asked) -> JsonValue:
        given = asked.values()
        try:
            if "type" in given:
                self._exchange.plan.add(_settings(EventFault, given))
            else:
                self._exchange.plan.add(_settings(Fault, given))
        except ValueError as error:
            raise BadAskError(str(error)) from None
        return {}

    def _clear_faults(self, asked: Asked) -> JsonValue:
        self._exchange.plan.clear()
        return {}

    def _outage(self, asked: Asked) -> JsonValue:
        asked.only(("seconds",))
        self._exchange.outage.begin(asked.seconds("seconds"))
        return {}

    async def _clock(self, asked: Asked) -> JsonValue:
        asked.only(("seconds",))
        exchange, milliseconds = self._exchange, round(asked.seconds("seconds") * 1_000)
        async with self._skipping:  # whoever asks twice gets both, one after the other
            if exchange.bot is None:
                exchange.pass_time(milliseconds)
            else:
                await skip(milliseconds, there=exchange.bot.pass_time, here=exchange.pass_time)
        return {"now": exchange.clock.now()}

    def _switches(self, asked: Asked) -> JsonValue:
        given = _plain(self._world.switches)
        asked.only(given.keys())
        self._world.switches = _settings(type(self._world.switches), {**given, **asked.values()})
        return _plain(self._world.switches)

    def _calls(self, asked: Asked) -> JsonValue:
        asked.only(("before", "count"))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        count = min(max(given.get("count", NEWEST_CALLS), 1), _MOST_CALLS)
        traffic = self._exchange.traffic
        return view_calls(traffic.newest(count, before=given.get("before")), traffic)

    def _history(self, asked: Asked) -> JsonValue:
        asked.only(("chat", "before", "count"))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        chat = self._world.chat(ChatId(given.get("chat", 0)))
        return view_history(chat, given.get("before"), min(max(given.get("count", NEWEST), 1), HISTORY))

    def _script(self, asked: Asked) -> JsonValue:
        asked.only(("chat",))
        chat = self._world.chat(ChatId(as_number("chat", asked.values().get("chat"))))
        target = str(self._exchange.bot.view()["target"]) if self._exchange.bot is not None else ""
        return {"text": write_test(self._world, list(self._exchange.diary), chat, target)}

    def _bot(self, asked: Asked) -> JsonValue:
        return self._exchange.bot.view() if self._exchange.bot is not None else None

    async def _journal(self, asked: Asked) -> JsonValue:
        asked.only(("conversation",))
        number = as_number("conversation", asked.values().get("conversation"))
        if self._exchange.bot is None:
            raise ImpossibleActError(_NOT_OURS)
        return list[JsonValue](await self._exchange.bot.journal(number))

    def _do_to_bot(self, what: Callable[[BotProcess], None], asked: Asked) -> JsonValue:
        asked.only(())
        if self._exchange.bot is None:
            raise ImpossibleActError(_NOT_OURS)
        what(self._exchange.bot)
        return {}

    def _forget_uploads(self, asked: Asked) -> JsonValue:
        self._world.uploads.forget()
        return {}


def _plain(value: attrs.AttrsInstance) -> JsonObject:
    return cast("JsonObject", attrs.asdict(value))


def _settings(kind: Callable[..., SettingsT], given: Mapping[str, object]) -> SettingsT:
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        # attrs names the argument; its validators name the rule.
        raise BadAskError(str(error.args[0])) from None
