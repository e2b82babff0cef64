"""The answers to presses: one a press, by the author, or by itself when the author says nothing in time.

Presses are answered on a path of their own with a few requests at a time, so an answer never waits behind
the messages of its chat. An answer is worth nothing when late: none is tried again, and when more than a
bound wait, the oldest that no task waits for is given up. What fails is counted and logged, never raised.
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
    """The constants of answers.

    Attributes:
        after: seconds after which a press that a conversation took is answered without a word.
        remembered: how many presses are remembered as taken, and how many as answered.
        waiting: how many answers that no task waits for may wait to be sent.
        parallel: how many are sent at a time.
        within: seconds after which one that the platform doesn't answer is given up, so that chats whose
            requests it never answers don't keep the others waiting. It is worth nothing by then.
    """

    after: float = 1.0
    remembered: int = 10_000
    waiting: int = 1_000
    parallel: int = 32
    within: float = 10.0


@final
class Presses:
    """Which presses are taken, which are answered. Pure. Both memories are bounded, the oldest go first."""

    def __init__(self, rules: AnswerRules | None = None) -> None:
        self._rules = rules or AnswerRules()
        self._taken: OrderedDict[CallbackId, tuple[ChatId, float]] = OrderedDict()
        self._answered: OrderedDict[CallbackId, None] = OrderedDict()

    def take(self, chat: ChatId, callback_id: CallbackId, now: float) -> None:
        """Remember a press that a conversation took; it is due after `AnswerRules.after`."""
        if callback_id not in self._answered and callback_id not in self._taken:
            self._taken[callback_id] = (chat, now + self._rules.after)

    def settle(self, callback_id: CallbackId) -> bool:
        """Claim the right to answer a press; False if it has been answered."""
        if callback_id in self._answered:
            return False
        self._taken.pop(callback_id, None)
        self._answered[callback_id] = None
        if len(self._answered) > self._rules.remembered:
            self._answered.popitem(last=False)
        return True

    def reopen(self, callback_id: CallbackId) -> None:
        """Give back an unused claim, so that the press can be settled again."""
        self._answered.pop(callback_id, None)

    def due(self, now: float) -> list[tuple[ChatId, CallbackId]]:
        """Return the presses to be answered without a word now; the caller settles each.

        Those are the ones that are due, and the oldest when more are taken than are remembered.
        """
        excess = len(self._taken) - self._rules.remembered
        due: list[tuple[ChatId, CallbackId]] = []
        for callback_id, (chat, due_at) in self._taken.items():
            if due_at > now and len(due) >= excess:
                break
            due.append((chat, callback_id))
        return due

    def look_again(self) -> float:
        """Return when the next press is due: `NEVER` if none is taken, `-NEVER` if too many are."""
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
    """The path of answers: a few senders, the author's words before the empty ones.

    Args:
        perform: sends one answer; its errors end here.
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
        """Return whether nothing waits or is in flight."""
        return not self._senders and not self._authors and not self._silent

    def look_again(self) -> float:
        """Return when `answer_due` has something to do."""
        return self._presses.look_again()

    def take(self, chat: ChatId, callback_id: CallbackId, now: float) -> None:
        """Remember a press that a conversation took, for `answer_due`."""
        self._presses.take(chat, callback_id, now)

    def answer_due(self, now: float) -> None:
        """Answer without a word what has waited long enough."""
        for chat, callback_id in self._presses.due(now):
            self.answer_soon(chat, callback_id, "")

    def answer_soon(self, chat: ChatId, callback_id: CallbackId, text: str) -> None:
        """Answer a press, unless it has been answered, and don't wait for it."""
        if not self._presses.settle(callback_id):
            return
        self._silent.append(_Pending(AnswerCallback(chat, callback_id, text)))
        if len(self._silent) > self._rules.waiting:
            self._silent.popleft()
            self.failed += 1
        self._send()

    async def answer(self, chat: ChatId, callback_id: CallbackId, text: str, *, alert: bool) -> bool:
        """Answer a press with the author's words, and wait until they are out or have failed.

        Returns:
            False if the press had been answered.

        Cancellation: *atomic* while it waits for its turn: the press is then answered without a word.
        *Ambiguous* later: the request goes on.
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
        """Give up whatever still waits."""
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
