"""The operations of a conversation: what its author's code does through a chat's handle.

Each wait and each effect of an author's code is an operation of the conversation's run (`triobot.engine`).
The run gives the operation a structural id, records its outcome, and returns the recorded outcome on replay.
`Operations` adds the chat's part: which task may begin an operation, the order of sends in the chat, and the
answers to button presses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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
from ..seams.outbox import OnUnknown
from ..seams.writes import Write
from ..wire.events import Press
from ..wire.ids import ChatId, MessageId
from ..wire.operations import AnswerCallback, Operation, repeatable
from .beginnings import Dry
from .charges.paid import Giving, tell_of_second_gift
from .data import Kept, words_for
from .notices import Copy, Gift, Unassigned, is_changed
from .revival.changed import Changed
from .routes.declarations import Route
from .running.branches import OperationKind, fingerprint
from .running.failures import lost_in_flight
from .running.lines import calling_line
from .texts import Texts

if TYPE_CHECKING:
    from .shared import Shared

T = TypeVar("T")
Body: TypeAlias = Callable[[Id], Awaitable[T]]


@final
class Operations:
    """The operations that the author's code of one conversation can perform.

    Attributes:
        made_run: the conversation's run; None until the run is made, and after the conversation's end.
        kept: the chat's data.
        dry: parameters of a dry run; None in a normal run.
        changed: comparison of the journal with changed code; None if the code is the same, or the replay is
            over.
        giving: delivery of a payment's goods, if the conversation is the aside for a payment and has begun;
            else None.
        behind: the actions of the asides for this conversation's payments; used to detect a second delivery.
        refused: whether the platform refused an operation in the conversation's own chat, as when the user
            has left.
        copies: mutable values that the code has read from the chat's data.
    """

    __slots__ = (
        "_press",
        "behind",
        "changed",
        "chat_id",
        "copies",
        "dry",
        "giving",
        "kept",
        "made_run",
        "refused",
        "route",
        "services",
        "shared",
    )

    def __init__(self, shared: Shared, route: Route, chat_id: ChatId, kept: Kept) -> None:
        self.shared, self.services = shared, shared.services
        self.route, self.chat_id, self.kept = route, chat_id, kept
        self.made_run: Run | None = None
        self.dry: Dry | None = None
        self.changed: Changed | None = None
        self.giving: Giving | None = None
        self.behind: Mapping[str, Gift] = {}
        self.refused = False
        self.copies: Sequence[Copy] = ()
        self._press: Press[object] | None = None

    # --- the run

    @property
    def run(self) -> Run:
        """The conversation's run, through which all operations go.

        Raises:
            ConversationEndedError: the run isn't made yet, or the conversation is over.
        """
        if self.made_run is None:
            raise ConversationEndedError(f"this conversation is over ({calling_line()})")
        return self.made_run

    @property
    def dead(self) -> bool:
        """Whether the run can't do anything any more: it isn't made, has ended, or is being evicted."""
        run = self.made_run
        return run is None or run.over or run.dying

    @property
    def replaying(self) -> bool:
        """Whether the code that runs now has run before, so that side effects must not be repeated."""
        run = self.made_run
        return run is not None and (run.journal.dry or not run.journal.live)

    def give_up(self, what: str) -> None:
        """Stop the run here as stuck, with `what` as the reason."""
        run = self.run
        run.diverge(run.main.turn, what, run.tasks.get(""))

    @contextmanager
    def reading(self) -> Generator[None]:
        """Park the conversation if the block meets a record that this program can't read."""
        try:
            yield
        except UnreadableRecordError as error:
            self.give_up(error.what)
            raise

    # --- entering operations

    def enter(self, kind: OperationKind) -> Id:
        """Check that the current task may begin an operation, and return the operation's id.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task doesn't belong to this conversation, or runs a step.
        """
        id = self.check_task()
        if self._press is not None and kind not in (OperationKind.ANSWER, OperationKind.SCOPE):
            press, self._press = self._press, None
            if not self.replaying:
                self.services.outbox.press_due(press)
        if self.dry is not None:
            self.dry.look.begins(id, kind)
        return id

    def check_task(self) -> Id:
        """Return the id of the current task's next operation. Raises: as `enter`."""
        try:
            if self.made_run is not None:
                return self.made_run.upcoming()
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
        """Store `writes` together with a record, only once for each `key` in a turn.

        Returns:
            False if the writes are stored already, as on replay.
        """
        return bool(writes) and self.run.also(key, writes)

    def gives(self, what: str, args: Sequence[object] = ()) -> None:
        """Record an action that may deliver paid goods; used to detect missing and double deliveries.

        Args:
            what: a description that is the same each time; "" if the action can't be distinguished from other
                actions.
            args: the action's arguments.
        """
        if self.giving is not None:
            self.giving.gives(what, args)
        elif self.behind and not self.replaying:
            tell_of_second_gift(self.services, self.route, self.chat_id, self.behind, what, args)

    @property
    def texts(self) -> Texts:
        """The runtime's own messages, as chosen for this chat."""
        texts, run = self.services.texts, self.made_run
        if isinstance(texts, Texts):
            return texts
        return self.kept.texts if run is None or run.main.task is None else words_for(texts, run.read)

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
        """Perform a platform operation in the chat's order.

        Args:
            unless: called just before the operation is sent; if it returns True, nothing is sent, and the
                result is None.
        """
        own = self.enter(OperationKind.SEND)
        if self.giving is not None and not isinstance(getattr(operation, "content", ""), str):
            # A file may be the paid goods.
            self.gives("")
        if self.dry is not None:
            self.dry.look.sends(own, operation)
        if self.changed is not None:
            self.changed.sends(own, operation)

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
        except ForbiddenError:  # from the platform, or from a replayed record
            self.refused = self.refused or chat_id == self.chat_id
            raise
        return sent

    def typing(self) -> AbstractContextManager[None]:
        """Show the typing indicator while the block runs.

        The start and end of the block are no checkpoints, because a replay has no checkpoints there.
        """
        self.enter(OperationKind.TYPING)
        return nullcontext() if self.replaying else self.services.outbox.typing(self.chat_id)

    def take_press(self, press: Press[object]) -> None:
        """Remember a press: until the next operation, the author's code may answer it."""
        self._press = press
        if not self.replaying:
            self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press. Return False if there is no press to answer."""
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
        """Run `body` at least once, and never again once its outcome is recorded. Await the result at once.

        Args:
            body: gets the operation's id.
            holds: milliseconds for which deadlines around the effect wait for the effect.
            inside: whether `body` changes only the store. If so, `body` need not wait until earlier records
                are durable.
        """
        own = self.enter(kind)
        return self.run.effect(kind.value, body, own, holds=holds, inside=inside)
