"""The author's handle on a chat: methods that send, ask, wait and charge, and blocks with time limits.

A chat is a room with a screen; `Room` has the methods that need no screen. A handle belongs to one
conversation, and only that conversation's tasks may use it. Each awaited call is an operation of the
conversation. Messages are sent in the order in which their calls were awaited.
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
    wall_time,
)
from .calls.broadcasts import Broadcast
from .calls.refs import Door, RoomRef, person_ref, place_ref, room_ref
from .calls.signals import Signal, room_of
from .charges import charging
from .charges.charging import Late
from .charges.paid import Currency
from .chat_data import ChatData
from .operations import Operations
from .questions import asking
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
# The defaults are for calls whose arguments don't determine the type of the result.
A = TypeVar("A", default=str)
N = TypeVar("N", bound=Hashable, default=Never)
R = TypeVar("R", default=Never)
Shared = TypeVar("Shared", bound=Image | Video | Audio | Voice | File | Contact | Location)
Args = TypeVarTuple("Args")


class Room(Generic[E_co]):
    """A room, as the conversation that runs there sees it. `E_co` is the type of `event`.

    A `Chat` is a room, too: a function that needs no screen can take a `Room`, and then also serves chats.
    """

    __slots__ = ("_operations",)

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} of {self.route}>"

    @property
    def event(self) -> E_co:
        """The value that started this conversation, as its route's filter returned it."""
        return cast("E_co", self._operations.value)

    @property
    def key(self) -> str:
        """The key that distinguishes this room from other rooms of its kind; for a chat, the id as text."""
        room = room_of(self._operations.facts.event)
        if room is not None:
            return room[1]
        place = self._operations.chat_id
        return str(place) if is_chat(place) else ""

    @property
    def route(self) -> str:
        """Name of the route that runs here, as in the store and the log."""
        return self._operations.facts.route.name

    @property
    def replaying(self) -> bool:
        """Whether the code that runs now has run before, or will run again later.

        True from the first line of a revived conversation until its first new operation. Also true in the
        cleanup (``finally``) when a conversation leaves memory, because the bot stops or other chats need the
        memory. Use `replaying` to avoid repeating a log line or a metric. Don't let `replaying` decide which
        operations the conversation performs: with one operation more or less, the conversation no longer fits
        its journal. A replay-check runs the code again, too.

        Raises:
            ConversationEndedError: the conversation is over.

        Examples:
            >>> async def order(chat: Chat) -> None:
            ...     if not chat.replaying:
            ...         log.info("%s began in %s", chat.route, chat.key)
        """
        run = self._operations.run
        return run.journal.stale or run.dying

    @property
    def data(self) -> ChatData:
        """The chat's data, which outlives this conversation: ``chat.data[KEY]``, one value for each `Key`.

        Reading and writing don't wait. All conversations of the chat see a written value at once. One commit
        stores the value and consumes the event that caused the change.
        """
        return ChatData(self._operations)

    def use(self, resource: Resource[T]) -> T:
        """Return a resource's opened object, such as a connection pool; pass the object to steps.

        Raises:
            ConfigError: the bot doesn't declare the resource.
        """
        return find(self._operations.services.resources, resource)

    # --- receive

    async def receive(self, taken: Filter[T], *, otherwise: OtherwisePolicy | None = None) -> T:
        """Wait for the next event that the filter takes. By default, events that don't fit are dropped."""
        return await asking.receive(self._operations, taken, otherwise)

    def drain(self) -> Sequence[object]:
        """Take all events that are queued now, without waiting; signals are returned as their values."""
        drained: list[object] = list(asking.drain(self._operations))
        return [one.value if isinstance(one, Signal) else one for one in drained]

    # --- steps and other places

    async def step(
        self,
        fn: Callable[[*Args], Awaitable[T]],
        *args: *Args,
        raises: type[Exception] | tuple[type[Exception], ...] = (),
        retry: Retry | None = None,
    ) -> T:
        """Run a side effect at least once.

        `fn` exchanges data with the conversation only by its arguments and its result.

        In an aside for a payment, each start of the step first asks the ledger whether the aside may still
        give the goods.

        Args:
            raises: errors that are raised unchanged; all other errors are raised as `StepError`.
            retry: how often a failing step is tried again; the conversation sleeps between the tries.

        Raises:
            ConfigError: in an aside for a payment: there is a `retry`, but no argument holds the payment's
                key. The service that `fn` calls could not distinguish the second try from a second sale.
            PaymentHandedOverError: in an aside for a payment: an operator or another aside has the payment by
                now; `fn` was not called.

        Cancellation: *ambiguous*: the side effect may have happened.
        """
        return await run_step(self._operations, fn, args, raises, retry)

    @overload
    def to(self, place: int | str, /) -> ChatRef: ...
    @overload
    def to(self, place: Callable[[Room[Any]], Awaitable[None]], key: str | int = "", /) -> RoomRef: ...
    def to(
        self, place: int | str | Callable[[Room[Any]], Awaitable[None]], key: str | int = "", /
    ) -> ChatRef | RoomRef:
        """Return a reference to another chat or room.

        Each call of a method of the reference is an operation of this conversation.

        Args:
            place: a chat's id, to send messages and signals there, start and stop its routes, and read its
                data. Or the function of a room (`Router.room`), to send signals to the room and change its
                data.
            key: the room's key: a text of at most 128 characters, or a whole number. Without a key, the
                reference is to the only room of its kind.

        Raises:
            LocalProtocolError: `place` is no chat's id, phone number or group name.
            ConfigError: the function isn't declared as a room, or `key` isn't valid.
        """
        return ref_to(Door.of(self._operations), place, key)

    def person(self, sender_id: SenderId) -> RoomRef:
        """Return a reference to a person's data, which is the same in all chats.

        Each use is an operation of this conversation.

        Raises:
            LocalProtocolError: `sender_id` is no person's id.

        Examples:
            >>> async def warn(chat: Chat, who: Sender) -> None:
            ...     warnings = await chat.person(who.id).update(WARNINGS, lambda old: old + 1)
            ...     await chat.send(f"That is warning {warnings}.")
        """
        return person_ref(Door.of(self._operations), sender_id)

    def place(self, name: str, key: str | int = "") -> RoomRef:
        """Return a reference to data under a name of your choice; `key` is the same as in `to`.

        No code runs in such a place. Each use of the reference is an operation of this conversation. `triobot
        forget --room` deletes the data, by name and key.

        Examples:
            >>> async def book(chat: Chat, day: str, hour: int) -> None:
            ...     await chat.place("clinic", day).update(TAKEN, lambda taken: {hour: chat.id, **taken})
        """
        return place_ref(Door.of(self._operations), name, key, f"{calling_line()}: place()")

    @property
    def shared(self) -> RoomRef:
        """Reference to the bot's own data. Each use of the reference is an operation of this conversation.

        All writes of this data go through one room. If every event changes some data, spread the data over
        several rooms, such as one room for each group or day.
        """
        return RoomRef(Door.of(self._operations), SHARED)

    def broadcast(self, key: str) -> Broadcast:
        """Return the broadcast with this key, in order to start, watch or stop a message to many chats.

        Each call of the broadcast's methods is an operation of this conversation. Because of the key, the
        broadcast starts only once, even after a crash.

        Raises:
            LocalProtocolError: the key is empty, longer than 200 characters, or not printable.

        Examples:
            >>> async def announce(chat: Chat) -> None:
            ...     news = await chat.ask("What is new?")
            ...     await chat.broadcast(f"news {chat.uuid()}").start(news, SUBSCRIBED)
        """
        return Broadcast(Door.of(self._operations), key)

    async def continue_as(self, fn: Callable[[Room[E_co]], Awaitable[None]]) -> NoReturn:
        """End this run, and start `fn`, the function of a room, in the same place with the same event.

        Use `continue_as` for endless loops: the new run begins with an empty journal. Open blocks end as if
        they were cancelled.

        Raises:
            ConfigError: `fn` isn't declared as a room (in a chat: as a route), or a nursery is open.
            UnrecordableError: `event` can't be recorded.
        """
        await continue_as(self._operations, fn, ())

    # --- time, random numbers and versions: these calls don't wait

    def now(self, tz: tzinfo = UTC) -> datetime:
        """Return the current turn's time: the time at which the last operation ended.

        The time stays the same until the next operation.
        """
        return datetime.fromtimestamp(self._operations.checked_run().now() / 1000, tz)

    def random(self) -> random.Random:
        """Return a random generator that gives the same numbers after a restart. Not for secrets.

        Each call returns a generator with other numbers.
        """
        return self._operations.checked_run().random()

    def uuid(self) -> uuid.UUID:
        """Return a unique id. An id made before a step can be the step's idempotency key."""
        return self._operations.checked_run().uuid()

    def patched(self, patch: str) -> bool:
        """Return whether to run the new version of code that was changed here.

        False for a conversation that has passed this point with the old version; such a conversation uses the
        old version everywhere. True for all other conversations.

        Args:
            patch: a name for the change, unique in the program.
        """
        return self._operations.checked_run().patched(patch)

    # --- blocks, sleep and children

    def move_on_after(self, seconds: float) -> Scope[None]:
        """Return a block that ends by itself after `seconds`; see `Scope.cancelled_caught`."""
        return Scope(self._operations, seconds)

    def move_on_at(self, when: datetime) -> Scope[None]:
        """Return a block that ends by itself at `when`, or at once if `when` is in the past.

        Args:
            when: a datetime with a time zone. If the clock is set in the meantime, this block still ends when
                the clock shows `when`; a `move_on_after` block keeps its length instead.

        Raises:
            LocalProtocolError: `when` has no time zone. Your program's fault.
        """
        return Scope(self._operations, inf, at=wall_time(when))

    def move_on_when(self, taken: Filter[E]) -> Scope[E]:
        """Return a block that is ended by an event that the filter takes; see `Scope.event`.

        The block gets such an event before interrupts and questions do, whatever the conversation is doing.
        If several open blocks take the event, the innermost of them ends. An event that is already queued may
        end the block at once. A block that is ending takes no further event. An event that ends the block
        isn't passed to any other wait or route, even if the block's code finishes before it is cancelled.

        The block is cancelled in its current chat operation, or else in its next one. A question ends, and
        its buttons are removed. A queued message is withdrawn. If a payment is being verified, the
        cancellation waits some seconds for the verification.
        """
        return Scope(self._operations, inf, until=taken)

    def fail_after(self, seconds: float) -> FailScope:
        """Return a block that raises `trio.TooSlowError` after `seconds`."""
        return FailScope(self._operations, seconds)

    def cancel_scope(self) -> Scope[None]:
        """Return a block that is ended early only by its own method `cancel`."""
        return Scope(self._operations, inf)

    def shield(self) -> Scope[None]:
        """Return a block that interrupts and outer timeouts don't cancel. Set a timeout inside the block.

        Interrupts and outer timeouts take effect at the block's end.
        """
        return Scope(self._operations, inf, shield=True)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`. A sleep takes no events: events that nothing else takes stay in the mailbox."""
        await sleep(self._operations, check_sleep(seconds))

    async def sleep_until(self, when: datetime) -> None:
        """Wait as `sleep` does, until `when`; return at once if `when` is in the past.

        Args:
            when: a datetime with a time zone.

        Raises:
            LocalProtocolError: `when` has no time zone. Your program's fault.
        """
        await sleep(self._operations, 0, wall_time(when))

    def open_nursery(self) -> AbstractAsyncContextManager[ChatNursery]:
        """Open a nursery for child tasks that may use the chat; leaving the block waits for these tasks."""
        return open_nursery(self._operations)

    def open_event(self) -> ChatEvent:
        """Return a flag that child tasks may wait for; unlike a `trio.Event`, the flag works on replay."""
        return ChatEvent(self._operations.checked_run())

    @overload
    def open_channel(self, kind: type[T], capacity: int = 0) -> ChatChannel[T]: ...
    @overload
    def open_channel(self, kind: TypeForm[T], capacity: int = 0) -> ChatChannel[T]: ...
    def open_channel(self, kind: object, capacity: int = 0) -> ChatChannel[Any]:
        """Return a channel of values between child tasks, in order; `send` waits while the channel is full.

        Args:
            kind: type of the values, for type checkers.
            capacity: number of values that may wait to be received.
        """
        return ChatChannel(self._operations.checked_run(), capacity)


@final
class Chat(Room[E_co]):
    """One chat, as one conversation sees it: a room with a screen. `E_co` is the type of `event`."""

    @property
    def id(self) -> ChatId:
        """The chat's id."""
        return self._operations.chat_id

    @property
    def sender(self) -> Sender | None:
        """The user who started this conversation; None if the platform names no user."""
        return self._operations.facts.event.sender

    @property
    def interrupted(self) -> str | None:
        """The name of the route that this interrupt ended, or None."""
        return self._operations.facts.interrupted

    def drain(self) -> Sequence[Event]:
        """Take all events that are queued now, without waiting; signals stay queued."""
        return asking.drain(self._operations)

    # --- send

    async def send(
        self,
        content: Content,
        *,
        buttons: Buttons[Any] | None = None,
        keyboard: Keyboard | None = None,
        on_unknown: Literal["resend", "raise"] = "resend",
    ) -> Sent:
        """Send text, media, a contact or a location; return once the platform has accepted the message.

        The platform accepts a message by answering 200, with any body. If the body has no readable id, the
        result has no `Sent.id`.

        Messages arrive in the order in which their sends were awaited. After a restart, unsent messages of
        two conversations may arrive in either order. If the platform's answer is lost, the send is repeated,
        unless `on_unknown` is ``"raise"``.

        Args:
            content: what to send. Received content may be sent as it is. Local files are uploaded first.
            buttons: an inline keyboard, which stays as long as the message.
            keyboard: a reply keyboard under the text field.
            on_unknown: what to do if it is unknown whether the message arrived.

        Raises:
            LocalProtocolError: the content can't be sent; nothing was sent. Your program's fault.
            BadRequestError: the platform refused the message.
            ForbiddenError: the user has left or blocked the bot.
            DeliveryUnknownError: with ``on_unknown="raise"``: the message may have arrived.

        Cancellation: *atomic* while the message is queued, *ambiguous* once its request is sent.

        Platform: interface section 4.3.
        """
        check_content(content)
        reply = None if keyboard is None else reply_of(keyboard)
        inline = None if buttons is None else inline_of(buttons)
        operation = SendMessage(self.id, content, reply, inline)
        return await self._operations.perform(operation, on_unknown=on_unknown_of(on_unknown))

    async def edit(
        self, sent: Sent, content: Content | None = None, *, buttons: Buttons[Any] | None = None
    ) -> None:
        """Replace a message of this chat; without `buttons`, the message's buttons are removed.

        Args:
            content: None changes only the buttons, and ``buttons=Buttons({})`` removes them. The interface
                doesn't say whether the platform accepts edits without content: pass the content if
                possible.

        Raises: as `send`; and RemoteProtocolError: the platform named no id for this message.

        Platform: interface section 4.3; gap 7.
        """
        check_edit(sent, content, buttons)
        operation = EditMessage(sent.chat_id, sent.message_id, content, inline_of(buttons))
        if content is not None:
            self._operations.touch(sent.message_id)
        await self._operations.perform(operation)

    async def delete(self, sent: Sent) -> None:
        """Delete a message of this chat; a message that is gone already is no error.

        Raises: as `edit`.
        """
        check_sent(sent)
        self._operations.touch(sent.message_id)
        await self._operations.perform(DeleteMessage(sent.chat_id, sent.message_id))

    async def answer(self, text: str, *, alert: bool = False) -> bool:
        """Show a tooltip or an alert, as the answer to the newest press that this conversation took.

        The runtime answers a press by itself after one second, or at the conversation's next operation.

        Returns: False if there is no press, or the press was answered before.
        """
        if not isinstance(cast("object", text), str):
            raise LocalProtocolError("text", "must be text")
        return await self._operations.answer(text, alert=alert)

    @asynccontextmanager
    async def typing(self) -> AsyncGenerator[None]:
        """Show that the bot is typing while the block runs."""
        with self._operations.typing():
            yield

    def live(self, text: str, *, buttons: Buttons[Any] | None = None) -> AbstractAsyncContextManager[Live]:
        """Send a message that shows progress while the block runs.

        `Live.show` doesn't wait; a step may call it, too. At most one edit a second is sent, with the
        newest text. When the block ends, for any reason, the last text is shown and the buttons are removed.
        Only the last edit can raise an error here, and only if the block wasn't cancelled.

        Args:
            buttons: buttons under the message until the block ends, for example to stop the work; see
                `Buttons.pressed`.

        Raises: as `send`, for the message itself; as `edit`, at the block's end, for the last text.

        Examples:
            >>> async def convert(chat: Chat) -> None:
            ...     async with chat.live("0 %") as progress:
            ...         for done in range(0, 101, 10):
            ...             await chat.sleep(0.5)
            ...             progress.show(f"{done} %")
        """
        return open_live(self._operations, text, buttons)

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
        """Ask, and return the user's answer.

        Args:
            question: the text.
            kind: `str`; a content class such as `Location`; or a parser of text. The question is asked again
                if the answer doesn't fit, or the parser raises a `ValueError`, `ArithmeticError`,
                `LookupError`, `StopIteration` (of `next`), `SyntaxError`, `RecursionError` or `re.error`. If
                a ``raise`` in your own code gave the error a text, the user is sent that text; else the user
                is sent one of the bot's `Texts`. `int`, `float` and `Decimal` understand Persian digits and
                separators.
            keyboard: a reply keyboard.
            by: id of a person: only that person's answer counts.
            otherwise: what to do with an answer that doesn't fit: a text to send, or an `Otherwise`. By
                default, a hint is sent in a private chat, and nothing in a group.

        Raises: as `send`, for the question itself.
        """
        # Not awaited here: an await would keep one more frame in memory for each waiting chat.
        return asking.ask(self._operations, question, kind, keyboard, by, otherwise)

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
        """Ask with buttons, and return the key of the button that was pressed.

        The buttons belong to this question only. Buttons of an old message can't answer it, a second click
        can't answer the next question, and the buttons are removed when the question ends.

        Args:
            options: labels by key, or `Buttons`.
            also: filter of other events that answer the question; the filter's value is returned.
            into: a message of this chat that becomes the question; by default, a new message is sent.
            by, otherwise: as for `ask`.

        Raises: as `send`, for the question itself.

        Examples:
            >>> async def pages(chat: Chat) -> None:
            ...     page, shown = 0, await chat.send("One moment.")
            ...     while page >= 0:
            ...         keys = {page - 1: "«", page + 1: "»"}
            ...         page = await chat.choose(f"Page {page}", keys, into=shown)
        """
        with Board(self._operations, into, by, otherwise, also, taps=1) as board:
            return cast("K | R", await board.choose(question, options))

    def board(
        self, *, into: Sent | None = None, by: int | None = None, otherwise: OtherwisePolicy | None = None
    ) -> Board:
        """Return a block that asks several times in one message and loses no tap; see `Board.choose`.

        Between a tap and the edit that follows, users see the old buttons. With `choose`, a tap on an old
        button comes too late. On a board, such a tap counts for the button that the user saw. So a key should
        contain the button's whole meaning. The buttons are removed when the block ends.

        Args:
            into, by, otherwise: as for `choose`.

        Examples:
            >>> async def count(chat: Chat) -> None:
            ...     number = 0
            ...     with chat.board() as board:
            ...         while by := await board.choose(f"{number}?", {1: "more", -1: "less", 0: "Done"}):
            ...             number += by
        """
        return Board(self._operations, into, by, otherwise)

    async def fill(
        self,
        cls: type[T],
        question: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        prefill: T | None = None,
        otherwise: OtherwisePolicy | None = None,
    ) -> T:
        """Ask with a native form made from an attrs class or a dataclass, and return a value of that class.

        If the class's validators refuse the values, the user gets the reason, and the form is sent again with
        the same values. If the user submits a form that is over, the `expired` text is sent.

        Args:
            cls: a frozen attrs class or dataclass, with fields of type `str`, `int`, `bool`, `Literal` or an
                Enum; `Field` changes a field's appearance.
            question: the text above the form.
            labels: labels by field name, if they differ from call to call, as languages do.
            prefill: first values of the text fields; the platform can't preselect the other fields.
            otherwise: as for `ask`.

        Raises: as `send`, for the form itself; ConfigError: no form can be made from the class.

        Platform: interface section 2.11.
        """
        return await asking.fill(self._operations, cls, question, labels, prefill, otherwise)

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
        """Send a payment button; return None when the payment is made and the goods are given.

        **The amount is in rials.** If the wallet holds too little, or a payment fails, the charge goes on
        waiting.

        The goods are given by the aside for the item, ``@bot.aside(paid(Item))``, which starts as soon as the
        money is verified. This method returns when that aside has ended. Don't give the goods after this
        call: the aside has given them, and a user's "/cancel" skips the code after the call. The aside
        continues even if this conversation ends. The platform has no interface to give captured money back.

        Args:
            amount: at least 1; in `currency`.
            text: the message above the button, and the description in the user's list.
            item: the goods; must be recordable.
            expires: seconds until the charge ends by itself, from 1 up; None for the button's own limit of 24
                hours.
            late: what to do with money that is paid after the charge has ended. "deliver": the aside still
                gives the goods. "refund": the payment is never verified, and the platform gives the money
                back within the hour.
            options: further buttons under the payment button; a press ends the charge and returns the
                button's key.

        Raises:
            PaymentDeclinedError: the platform finally declined the payment.
            AmountMismatchError: another amount was captured; nothing may be given, and an alarm is raised.
            PaymentHandedOverError: the payment was made, but its aside failed and will run again, or an
                operator handles the payment.
            LocalProtocolError: the amount is no whole number from 1 up, or is above the bot's `max_amount`;
                or the text or the item is too large to be stored.
            ConfigError: there is no aside for such an item.
            PaymentExpiredError: the time of `expires`, or the button's life of 24 hours, is over. This error
                is also a `trio.TooSlowError`.

        Platform: interface sections 2.4 and 4.2.
        """
        buttons = options if isinstance(options, Buttons) or options is None else Buttons(options)
        what = (amount, text, item, currency, buttons, expires, late, otherwise)
        return cast("N | None", await charging.sell(self._operations, "button", *what))

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
        """Send an invoice for the wallet page; return when the invoice is paid and the goods are given.

        The amount is in rials.

        Args:
            expires: seconds from 300 to 604,800; None for the platform's own limit of one day.

        Raises:
            DeliveryUnknownError: it is unknown whether the invoice exists; an invoice is never sent twice. If
                the invoice is paid, the aside gets the money.
            PaymentError: as from `charge`.

        Platform: interface section 4.1.
        """
        await charging.sell(
            self._operations, "invoice", amount, text, item, "IRR", None, expires, late, otherwise
        )

    # --- other routes

    async def start(
        self, fn: Callable[[Chat[object], *Args], Awaitable[None]], *args: *Args, key: str | None = None
    ) -> bool:
        """Start a route in this chat; see `ChatRef.start`."""
        return await self.to(self.id).start(fn, *args, key=key)

    async def stop(self, fn: Callable[..., Awaitable[None]], *, key: str | None = None) -> bool:
        """End a route's runs in this chat; see `ChatRef.stop`."""
        return await self.to(self.id).stop(fn, key=key)

    async def continue_as(self, fn: Callable[[Chat[E_co], *Args], Awaitable[None]], *args: *Args) -> NoReturn:
        """End this run, and start `fn`, the function of a route, instead; see `Room.continue_as`.

        Args:
            fn: a function that a decorator of the bot has declared, often the current one.
            args: arguments of `fn` besides the chat; each must be recordable, and arrives as a copy.

        Raises: as `Room.continue_as`; also if `fn` doesn't take the arguments, or they can't be recorded.

        Examples:
            >>> @bot.aside
            ... async def monthly(chat: Chat, months: int = 0) -> None:
            ...     await chat.sleep(30 * 24 * 3600)
            ...     await chat.send(f"Month {months + 1} is over.")
            ...     await chat.continue_as(monthly, months + 1)
        """
        await continue_as(self._operations, fn, args)


def handle_of(operations: Operations) -> Room[object]:
    """Return the handle that the author's function gets: in a chat a `Chat`, else a `Room`."""
    return (Chat if is_chat(operations.chat_id) else Room)(operations)


@final
@guarded
class ChatRef(RoomRef):
    """A reference to a chat, for code outside of this chat; made by `Room.to` and `Bot.to`.

    Messages sent through a reference are queued in the chat's lane, like messages of the chat's own
    conversations.
    """

    @property
    def id(self) -> Recipient:
        """The chat's id, or a phone number or group name instead of the id."""
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
        """Send a message; see `Chat.send`."""
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
        """Delete a message; if the message is gone already, this is no error."""
        check_sent(sent)
        await self._door.perform(DeleteMessage(sent.chat_id, sent.message_id), OnUnknown.RESEND)

    async def start(
        self, fn: Callable[[Chat[object], *Args], Awaitable[None]], *args: *Args, key: str | None = None
    ) -> bool:
        """Start a route in the chat, according to the route's kind; the start is durable when this returns.

        An aside starts at once. An interrupt first ends the live conversation. A conversation waits until the
        chat has no live conversation. In the started run, `Chat.event` is the calling conversation's event,
        or None if the caller is no conversation.

        Args:
            fn: a function that a decorator of the bot has declared, and that doesn't require an event.
            args: arguments of `fn` besides the chat; each must be recordable, and arrives as a copy.
            key: while a run with this key lives, and for `Settings.retention_days` (by default seven) after
                its start, another start with the key does nothing. Without a key, each call starts a run.

        Returns: False if nothing was started.

        Raises:
            ConfigError: `fn` is no route, or doesn't take these arguments.
            UnrecordableError: an argument can't be recorded.
            LocalProtocolError: the chat is not named by its id, or the key is empty or no text.
            StoreFullError: too many events wait in this chat; nothing was stored.

        Cancellation: *ambiguous*; with a `key`, the call can simply be repeated.

        Examples:
            >>> @bot.aside
            ... async def remind(chat: Chat, order: int) -> None:
            ...     await chat.sleep(3 * 24 * 3600)
            ...     await chat.send(f"Has order {order} arrived?")
            >>> await bot.to(chat_id).start(remind, 7, key="order-7")
        """
        return await self._door.start(self._place, fn, args, key)

    async def stop(self, fn: Callable[..., Awaitable[None]], *, key: str | None = None) -> bool:
        """End a route's runs in the chat as an interrupt would; durable when this returns.

        Runs that are still waiting for their start are removed, too. Messages that waited for an ended run
        are routed again.

        Args:
            fn: as for `start`.
            key: end only the run that was started with this key.

        Returns: False if there was nothing to end. True may also mean that a waiting event could still start
        a run of the route.

        Raises: as `start`.
        """
        return await self._door.stop(self._place, fn, key)


def ref_to(
    door: Door, place: int | str | Callable[[Room[Any]], Awaitable[None]], key: str | int
) -> ChatRef | RoomRef:
    """Return a reference to a chat or a room; see `Room.to`."""
    if isinstance(place, int | str):
        return ChatRef(door, as_recipient(place))
    return room_ref(door, place, key, f"{calling_line()}: to()")
