"""Answers to button presses: each press gets one answer.

The outbox sends an empty answer if the author sends no answer in time. Answers have senders of their own, so
an answer never waits for earlier messages of its chat. A late answer is useless, so answers are never
retried. When too many answers are queued, the oldest answer that no task awaits is discarded. Failures are
counted and logged, never raised.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import outcome
import trio

from ..base.frozen import guarded
from ..wire.ids import CallbackId, ChatId
from ..wire.operations import AnswerCallback

NEVER: Final = float("inf")

_log = logging.getLogger("triobot.outbox")


@final
@guarded
class AnswerRules:
    """Limits and delays of answers.

    Attributes:
        after: delay of the empty answer, in seconds after a conversation took the press.
        remembered: largest number of taken presses, and of answered presses, in memory.
        waiting: largest number of queued answers that no task awaits.
        parallel: answers in flight at a time.
        within: seconds after which an unanswered request fails. Without the limit, requests that the platform
            never answers would delay the answers in other chats. An answer after this time is useless anyway.
    """

    after: float = 1.0
    remembered: int = 10_000
    waiting: int = 1_000
    parallel: int = 32
    within: float = 10.0


@final
class Presses:
    """The presses that conversations took, and the answered presses.

    Both collections are bounded: the oldest entries are dropped. Pure.
    """

    def __init__(self, rules: AnswerRules | None = None) -> None:
        self._rules = rules or AnswerRules()
        self._taken: OrderedDict[CallbackId, tuple[ChatId, float]] = OrderedDict()
        self._answered: OrderedDict[CallbackId, None] = OrderedDict()

    def take(self, chat: ChatId, callback_id: CallbackId, now: float) -> None:
        """Remember a press that a conversation took; an empty answer is due after `AnswerRules.after`."""
        if callback_id not in self._answered and callback_id not in self._taken:
            self._taken[callback_id] = (chat, now + self._rules.after)

    def settle(self, callback_id: CallbackId) -> bool:
        """Remember that a press is answered; return False if the press was already answered."""
        if callback_id in self._answered:
            return False
        self._taken.pop(callback_id, None)
        self._answered[callback_id] = None
        if len(self._answered) > self._rules.remembered:
            self._answered.popitem(last=False)
        return True

    def reopen(self, callback_id: CallbackId) -> None:
        """Forget that a press was answered, because its answer was never sent."""
        self._answered.pop(callback_id, None)

    def due(self, now: float) -> list[tuple[ChatId, CallbackId]]:
        """Return the presses that need an empty answer now; the caller calls `settle` for each press.

        The result contains the presses that are past their delay. Of more than `remembered` taken presses,
        the result also contains the oldest, so that `remembered` are left.
        """
        excess = len(self._taken) - self._rules.remembered
        due: list[tuple[ChatId, CallbackId]] = []
        for callback_id, (chat, due_at) in self._taken.items():
            if due_at > now and len(due) >= excess:
                break
            due.append((chat, callback_id))
        return due

    def look_again(self) -> float:
        """Return when the next taken press needs an empty answer; `-NEVER` (at once) if more than
        `remembered` presses are taken.

        The result is `NEVER` if no press is taken.
        """
        if len(self._taken) > self._rules.remembered:
            return -NEVER
        return next((due_at for _, due_at in self._taken.values()), NEVER)


@final
@attrs.define(eq=False)
class _Pending:
    operation: AnswerCallback
    task: trio.lowlevel.Task | None = None


@final
class Answers:
    """The answers' queue and senders. Answers that a task awaits are sent before all other answers.

    Args:
        perform: sends one answer; `Answers` logs and counts its errors.
        start: starts a sender in the outbox's nursery.
    """

    def __init__(
        self,
        perform: Callable[[AnswerCallback], Awaitable[None]],
        start: Callable[[Callable[[], Awaitable[None]]], None],
        rules: AnswerRules | None = None,
    ) -> None:
        self._perform = perform
        self._start = start
        self._rules = rules or AnswerRules()
        self._presses = Presses(self._rules)
        self._authors: OrderedDict[_Pending, None] = OrderedDict()
        self._silent: deque[_Pending] = deque()
        self._senders = 0
        self.sent = 0
        self.failed = 0

    @property
    def idle(self) -> bool:
        """Whether no answer is queued or in flight."""
        return not self._senders and not self._authors and not self._silent

    def look_again(self) -> float:
        """Return when `answer_due` must be called next, because a press will need an answer."""
        return self._presses.look_again()

    def take(self, chat: ChatId, callback_id: CallbackId, now: float) -> None:
        """Remember a press that a conversation took, for `answer_due`."""
        self._presses.take(chat, callback_id, now)

    def answer_due(self, now: float) -> None:
        """Queue an empty answer to each press that is past its delay."""
        for chat, callback_id in self._presses.due(now):
            self.answer_soon(chat, callback_id, "")

    def answer_soon(self, chat: ChatId, callback_id: CallbackId, text: str) -> None:
        """Queue an answer without waiting for the result; do nothing if the press was already answered."""
        if not self._presses.settle(callback_id):
            return
        self._silent.append(_Pending(AnswerCallback(chat, callback_id, text)))
        if len(self._silent) > self._rules.waiting:
            self._silent.popleft()
            self.failed += 1
        self._send()

    async def answer(self, chat: ChatId, callback_id: CallbackId, text: str, *, alert: bool) -> bool:
        """Answer a press with the author's text, and wait until the request has succeeded or failed.

        Returns:
            False if the press was already answered.

        Cancellation: *atomic* while the answer is queued: the press then gets an empty answer. *Ambiguous*
        once the request has started: the request continues.
        """
        operation = AnswerCallback(chat, callback_id, text, alert)
        if not self._presses.settle(callback_id):
            await trio.lowlevel.checkpoint()
            return False
        pending = _Pending(operation, trio.lowlevel.current_task())
        self._authors[pending] = None
        self._send()

        def abort(_: object) -> trio.lowlevel.Abort:
            pending.task = None
            if self._authors.pop(pending, pending) is None:
                self._presses.reopen(callback_id)
                self.answer_soon(chat, callback_id, "")
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return True

    def close(self) -> None:
        """Discard the queued answers, count each answer as failed, and wake the waiting tasks."""
        for pending in [*self._authors, *self._silent]:
            self._landed(pending, sent=False)
        self._authors.clear()
        self._silent.clear()

    def _send(self) -> None:
        if self._senders < self._rules.parallel:
            self._senders += 1
            self._start(self._sender)

    async def _sender(self) -> None:
        try:
            while (pending := self._next()) is not None:
                sent = False
                try:
                    await self._perform(pending.operation)
                    sent = True
                except Exception as error:
                    _log.info("an answer to a press failed: %s", type(error).__name__)
                finally:
                    self._landed(pending, sent=sent)
        finally:
            self._senders -= 1

    def _next(self) -> _Pending | None:
        if self._authors:
            return self._authors.popitem(last=False)[0]
        return self._silent.popleft() if self._silent else None

    def _landed(self, pending: _Pending, *, sent: bool) -> None:
        if sent:
            self.sent += 1
        else:
            self.failed += 1
        if pending.task is not None:
            trio.lowlevel.reschedule(pending.task, outcome.Value(None))
            pending.task = None
