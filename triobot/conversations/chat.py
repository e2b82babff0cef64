"""The author's handle on a chat: say, ask, wait, charge, and the time that things may take.

A chat is a room with a screen: `Room` has what needs none. Everything here belongs to one conversation and is
used by its own tasks only. Each method is one operation of the conversation; what it sends goes out in the
order in which it was awaited.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, tzinfo
from math import inf
from typing import Any, Generic, Literal, Never, NoReturn, cast, final, overload

from typing_extensions import TypeForm, TypeVar, TypeVarTuple

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from ..seams.outbox import OnUnknown
from ..seams.resources import Resource, find
from ..seams.rooms import SHARED, is_chat
from ..wire.content import Audio, Contact, Content, File, Image, Location, Video, Voice
from ..wire.events import Event, Sender
from ..wire.ids import ChatId, Recipient, SenderId, as_chat_id, as_recipient
from ..wire.operations import DeleteMessage, EditMessage, SendMessage
from ..wire.results import Sent
from .blocks import (
    ChatChannel,
    ChatEvent,
    ChatNursery,
    FailScope,
    Retry,
    Scope,
    check_sleep,
    continue_as,
    open_nursery,
    run_step,
    sleep,
    sleep_until,
    wall_time,
)
from .charges import charging
from .charges.charging import Late
from .charges.paid import Currency
from .chat_data import ChatData
from .conversation import Conversation
from .doors.broadcasts import Broadcast, RecordedAnnouncing
from .doors.calls import Signal, room_of
from .doors.refs import RecordedDoor, RoomRef, person_ref, place_ref, room_ref
from .questions import asking, boards
from .questions.asking import check_content, check_edit, check_sent, on_unknown_of
from .questions.boards import Board
from .questions.buttons import Buttons, Keyboard, inline_of, reply_of
from .questions.live import Live, open_live
from .routes.filters import Filter
from .routes.routing import OtherwisePolicy
from .running.lines import calling_line

E_co = TypeVar("E_co", covariant=True, default=object)
E = TypeVar("E")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
# What a call gives that says nothing of it.
A = TypeVar("A", default=str)
N = TypeVar("N", bound=Hashable, default=Never)
R = TypeVar("R", default=Never)
Shared = TypeVar("Shared", bound=Image | Video | Audio | Voice | File | Contact | Location)
Args = TypeVarTuple("Args")


class Room(Generic[E_co]):
    """A place, as the conversation that runs there sees it. `E_co` is what started that.

    A chat is one (`Chat`): a function that needs no screen takes a `Room`, and serves chats as well.
    """

    __slots__ = ("_conversation",)

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} of {self.route}>"

    @property
    def event(self) -> E_co:
        """Return what started this conversation, as its route's filter took it."""
        return cast("E_co", self._conversation.value)

    @property
    def key(self) -> str:
        """Return which room of its kind this is; of a chat its id, as text."""
        room = room_of(self._conversation.event)
        if room is not None:
            return room[1]
        place = self._conversation.life.chat_id
        return str(place) if is_chat(place) else ""

    @property
    def route(self) -> str:
        """Return the name of the route that runs here, as the store and the log have it."""
        return self._conversation.route.name

    @property
    def replaying(self) -> bool:
        """Return whether the code that runs now has run before, or will run again, since the chat lives on.

        It is true from the first line of a conversation that is brought back, until something happens that is
        new; and in the cleanup (``finally``) of one that is put away, at a stop or to make room. For what is
        to be said once beside the conversation, such as a line of a log or a metric. Never decide by it what
        the conversation does: with another operation, or without one, it fits its journal no more.
        Replay-check runs code again, too.

        Raises:
            ConversationEndedError: the conversation is over.

        Examples:
            >>> async def order(chat: Chat) -> None:
            ...     if not chat.replaying:
            ...         log.info("%s began in %s", chat.route, chat.key)
        """
        run = self._conversation.run
        return run.stale or run.dying

    @property
    def data(self) -> ChatData:
        """Return what the chat keeps beyond this conversation: ``chat.data[KEY]``, one value a `Key`.

        Reading and writing don't wait. Every conversation of the chat sees a write at once; it is durable
        when the event that caused it is dealt with: both or neither survive a crash.
        """
        return ChatData(self._conversation)

    def use(self, resource: Resource[T]) -> T:
        """Return what a resource of the bot has opened, such as a pool; hand it to steps.

        Raises:
            ConfigError: the bot doesn't declare it.
        """
        return find(self._conversation.services.resources, resource)

    # --- hear

    async def receive(self, taken: Filter[T], *, otherwise: OtherwisePolicy | None = None) -> T:
        """Wait for the next event that the filter takes; by default the rest is dropped."""
        return await asking.receive(self._conversation, taken, otherwise)

    def drain(self) -> Sequence[object]:
        """Take what is queued now, without waiting: what came before it was asked for, signals as values."""
        drained: list[object] = list(asking.drain(self._conversation))
        return [one.value if isinstance(one, Signal) else one for one in drained]

    # --- act

    async def step(
        self,
        fn: Callable[[*Args], Awaitable[T]],
        *args: *Args,
        raises: type[Exception] | tuple[type[Exception], ...] = (),
        retry: Retry | None = None,
    ) -> T:
        """Run a side effect, at least once; it gets arguments, returns a value, touches nothing else.

        In an aside for a payment the ledger is asked first, each time that the step is begun.

        Args:
            raises: errors that come back as themselves; all others come back as `StepError`.
            retry: how often it is tried again when it fails; the conversation sleeps between the tries.

        Raises:
            ConfigError: a `retry` in an aside for a payment, and no argument holds the payment's key: the
                other side could not tell the second try from a second sale.
            PaymentHandedOverError: in an aside for a payment: an operator, or another aside, has it by now;
                `fn` was not called.

        Cancellation: *ambiguous*: it may have reached the other side.
        """
        return await run_step(self._conversation, fn, args, raises, retry)

    @overload
    def to(self, place: int | str, /) -> ChatRef: ...
    @overload
    def to(self, place: Callable[[Room[Any]], Awaitable[None]], key: str | int = "", /) -> RoomRef: ...
    def to(
        self, place: int | str | Callable[[Room[Any]], Awaitable[None]], key: str | int = "", /
    ) -> ChatRef | RoomRef:
        """Return a reference to another place: each call to it is an operation of this conversation.

        Args:
            place: a chat's id, to send there, signal it, start and stop its routes, read what it keeps; or
                the function of a room (`Router.room`), to signal that and to change what it keeps.
            key: which room of this kind: a text of at most 128 characters, or a whole number. Without one,
                the only room of its kind.

        Raises:
            LocalProtocolError: this is no chat's id, phone number or group name.
            ConfigError: the function is no room's, or that is no key.
        """
        conversation = self._conversation
        if isinstance(place, int | str):
            return ChatRef(RecordedDoor(conversation), as_recipient(place))
        return room_ref(
            RecordedDoor(conversation), conversation.shared.table, place, key, f"{calling_line()}: to()"
        )

    def person(self, sender_id: SenderId) -> RoomRef:
        """Return what is kept of a person, over all chats. Each call is an operation of this conversation.

        Raises:
            LocalProtocolError: this is no person's id.

        Examples:
            >>> async def warn(chat: Chat, who: Sender) -> None:
            ...     warnings = await chat.person(who.id).update(WARNINGS, lambda old: old + 1)
            ...     await chat.send(f"That is warning {warnings}.")
        """
        return person_ref(RecordedDoor(self._conversation), sender_id)

    def place(self, name: str, key: str | int = "") -> RoomRef:
        """Return what is kept under a name of your choice, as of a day or a product; see `to` for `key`.

        Nothing runs there. Each call of it is an operation of this conversation. `triobot forget --room`
        deletes it, by its name and key.

        Examples:
            >>> async def book(chat: Chat, day: str, hour: int) -> None:
            ...     await chat.place("clinic", day).update(TAKEN, lambda taken: {hour: chat.id, **taken})
        """
        return place_ref(RecordedDoor(self._conversation), name, key, f"{calling_line()}: place()")

    @property
    def shared(self) -> RoomRef:
        """Return what is kept of the bot itself. Each call is an operation of this conversation.

        All that is written there goes through one place: what every event changes is better kept in rooms, of
        a group or a day.
        """
        return RoomRef(RecordedDoor(self._conversation), SHARED)

    def broadcast(self, key: str) -> Broadcast:
        """Prepare a message to many chats, by a key of your choice: start it, look at it, stop it.

        Each call is an operation of this conversation, and the key makes it start once, whatever crashes.

        Raises:
            LocalProtocolError: the key is empty, longer than 200 characters, or not printable.

        Examples:
            >>> async def announce(chat: Chat) -> None:
            ...     news = await chat.ask("What is new?")
            ...     await chat.broadcast(f"news {chat.uuid()}").start(news, SUBSCRIBED)
        """
        door, keeping = RecordedAnnouncing(self._conversation), self._conversation.shared.keeping
        return Broadcast(door, keeping, key)

    async def continue_as(self, fn: Callable[[Room[E_co]], Awaitable[None]]) -> NoReturn:
        """End here, and go on as another room's function, in the same place with the same event.

        For loops without an end: nothing of what was recorded so far is kept. The blocks around it are left
        as by a cancellation.

        Raises:
            ConfigError: `fn` is declared as no room, or as no route of a chat; or a nursery is open.
            UnrecordableError: `event` can't be recorded.
        """
        await continue_as(self._conversation, fn, ())

    # --- in the place of clocks and dice: none of it waits

    def now(self, tz: tzinfo = UTC) -> datetime:
        """Return when what this conversation waited for came. It stands still until the next operation."""
        self._conversation.check_task()
        return datetime.fromtimestamp(self._conversation.run.now() / 1000, tz)

    def random(self) -> random.Random:
        """Return dice that fall the same way after a restart; each call gives others. Not for secrets."""
        self._conversation.check_task()
        return self._conversation.run.random()

    def uuid(self) -> uuid.UUID:
        """Return a unique id; made before a step, it is the step's idempotency key."""
        self._conversation.check_task()
        return self._conversation.run.uuid()

    def patched(self, patch: str) -> bool:
        """Return whether to go the new way where code has changed: False for what went the old way before.

        A conversation that was there before keeps to the old way where it went it; all others are True from
        then on.

        Args:
            patch: a name for the change, once in the whole program.
        """
        self._conversation.check_task()
        return self._conversation.run.patched(patch)

    # --- shapes of the code: blocks that end by themselves, sleep, children

    def move_on_after(self, seconds: float) -> Scope[None]:
        """Return a block that ends by itself after `seconds`; see its `cancelled_caught`."""
        return Scope(self._conversation, seconds)

    def move_on_at(self, when: datetime) -> Scope[None]:
        """Return a block that ends by itself at `when`; at once if that is over.

        Args:
            when: a datetime with a time zone. A clock that is set counts, as it doesn't for `move_on_after`.

        Raises:
            LocalProtocolError: `when` has no time zone. Your program's fault.
        """
        return Scope(self._conversation, inf, at=wall_time(when))

    def move_on_when(self, taken: Filter[E]) -> Scope[E]:
        """Return a block that ends when something comes that the filter takes; see its `event`.

        Such an event goes to the block before interrupts and questions see it, whatever the conversation
        does meanwhile; of several open blocks the innermost that takes it ends. What is queued when the
        block begins may end it at once. A block that is on its way out takes nothing more. Its event is its
        own, even if it comes to its own end before it feels that.

        The block is cancelled at its next chat operation: a question ends with its buttons, a send that is
        queued is withdrawn. Verifying a payment is not cut short for some seconds.
        """
        return Scope(self._conversation, inf, until=taken)

    def fail_after(self, seconds: float) -> FailScope:
        """Return a block that raises `trio.TooSlowError` after `seconds`."""
        return FailScope(self._conversation, seconds)

    def cancel_scope(self) -> Scope[None]:
        """Return a block that only its own `cancel` ends."""
        return Scope(self._conversation, inf)

    def shield(self) -> Scope[None]:
        """Return a block that timeouts around it and interrupts wait for. Give it a timeout of its own."""
        return Scope(self._conversation, inf, shield=True)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`. The conversation is deaf meanwhile: what is sent waits in its mailbox."""
        await sleep(self._conversation, check_sleep(seconds))

    async def sleep_until(self, when: datetime) -> None:
        """Wait until `when`, a datetime with a time zone; return at once if that is over. Else as `sleep`.

        Raises:
            LocalProtocolError: `when` has no time zone. Your program's fault.
        """
        await sleep_until(self._conversation, wall_time(when))

    def open_nursery(self) -> AbstractAsyncContextManager[ChatNursery]:
        """Open a nursery of children that may use the chat; they end with the block."""
        return open_nursery(self._conversation)

    def open_event(self) -> ChatEvent:
        """Return an event, for one child to tell others of something; Trio's own would be lost on replay."""
        self._conversation.check_task()
        return ChatEvent(self._conversation.run)

    @overload
    def open_channel(self, kind: type[T], capacity: int = 0) -> ChatChannel[T]: ...
    @overload
    def open_channel(self, kind: TypeForm[T], capacity: int = 0) -> ChatChannel[T]: ...
    def open_channel(self, kind: object, capacity: int = 0) -> ChatChannel[Any]:
        """Return a channel from one child to another, for values in order; when it is full, `send` waits.

        Args:
            kind: of the values, for type checkers.
            capacity: how many values may wait to be received.
        """
        self._conversation.check_task()
        return ChatChannel(self._conversation.run, capacity)


@final
class Chat(Room[E_co]):
    """One chat, as one conversation sees it: a room with a screen. `E_co` is what started that."""

    @property
    def id(self) -> ChatId:
        """Return the chat's id."""
        return self._conversation.life.chat_id

    @property
    def sender(self) -> Sender | None:
        """Return who started this conversation; None if the platform doesn't tell."""
        return self._conversation.event.sender

    @property
    def interrupted(self) -> str | None:
        """Return the name of the conversation that this interrupt ended, or None."""
        return self._conversation.interrupted

    def drain(self) -> Sequence[Event]:
        """Take what is queued now, without waiting: what was typed before it was asked for. Signals stay."""
        return asking.drain(self._conversation)

    # --- say

    async def send(
        self,
        content: Content,
        *,
        buttons: Buttons[Any] | None = None,
        keyboard: Keyboard | None = None,
        on_unknown: Literal["resend", "raise"] = "resend",
    ) -> Sent:
        """Send text, media, a contact or a location; return once the platform has taken it.

        An answer of 200 says that it has, whatever else is in it; the message has no `Sent.id` then if none
        can be read.

        Sends of a chat arrive in the order in which they were awaited; of what two of its conversations had
        not sent before a restart, either may come first. A send whose answer was lost is repeated, unless
        `on_unknown` is ``"raise"``.

        Args:
            content: what to send; received content may be sent as it is, local files are uploaded first.
            buttons: an inline keyboard that lives as long as the message.
            keyboard: a reply keyboard under the text field.
            on_unknown: what to do when nobody knows whether it arrived.

        Raises:
            LocalProtocolError: the content can't be sent; nothing was. Your program's fault.
            BadRequestError: the platform refused it.
            ForbiddenError: the user has left or blocked the bot.
            DeliveryUnknownError: with ``on_unknown="raise"``: it may have arrived.

        Cancellation: *atomic* while it is queued, *ambiguous* once it is on its way.

        Platform: interface section 4.3.
        """
        check_content(content)
        reply = None if keyboard is None else reply_of(keyboard)
        inline = None if buttons is None else inline_of(buttons)
        operation = SendMessage(self.id, content, reply, inline)
        return await self._conversation.perform(operation, on_unknown=on_unknown_of(on_unknown))

    async def edit(
        self, sent: Sent, content: Content | None = None, *, buttons: Buttons[Any] | None = None
    ) -> None:
        """Replace a message of this chat; without `buttons` its buttons go.

        Args:
            content: None changes the buttons only, and ``buttons=Buttons({})`` takes them away. The interface
                does not say that the platform takes that: give the content where you have it.

        Raises: as `send`; and RemoteProtocolError: the platform named no id for this message.

        Platform: interface section 4.3; gap 7.
        """
        check_edit(sent, content, buttons)
        operation = EditMessage(sent.chat_id, sent.message_id, content, inline_of(buttons))
        if content is not None:
            self._conversation.touch(sent.message_id)
        await self._conversation.perform(operation)

    async def delete(self, sent: Sent) -> None:
        """Delete a message of this chat; deleting what is gone is no error.

        Raises: as `edit`.
        """
        check_sent(sent)
        self._conversation.touch(sent.message_id)
        await self._conversation.perform(DeleteMessage(sent.chat_id, sent.message_id))

    async def answer(self, text: str, *, alert: bool = False) -> bool:
        """Answer the newest press that this conversation took: a tooltip, or an alert.

        Returns: False if there is none, or it had been answered: that is done by itself after one second,
            or at the conversation's next operation.
        """
        if not isinstance(cast("object", text), str):
            raise LocalProtocolError("text", "must be text")
        return await self._conversation.answer(text, alert=alert)

    @asynccontextmanager
    async def typing(self) -> AsyncGenerator[None]:
        """Show that the bot is typing while the block runs."""
        with self._conversation.typing():
            yield

    def live(self, text: str, *, buttons: Buttons[Any] | None = None) -> AbstractAsyncContextManager[Live]:
        """Send a message that shows how something goes on while the block runs.

        `Live.show` doesn't wait, and may be called inside a step. At most one edit a second is sent, of
        the newest text; when the block ends, however it ends, the last text is shown and the buttons go. Of
        these edits only the last can fail the conversation, and not if the block was cut.

        Args:
            buttons: under the message until the block ends: to stop it, with `Buttons.pressed`.

        Raises: as `send`, for the message itself; as `edit`, at the block's end, for the last text.

        Examples:
            >>> async def convert(chat: Chat) -> None:
            ...     async with chat.live("0 %") as progress:
            ...         for done in range(0, 101, 10):
            ...             await chat.sleep(0.5)
            ...             progress.show(f"{done} %")
        """
        return open_live(self._conversation, text, buttons)

    # --- ask

    @overload
    async def ask(
        self,
        question: str,
        kind: type[Shared],
        *,
        keyboard: Keyboard | None = None,
        by: int | None = None,
        otherwise: OtherwisePolicy | None = None,
    ) -> Shared: ...
    @overload
    async def ask(
        self,
        question: str,
        kind: Callable[[str], A] = str,  # type: ignore[assignment]
        *,
        keyboard: Keyboard | None = None,
        by: int | None = None,
        otherwise: OtherwisePolicy | None = None,
    ) -> A: ...
    def ask(
        self,
        question: str,
        kind: Callable[[str], object] | type[object] = str,
        *,
        keyboard: Keyboard | None = None,
        by: int | None = None,
        otherwise: OtherwisePolicy | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Ask, and return what the user answers.

        Args:
            question: the text.
            kind: `str`; a content class such as `Location`; or a parser of text. What doesn't fit is asked
                for again: a `ValueError`, `ArithmeticError`, `LookupError`, `StopIteration` (of `next`),
                `SyntaxError`, `RecursionError` or `re.error` of the parser. Its words are told if a ``raise``
                in your own code has them, and else the bot's `Texts`. `int`, `float` and `Decimal` understand
                Persian digits and separators.
            keyboard: a reply keyboard.
            by: only this person's answer counts.
            otherwise: what becomes of what doesn't fit: a text to say, or an `Otherwise`. By default a hint
                in a private chat, and nothing in a group.

        Raises: as `send`, for the question itself.
        """
        # Not awaited here: each chat that waits would keep one more frame.
        return asking.ask(self._conversation, question, kind, keyboard, by, otherwise)

    async def choose(
        self,
        question: str,
        options: Mapping[K, str] | Buttons[K],
        *,
        also: Filter[R] | None = None,
        into: Sent | None = None,
        by: int | None = None,
        otherwise: OtherwisePolicy | None = None,
    ) -> K | R:
        """Ask with buttons, and return the key of the one that was pressed.

        The buttons are this question's only: an old keyboard can't answer it, a second click can't answer
        the next one, and they go when it ends.

        Args:
            options: labels by key, or `Buttons`.
            also: what else answers; returned as the filter takes it.
            into: a message of this chat that is to become the question, in place of a new message.
            by, otherwise: as for `ask`.

        Raises: as `send`, for the question itself.

        Examples:
            >>> async def pages(chat: Chat) -> None:
            ...     page, shown = 0, await chat.send("One moment.")
            ...     while page >= 0:
            ...         keys = {page - 1: "«", page + 1: "»"}
            ...         page = await chat.choose(f"Page {page}", keys, into=shown)
        """
        chosen = await boards.choose(self._conversation, question, options, also, into, by, otherwise)
        return cast("K | R", chosen)

    def board(
        self, *, into: Sent | None = None, by: int | None = None, otherwise: OtherwisePolicy | None = None
    ) -> Board:
        """Ask several times in one message, and lose no tap: for a block around a loop of `Board.choose`.

        Between a tap and the edit that it brings people see the turn before. With `choose` alone, a tap then
        is one on an old keyboard; here it counts, as what it stood for: its key says all that it means. The
        buttons go when the block ends.

        Args:
            into, by, otherwise: as for `choose`.

        Examples:
            >>> async def count(chat: Chat) -> None:
            ...     number = 0
            ...     with chat.board() as board:
            ...         while by := await board.choose(f"{number}?", {1: "more", -1: "less", 0: "Done"}):
            ...             number += by
        """
        return Board(self._conversation, into, by, otherwise)

    async def fill(
        self,
        cls: type[T],
        question: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        prefill: T | None = None,
        otherwise: OtherwisePolicy | None = None,
    ) -> T:
        """Ask with a native form made from an attrs class or a dataclass, and return a value of it.

        What the class's validators refuse is told to the user, and the form is sent again, with what was
        typed. An open form that is over is answered "expired".

        Args:
            cls: a frozen attrs class or dataclass, its fields `str`, `int`, `bool`, `Literal` or an Enum;
                `Field` says more.
            question: above the form.
            labels: of the fields, by their names, where they differ from call to call, as languages do.
            prefill: what stands in its text fields at first; the platform can't preselect the others.
            otherwise: as for `ask`.

        Raises: as `send`, for the form itself; ConfigError: there is no such form.

        Platform: interface section 2.11.
        """
        return await asking.fill(self._conversation, cls, question, labels, prefill, otherwise)

    async def charge(
        self,
        amount: int,
        text: str,
        *,
        item: object,
        options: Mapping[N, str] | Buttons[N] | None = None,
        currency: Currency = "IRR",
        expires: int | None = None,
        late: Late = "deliver",
        otherwise: OtherwisePolicy | None = None,
    ) -> N | None:
        """Send a payment button, and return None when it is paid, and the goods are given.

        **The amount is in rials.** A wallet that is too low, or a payment that fails, keeps it waiting.

        The goods are given by the aside for what is bought, ``@bot.aside(paid(Item))``, as soon as the money
        is verified; this returns when that aside has come to its end. What is given behind this is given
        twice, or never to whoever writes "/cancel". Whatever becomes of this conversation meanwhile, the
        aside goes on. No interface gives captured money back.

        Args:
            amount: at least 1; in `currency`.
            text: the message above the button, and the description in the user's list.
            item: what is bought; it has to be recordable.
            expires: seconds after which the charge ends by itself, from 1 up; the button's own day when None.
            late: what becomes of money that is paid when the charge has ended without it. "deliver": the
                aside gives the goods all the same. "refund": it is never verified, and the platform gives it
                back within the hour.
            options: further buttons under the payment button; pressing one ends the charge with its key.

        Raises:
            PaymentDeclinedError: the platform declined it for good.
            AmountMismatchError: another amount was captured; nothing may be granted, and an operator is told.
            PaymentHandedOverError: it is paid, and the aside has failed, and gets it again later; or an
                operator has it.
            LocalProtocolError: the amount is no whole number from 1 up, or above the bot's `max_amount`; or
                the text, or the item, is too large to be kept.
            ConfigError: there is no aside for such an item.
            PaymentExpiredError: the time of `expires`, or the button's life of 24 hours, is over; also a
                `trio.TooSlowError`.

        Platform: interface sections 2.4 and 4.2.
        """
        buttons = options if isinstance(options, Buttons) or options is None else Buttons(options)
        what = (amount, text, item, currency, buttons, expires, late, otherwise)
        return cast("N | None", await charging.charge(self._conversation, *what))

    async def invoice(
        self,
        amount: int,
        text: str,
        *,
        item: object,
        expires: int | None = None,
        late: Late = "deliver",
        otherwise: OtherwisePolicy | None = None,
    ) -> None:
        """Send an invoice for the wallet page; return as `charge` when it is paid. The amount is in rials.

        Args:
            expires: seconds from 300 to 604,800; the platform's own day when None.

        Raises:
            DeliveryUnknownError: nobody knows whether the invoice exists; it is never sent twice. If it is
                paid, the money is for the aside.
            PaymentError: as from `charge`.

        Platform: interface section 4.1.
        """
        await charging.invoice(self._conversation, amount, text, item, expires, late, otherwise)

    # --- others, and what goes on beside or after this

    async def start(
        self, fn: Callable[[Chat[object], *Args], Awaitable[None]], *args: *Args, key: str | None = None
    ) -> bool:
        """Start a route in this chat; see `ChatRef.start`."""
        return await self.to(self.id).start(fn, *args, key=key)

    async def stop(self, fn: Callable[..., Awaitable[None]], *, key: str | None = None) -> bool:
        """End a route's runs in this chat; see `ChatRef.stop`."""
        return await self.to(self.id).stop(fn, key=key)

    async def continue_as(self, fn: Callable[[Chat[E_co], *Args], Awaitable[None]], *args: *Args) -> NoReturn:
        """End here, and go on as another route's function; see `Room.continue_as`.

        Args:
            fn: a function that a decorator of the bot has declared; this one, often.
            args: what it gets besides the chat; each must be recordable, and arrives as a copy.

        Raises: as there, also for arguments that `fn` doesn't take or that can't be recorded.

        Examples:
            >>> @bot.aside
            ... async def monthly(chat: Chat, months: int = 0) -> None:
            ...     await chat.sleep(30 * 24 * 3600)
            ...     await chat.send(f"Month {months + 1} is over.")
            ...     await chat.continue_as(monthly, months + 1)
        """
        await continue_as(self._conversation, fn, args)


def handle_of(conversation: Conversation) -> Room[object]:
    """Return what the author's function gets: a chat where there is one."""
    return (Chat if is_chat(conversation.life.chat_id) else Room)(conversation)


@final
@guarded
class ChatRef(RoomRef):
    """A chat, seen from elsewhere; made by `Room.to` and `Bot.to`.

    What is sent takes its place in the chat's lane.
    """

    @property
    def id(self) -> Recipient:
        """Return the chat's id, or the phone number or group name that stands for it."""
        return self._whose

    @property
    def _place(self) -> ChatId:
        return as_chat_id(self._whose)

    async def send(
        self,
        content: Content,
        *,
        buttons: Buttons[Any] | None = None,
        keyboard: Keyboard | None = None,
        on_unknown: Literal["resend", "raise"] = "resend",
    ) -> Sent:
        """Send something; see `Chat.send`."""
        check_content(content)
        operation = SendMessage(self.id, content, reply_of(keyboard), inline_of(buttons))
        return await self._door.perform(operation, on_unknown_of(on_unknown))

    async def edit(
        self, sent: Sent, content: Content | None = None, *, buttons: Buttons[Any] | None = None
    ) -> None:
        """Replace a message; see `Chat.edit`."""
        check_edit(sent, content, buttons)
        operation = EditMessage(sent.chat_id, sent.message_id, content, inline_of(buttons))
        await self._door.perform(operation, OnUnknown.RESEND)

    async def delete(self, sent: Sent) -> None:
        """Delete a message; deleting what is gone is no error."""
        check_sent(sent)
        await self._door.perform(DeleteMessage(sent.chat_id, sent.message_id), OnUnknown.RESEND)

    async def start(
        self, fn: Callable[[Chat[object], *Args], Awaitable[None]], *args: *Args, key: str | None = None
    ) -> bool:
        """Start a route in the chat, in the way of its kind; it is durable when this returns.

        An aside starts at once, an interrupt ends what is live first, a conversation waits until the chat
        has no live one. `Chat.event` there is that of the conversation that calls, and None without one.

        Args:
            fn: a function that a decorator of the bot has declared, and that doesn't insist on an event.
            args: what it gets besides the chat; each must be recordable, and arrives as a copy.
            key: while a run with this key lives, and for `Settings.retention_days` (seven if not told
                otherwise) after it was started, starting it again does nothing. Without one each call starts
                another.

        Returns: False if there was nothing to do.

        Raises:
            ConfigError: `fn` is no route, or doesn't take these arguments.
            UnrecordableError: an argument can't be recorded.
            LocalProtocolError: the chat is not named by its id, or the key is empty or no text.
            StoreFullError: too much waits in this chat; nothing was stored.

        Cancellation: *ambiguous*; with a `key` it may simply be repeated.

        Examples:
            >>> @bot.aside
            ... async def remind(chat: Chat, order: int) -> None:
            ...     await chat.sleep(3 * 24 * 3600)
            ...     await chat.send(f"Has order {order} arrived?")
            >>> await bot.to(chat_id).start(remind, 7, key="order-7")
        """
        return await self._door.start(self._place, fn, args, key)

    async def stop(self, fn: Callable[..., Awaitable[None]], *, key: str | None = None) -> bool:
        """End a route's runs in the chat, as an interrupt would; it is durable when this returns.

        Also those that wait for their place. What people said meanwhile is routed again.

        Args:
            fn: as for `start`.
            key: only the run that was started with this key.

        Returns: False if there is nothing to end; True may also mean that nobody can know yet.

        Raises: as `start`.
        """
        return await self._door.stop(self._place, fn, key)
