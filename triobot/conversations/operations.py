"""The operations of a conversation, which the author's code performs through a chat's handle.

Each wait and each effect of an author's code is an operation of the conversation's run (`triobot.engine`).
The run gives the operation a structural id, records its outcome, and returns the recorded outcome on replay.
`Operations` adds the rules of a chat: which task may begin an operation, the order of sends in the chat, and
the answers to button presses. `Operations` connects a conversation with the actor that started it. An evicted
conversation keeps that actor, even if the chat has a new actor by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, final

import trio

from ..engine import Run
from ..engine.records import Id
from ..errors import (
    ConversationEndedError,
    ForbiddenError,
    ForeignTaskError,
    LocalProtocolError,
    UnreadableRecordError,
)
from ..seams.money import Captured
from ..seams.outbox import OnUnknown
from ..seams.writes import Write
from ..wire.events import Press
from ..wire.ids import MessageId
from ..wire.operations import AnswerCallback, Operation, repeatable
from .beginnings import Dry
from .charges.paid import Giving, paid_of, tell_of_second_gift
from .notices import Copy, Gift, Operated, Unassigned, is_changed
from .running.branches import OperationKind, fingerprint
from .running.failures import give_up, lost_in_flight
from .running.hooks import Hooked, begin
from .running.lines import calling_line
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .chat_actor import ChatActor
    from .conversation import Conversation

T = TypeVar("T")
Body: TypeAlias = Callable[[Id], Awaitable[T]]


@final
class Operations:
    """The operations that the author's code of one conversation can perform.

    Attributes:
        actor: the chat's actor that started the conversation.
        facts: the conversation's facts.
        kept: the chat's data.
        value: the start's value, as the author's code sees it.
        dry: parameters of a dry run; None in a normal run.
        behind: the actions of the asides for this conversation's payments; used to detect goods that are
            given twice.
        copies: mutable values that the code has read from the chat's data.
    """

    __slots__ = (
        "_press",
        "actor",
        "behind",
        "chat_id",
        "conversation",
        "copies",
        "dry",
        "facts",
        "kept",
        "services",
        "shared",
        "value",
    )

    def __init__(self, actor: ChatActor, conversation: Conversation, dry: Dry | None = None) -> None:
        self.actor, self.conversation, self.dry = actor, conversation, dry
        self.shared, self.services, self.kept = actor.shared, actor.services, actor.kept
        self.facts, self.chat_id = conversation.facts, actor.chat_id
        self.value = conversation.given
        self.behind: Mapping[str, Gift] = {}
        self.copies: Sequence[Copy] = ()
        self._press: Press[object] | None = None
        if isinstance(self.facts.event, Press):
            self.take_press(self.facts.event)

    def begin(self, run: Run, chat: object) -> Awaitable[object]:
        """Call the author's function inside of its hooks, and return the awaitable.

        Args:
            chat: the handle that the function gets.
        """
        facts, route, giving = self.facts, self.facts.route, None
        if isinstance(self.value, Captured):
            awaited = partial(self.actor.running.awaiting, self.value.id)
            giving = self.conversation.giving = Giving(self.shared, facts, self.value, awaited)
            with self.reading():
                self.value = paid_of(self.value)
        if route.hooks:
            ended = giving and giving.handled
            return Hooked(run, route, chat, facts.args, self.check_task, ended).call()
        return begin(route, chat, facts.args)

    # --- the run

    @property
    def run(self) -> Run:
        """The conversation's run, through which all operations go.

        Raises:
            ConversationEndedError: the conversation is over.
        """
        if self.conversation.run is None:
            raise ConversationEndedError(f"this conversation is over ({calling_line()})")
        return self.conversation.run

    @property
    def ahead(self) -> EarlyEvent | None:
        """An event that was taken before it was stored, and may still be refused by the store; or None.

        While there is such an event, no effect may store anything in a transaction of its own.
        """
        writer = self.conversation.writer
        return None if writer is None else writer.ahead

    async def done(self, own: Id, kind: OperationKind) -> Sequence[Write]:
        """Return the writes that record an operation as done.

        The transaction that does the operation's work must store these writes.
        """
        # One transaction stores both the record and the work. Otherwise, after a crash between the two, a
        # restart would run the operation again, although its work is done.
        writer = self.conversation.writer
        if writer is None or writer.over or self.conversation.dead:
            return ()
        writer.flush(begin=True)
        await self.shared.commits.wait_for(writer.written)
        return (writer.unit.result(own, kind.value, True),)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Park the conversation if the block meets a record that this program can't read."""
        try:
            yield
        except UnreadableRecordError as error:
            give_up(self.run, error.what)
            raise

    # --- entering operations

    def enter(self, kind: OperationKind) -> Id:
        """Check that the current task may begin an operation, and return the operation's id.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task doesn't belong to this conversation, or runs a step.
        """
        id = self.check_task()
        if (notice := self.services.notice) is not None and not self.conversation.replaying:
            notice(Operated(self.run.main.count))
        if self._press is not None and kind not in (OperationKind.ANSWER, OperationKind.SCOPE):
            press, self._press = self._press, None
            if not self.conversation.replaying:
                self.services.outbox.press_due(press)
        if self.dry is not None:
            self.dry.look.begins(id, kind)
        return id

    def check_task(self) -> Id:
        """Return the id of the current task's next operation. Raises: as `enter`."""
        try:
            if (run := self.conversation.run) is not None:
                return run.upcoming()
        except ForeignTaskError as error:
            where = "from a task that the conversation doesn't know; start it with chat.open_nursery()"
            if "inside an effect" in str(error):
                where = "inside a step; return a value instead"
            raise ForeignTaskError(f"{calling_line()}: a chat operation {where}") from None
        except ConversationEndedError:
            pass
        raise ConversationEndedError(f"{calling_line()}: this conversation is over")

    def checked_run(self) -> Run:
        """Return the run, for a use that is not an operation. Raises: as `enter`."""
        self.check_task()
        return self.run

    # --- beside operations

    def also(self, key: str, writes: Sequence[Write]) -> bool:
        """Store `writes` together with a record. On replay, writes that have a record aren't stored again.

        Args:
            key: name that distinguishes the writes from the turn's other writes.

        Returns:
            Whether the writes are passed to the store now.
        """
        return bool(writes) and self.run.also(key, writes)

    def gives(self, what: str, args: Sequence[object] = ()) -> None:
        """Record an action that may give paid goods; used to detect goods that are not given, or given twice.

        Args:
            what: a description that is the same each time; "" if the action can't be distinguished from other
                actions.
            args: the action's arguments.
        """
        if self.conversation.giving is not None:
            self.conversation.giving.gives(what, args)
        elif self.behind and not self.conversation.replaying:
            tell_of_second_gift(self.services, self.facts.route, self.chat_id, self.behind, what, args)

    def report_copies(self) -> None:
        """Report values from the chat's data that the code has changed, but not assigned again."""
        copies, self.copies = self.copies, ()
        for copy in copies:
            if self.services.notice is not None and is_changed(copy):
                self.services.notice(Unassigned(copy))

    # --- operations

    def touch(self, message_id: MessageId) -> None:
        """Cancel pending cleanup of a message, because the next operation replaces the message."""
        self.shared.cleanup.touch(
            self.chat_id, message_id, lambda: self.run.journal.is_recorded(self.check_task())
        )

    async def perform(
        self,
        operation: Operation[T],
        *,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        unless: Callable[[], Awaitable[bool]] | None = None,
    ) -> T:
        """Perform an operation of the platform, in order with the chat's other operations.

        Args:
            unless: called just before the operation is sent; if it returns True, nothing is sent, and the
                result is None.
        """
        own, conversation = self.enter(OperationKind.SEND), self.conversation
        if conversation.giving is not None and not isinstance(getattr(operation, "content", ""), str):
            # A file may be the paid goods.
            self.gives("")
        if self.dry is not None:
            self.dry.look.sends(own, operation)
        if conversation.replay is not None and conversation.replay.changed is not None:
            conversation.replay.changed.sends(own, operation)

        async def body() -> T:
            recorded = None if repeatable(operation) else trio.Event()
            try:
                if unless is not None and await unless():
                    return cast("T", None)
                return await self.services.outbox.perform(operation, on_unknown=on_unknown, recorded=recorded)
            finally:
                if recorded is not None:
                    self.shared.commits.when_written(recorded.set)

        chat_id = getattr(operation, "chat_id", None)
        try:
            sent: T = await self.run.effect(
                f"send {operation.path}",
                body,
                print=fingerprint(operation),
                lane=str(chat_id),
                in_doubt=lost_in_flight(operation) if on_unknown is OnUnknown.RAISE else None,
                beneath=2,
            )
        except ForbiddenError:  # raised by the platform or by a replay
            conversation.refused = conversation.refused or chat_id == self.chat_id
            raise
        return sent

    def typing(self) -> AbstractContextManager[None]:
        """Show the typing indicator while the block runs.

        Entering and leaving the block are no checkpoints, in a live run and on replay.
        """
        self.enter(OperationKind.TYPING)
        return nullcontext() if self.conversation.replaying else self.services.outbox.typing(self.chat_id)

    def take_press(self, press: Press[object]) -> None:
        """Remember a press: until the next operation, the author's code may answer it."""
        self._press = press
        if not self.conversation.replaying:
            self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press. Return False if no press is left to answer."""
        own = self.enter(OperationKind.ANSWER)
        press, self._press = self._press, None
        if self.dry is not None and press is not None:
            with suppress(LocalProtocolError):  # `effect` raises the recorded error
                self.dry.look.sends(own, AnswerCallback(press.chat_id, press.callback_id, text, alert))

        async def body() -> bool:
            if press is None:
                await trio.lowlevel.checkpoint()
                return False
            return await self.services.outbox.answer(press, text, alert=alert)

        return cast("bool", await self.run.effect("answer", body))

    def effect(
        self, kind: OperationKind, body: Body[T], *, holds: int = 0, inside: bool = False
    ) -> Awaitable[T]:
        """Run `body` at least once, and never again once its outcome is recorded.

        The caller must await the result at once.

        Args:
            body: gets the operation's id.
            holds: milliseconds for which deadlines around the effect wait for the effect.
            inside: whether `body` changes only the store. If so, `body` need not wait until earlier records
                are durable.
        """
        own = self.enter(kind)
        return self.run.effect(kind.value, body, own, holds=holds, inside=inside)
