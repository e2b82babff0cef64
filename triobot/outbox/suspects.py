"""Applies the breaker's decisions to the lanes and to the refused deliveries.

A delivery that got a 401 or 403 waits in its lane until the breaker decides between token and chat. After the
decision, the delivery is tried again, or its callers get the refusal. While the breaker holds everything,
only probes leave the lanes.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from typing import Final, final

import trio

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..errors import TriobotError
from .breaker import Breaker, BreakerRules, Held
from .delivery import Delivery
from .lanes import NEVER, Lanes
from .requests import Requests
from .retry import is_push_back, is_token_or_chat, is_unreadable

_HELD_TEXT: Final = (
    "The platform refuses what is sent with 403 and nothing succeeds: the token is probably not valid any "
    "more. Everything waits, nothing is lost; a probe goes out every {every:g} seconds. Check the token."
)
_DOUBT_TEXT: Final = (
    "A chat that worked minutes ago was refused with 403, and nothing has succeeded since: this person may "
    "have left, or the token is not valid any more. Sending waits until another chat tells which."
)

_log = logging.getLogger("triobot.outbox")


@final
class Suspects:
    """The breaker, and the deliveries that wait for its decision.

    Args:
        lanes: the lanes of the deliveries.
        requests: sends the breaker's token check.
        rules: the breaker's settings.
        raise_alarm: called when everything is held.

    Attributes:
        waiting: the suspended deliveries of each chat.
        reported: the last state `Held` that was logged or raised as an alarm; None: nothing is held.
    """

    def __init__(
        self, lanes: Lanes[Delivery], requests: Requests, rules: BreakerRules, raise_alarm: RaiseAlarm
    ) -> None:
        self.waiting: dict[Hashable, dict[Delivery, None]] = {}
        self.breaker = Breaker(rules)
        self._lanes = lanes
        self._requests = requests
        self._rules = rules
        self._raise_alarm = raise_alarm
        self.reported: Held | None = None

    # --- starting

    def take(self, now: float) -> Delivery | None:
        """Start the next delivery that may start; while everything is held, start a probe or nothing."""
        if self.breaker.held is None:
            return self._lanes.start(now)
        delivery: Delivery | None = None
        if self.breaker.may_probe(now):
            delivery = self._lanes.start_probe(now, untried_only=False)
        elif self.breaker.may_probe_untried():
            delivery = self._lanes.start_probe(now, untried_only=True)
        if delivery is not None:
            self.breaker.probe_started(now)
            delivery.probe = True
        return delivery

    def look_again(self, now: float) -> float:
        """Return when a delivery can next start, or the breaker can next decide, by time alone."""
        if self.breaker.is_untroubled():
            return self._lanes.look_again(now)
        breaker_at = self.breaker.look_again(now)
        if self.breaker.held is not None and breaker_at <= now:
            # A probe is allowed, but no delivery can be sent. Only a new delivery, the end of a request, or
            # the end of a lane's pause can change that.
            breaker_at = NEVER
        return min(self._lanes.look_again(now), breaker_at)

    # --- suspending

    def suspend(self, delivery: Delivery, refusal: Exception, now: float) -> None:
        """Keep a refused delivery in its lane until the breaker has decided."""
        delivery.refusal = refusal
        self.waiting.setdefault(delivery.chat, {})[delivery] = None
        self._lanes.suspend(delivery, now)

    def cleared(self, delivery: Delivery) -> None:
        """Remove a delivery from `waiting`, because the delivery is retried or withdrawn."""
        waiting = self.waiting.get(delivery.chat)
        if waiting is not None and waiting.pop(delivery, waiting) is None and not waiting:
            del self.waiting[delivery.chat]

    def left(self, chat: Hashable, now: float) -> None:
        """Register that the user left a chat, and retry the chat's suspended deliveries in payments' lanes.

        The caller drops the deliveries in the chat's own lanes.
        """
        self.breaker.left(chat)
        self._try_again((chat,), now)

    # --- the breaker's decisions

    def judge(self, now: float) -> list[Delivery]:
        """Withdraw and return the deliveries whose own chat is the cause of the refusal.

        The caller fails these deliveries.
        """
        chats = self.breaker.judge(now)
        judged = [delivery for chat in chats for delivery in self.waiting.pop(chat, {})]
        return [delivery for delivery in judged if self._lanes.withdraw(delivery, now)]

    def worked(self, chat: Hashable, began: float, now: float) -> None:
        """Register a success, and retry the refused deliveries that the breaker releases."""
        waiting = self.breaker.succeeded(chat, began, now)
        if waiting or self._lanes.held:
            self._try_again(waiting, now)
            self.tell()

    async def ask(self) -> None:
        """Send the breaker's token check: the answer's status shows whether the token is refused."""
        began, good, denied = trio.current_time(), True, False
        try:
            await self._requests.ask()
        except (TriobotError, OSError) as error:
            denied = is_token_or_chat(error)
            good = is_unreadable(error) or not (denied or is_push_back(error))
        finally:
            self.breaker.ask_ended(denied=denied)
        if good:
            now = trio.current_time()
            self._try_again(self.breaker.accepted(began, now), now)
        self.tell()

    def tell(self) -> None:
        """Hold or release the lanes as the breaker decides; raise an alarm for a hold, and log a release."""
        self._lanes.held = self.breaker.held is not None
        held = None if self.breaker.undecided else self.breaker.held
        was, self.reported = self.reported, held
        if held == was:
            return
        if held is None:
            _log.warning("the platform takes our requests again; what was held goes out")
        elif was is None or held.sure != was.sure:
            text = _HELD_TEXT.format(every=self._rules.probe_every) if held.sure else _DOUBT_TEXT
            self._raise_alarm(Alarm("token_refused" if held.sure else "outbox_held", "outbox", text))

    def _try_again(self, chats: Iterable[Hashable], now: float) -> None:
        for chat in chats:
            for delivery in self.waiting.pop(chat, {}):
                self._lanes.resume(delivery, now)
