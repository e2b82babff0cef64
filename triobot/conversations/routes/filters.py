"""Filters: select the events for a route or a wait, and convert them.

A `Filter[E]` returns an `E` for an event that it takes, and None for any other. Join filters with ``|``,
``&`` and ``~``; ``a & b`` has the type of `a`. A filter runs when an event arrives, again when a queued event
is routed, and never on replay. So a filter may read mutable state, but must not change it.

Only `signal`, and filters joined to it with ``&``, take signals. Other filters are for users' events, so
``~text()`` doesn't take signals either.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from typing import Final, Generic, NoReturn, TypeAlias, cast, final, overload

import attrs
from typing_extensions import TypeVar

from ...base.frozen import frozen, guarded
from ...errors import ConfigError
from ...seams.values import expect, register
from ...wire.content import CONTENT_CLASSES, Audio, Content, File, Image, Media, Video, Voice
from ...wire.events import Event, InvoiceCallback, Join, Leave, Message, PayCallback, Press, Sender
from ...wire.ids import ChatId
from ..calls.signals import SIGNAL_TYPES, Signal
from ..data import ReadKey, check_key
from ..questions.keys import LASTING, check_kind, decode_key
from .typed import fold as fold
from .typed import read_command

E_co = TypeVar("E_co", covariant=True, default=Event)
F = TypeVar("F")
S = TypeVar("S")
C = TypeVar("C", bound=Content, default=Content)
V = TypeVar("V", bound=Hashable, default=str)

_COMPARED: Final = 1_000  # maximum of a filter's alternatives; more would delay the start
REMEMBERED: Final = 10_000
"""Number of senders that are remembered; the sender that was silent longest is forgotten first."""


@final
@frozen
class Setting:
    """Context of an event, for filters.

    Attributes:
        username: name of the bot, which must follow the @ of a ``/command@name``.
        group: whether the chat is a group.
        seq: number of the event in the inbox; a counting filter counts each number once.
        at: event's time of arrival in wall milliseconds, perhaps long before the event is routed.
        memory: memory of filters, by a key of each filter; empty when the process starts. None for an event
            that isn't stored yet.
        kept: the chat's data as text, by key; None if the data are not loaded.
    """

    username: str | None = None
    group: bool = False
    seq: int = 0
    at: int = 0
    memory: MutableMapping[object, object] | None = attrs.field(
        factory=lambda: dict[object, object](), eq=False, repr=False
    )
    kept: Mapping[str, str] | None = attrs.field(default=None, eq=False, repr=False)


Look: TypeAlias = Callable[[Event, Setting], F | None]


KindPath: TypeAlias = tuple[object, ...]
"""A kind of events; each item narrows it: ``(Message, str, "yes")`` is narrower than ``(Message, str)``."""
Kinds: TypeAlias = frozenset[frozenset[KindPath]]
"""The events that a filter takes: alternatives, each a set of kinds to which the event must belong."""


def _unknown() -> Kinds:
    """Return kinds that differ from the kinds of every other filter."""
    return any_of((object(),))


def any_of(*paths: KindPath) -> Kinds:
    """Return the kinds of a filter that takes an event of any of the kinds `paths`."""
    return frozenset(frozenset({path}) for path in paths)


def _both(first: Kinds, second: Kinds) -> Kinds:
    many = len(first) * len(second) > _COMPARED
    return _unknown() if many else frozenset(one | other for one in first for other in second)


def kinds_of(word: str, kind: type[object]) -> Kinds:
    """Return the kinds of a filter that takes values of a class: the class and all its base classes."""
    return frozenset({frozenset((word, one) for one in kind.__mro__)})


@final
@guarded(eq=False)
class Filter(Generic[E_co]):
    """Takes some events and converts each to an `E_co`; made by the functions of `triobot.filters`.

    Attributes:
        name: name in logs and errors.
        signals: whether the filter also takes signals.
        kinds: description of the events that the filter takes, for comparison with other filters.
        asks_kept: whether the filter reads the chat's data.

    Examples:
        >>> from triobot.filters import command, join, text
        >>> start = command("start") | join()
        >>> shouting = text() & ~text("help")
    """

    see: Look[E_co] = attrs.field(repr=False)
    name: str
    signals: bool = False
    kinds: Kinds = attrs.field(factory=_unknown, repr=False)
    asks_kept: bool = attrs.field(default=False, repr=False)

    @property
    def words(self) -> frozenset[str]:
        """Texts and commands that the filter waits for, as suggestions for trying the bot."""
        last = (path[-1] for kinds in self.kinds for path in kinds if path[0] is Message)
        return frozenset(word for word in last if isinstance(word, str))

    def look(self, event: Event, setting: Setting) -> E_co | None:
        """Return the event's value, or None if the filter doesn't take the event."""
        if type(event) in SIGNAL_TYPES and not self.signals:
            return None
        return self.see(event, setting)

    def where(self, condition: Callable[[E_co], bool]) -> Filter[E_co]:
        """Return a filter for events that this filter takes and `condition` accepts.

        The condition gets the value that this filter makes of the event. The condition must be quick and must
        not wait. The condition may read mutable state, and may run several times for an event.

        Raises:
            ConfigError: `condition` is not a function, or is async.

        Examples:
            >>> from triobot.filters import text
            >>> long = text().where(lambda message: len(message.content) > 200)
        """
        _check_condition(condition, "where()", "what the filter gives")

        def see(event: Event, setting: Setting) -> E_co | None:
            taken = self.see(event, setting)
            return taken if taken is not None and condition(taken) else None

        kinds = _both(self.kinds, _of_condition("where", condition))
        return Filter(see, f"{self.name}.where(...)", self.signals, kinds, self.asks_kept)

    def __or__(self, other: Filter[F]) -> Filter[E_co | F]:
        check_filter(other, "|")
        signals = self.signals or other.signals
        first, second = (self.look, other.look) if signals else (self.see, other.see)

        def see(event: Event, setting: Setting) -> E_co | F | None:
            taken = first(event, setting)
            return second(event, setting) if taken is None else taken

        kinds, asks = self.kinds | other.kinds, self.asks_kept or other.asks_kept
        return Filter(see, f"({self.name} | {other.name})", signals, kinds, asks)

    def __and__(self, other: Filter[object]) -> Filter[E_co]:
        check_filter(other, "&")

        def see(event: Event, setting: Setting) -> E_co | None:
            taken = self.see(event, setting)
            return None if taken is None or other.see(event, setting) is None else taken

        kinds = _both(self.kinds, other.kinds)
        signals, asks = self.signals or other.signals, self.asks_kept or other.asks_kept
        return Filter(see, f"({self.name} & {other.name})", signals, kinds, asks)

    def __bool__(self) -> NoReturn:
        raise ConfigError(
            f"{self.name} is a filter, and has no truth by itself: join filters with |, & and ~, "
            "not with or, and, not"
        )

    def __invert__(self) -> Filter[Event]:
        def see(event: Event, setting: Setting) -> Event | None:
            return event if self.see(event, setting) is None else None

        return Filter(see, f"~{self.name}", kinds=any_of(("~", self.kinds)), asks_kept=self.asks_kept)


def check_filter(taken: object, who: str) -> None:
    """Check that `taken` is a filter. `who` begins the error's text.

    Raises:
        ConfigError: `taken` is not a filter.
    """
    if not isinstance(taken, Filter):
        refuse_uncalled(taken, who)
        name = getattr(taken, "__name__", "")
        what = f"{type(taken).__name__} {name}".rstrip()
        such = "command('name')"
        if who == "@room" or isinstance(taken, type):
            such = f"signal({name if isinstance(taken, type) else 'Order'})"
        raise ConfigError(f"{who} takes a filter such as {such}, not a {what}")


def refuse_uncalled(taken: object, who: str) -> None:
    """Reject a function of `triobot.filters` that was passed without being called.

    Raises:
        ConfigError: `taken` is a function of `triobot.filters`.
    """
    name = str(getattr(taken, "__name__", ""))
    if getattr(taken, "__module__", "") == __name__ and not isinstance(taken, type):
        raise ConfigError(f"{who} takes a filter, and {name} makes one: call it, as in {name}()")


@final
@guarded
class Command:
    """A ``/command``, typed or tapped on a keyboard.

    Attributes:
        name: name without the slash, in lower case and with normalized digits and letters.
        rest: text after the name, without surrounding blanks.
    """

    chat_id: ChatId
    name: str
    rest: str = attrs.field(default="", repr=False)
    sender: Sender | None = None


# Old records contain the second name, which depended on the class's module.
register(Command, name="triobot.Command", aliases=["triobot.conversations.filters.Command"])


def as_command(event: Event, setting: Setting) -> Command | None:
    """Convert an event to a command; return None if the event is not a command for this bot."""
    if not isinstance(event, Message) or not isinstance(event.content, str):
        return None
    if (typed := read_command(event.content)) is None:
        return None
    name, at, whose = typed[0].partition("@")
    if not name or (at and not (setting.username and whose == fold(setting.username))):
        return None
    return Command(event.chat_id, name, typed[1], event.sender)


def _all(kind: type[F], name: str) -> Filter[F]:
    """Return a filter that takes all events of a class."""

    def look(event: object, setting: Setting) -> F | None:
        return event if isinstance(event, kind) else None

    return Filter(look, name, kinds=any_of((kind,)))


@overload
def message(kind: type[C] | None = None) -> Filter[Message[C]]: ...  # type: ignore[overload-overlap]
@overload
def message(kind: type[Media]) -> Filter[Message[Image | Video | Audio | Voice | File]]: ...
def message(
    kind: type[C] | type[Media] | None = None,
) -> Filter[Message[C]] | Filter[Message[Image | Video | Audio | Voice | File]]:
    """Take messages; with `kind`, only messages with content of this class, such as `File` or `Media`."""
    if kind is None:
        return _all(cast("type[Message[C]]", Message), "message()")
    if kind not in (*CONTENT_CLASSES, Media):
        raise ConfigError(f"message() takes a content class, not {kind!r}")
    wanted = cast("type[object]", kind)

    def look(event: Event, setting: Setting) -> Message[C] | None:
        if isinstance(event, Message) and isinstance(event.content, wanted):
            return cast("Message[C]", event)
        return None

    narrow = [one for one in CONTENT_CLASSES if issubclass(one, wanted)]
    return Filter(look, f"message({kind.__name__})", kinds=any_of(*((Message, one) for one in narrow)))


def text(*words: str) -> Filter[Message[str]]:
    """Take text messages: any text, or only texts equal to one of `words`.

    Upper and lower case, kinds of digits and letters, and invisible characters make no difference.

    Raises:
        ConfigError: one of `words` is not a text.
    """
    _check_words(words, "text()", "a text, as in text('yes', 'no')")
    folded = {fold(word) for word in words}

    def look(event: Event, setting: Setting) -> Message[str] | None:
        if not isinstance(event, Message) or not isinstance(event.content, str):
            return None
        taken = cast("Message[str]", event)
        return taken if not folded or fold(event.content) in folded else None

    kinds = any_of(*((Message, str, word) for word in folded)) or any_of((Message, str))
    return Filter(look, f"text({', '.join(words)})", kinds=kinds)


def command(*names: str) -> Filter[Command]:
    """Take ``/name``, ``/name arguments`` and ``/name@this-bot``; without `names`, take any command.

    Raises:
        ConfigError: one of `names` can't be a command's name.
    """
    _check_words(names, "command()", "a name without blanks, as in command('start', 'help')")
    for name in names:
        if name.split() != [name] or not name.removeprefix("/") or "@" in name:
            raise ConfigError(
                f"command() takes names without blanks and without @, as in command('start'), not {name!r}"
            )
    folded = {fold(name.removeprefix("/")) for name in names}

    def look(event: Event, setting: Setting) -> Command | None:
        found = as_command(event, setting)
        return found if found is not None and (not folded or found.name in folded) else None

    typed = any_of(*((Message, str, Command, f"/{name}") for name in folded))
    return Filter(look, f"command({', '.join(names)})", kinds=typed or any_of((Message, str, Command)))


def _check_words(words: Sequence[object], who: str, what: str) -> None:
    for word in words:
        if not isinstance(word, str):
            raise ConfigError(f"{who} takes words, each {what}; not a {type(word).__name__}")


def join() -> Filter[Join]:
    """Take joins."""
    return _all(Join, "join()")


def leave() -> Filter[Leave]:
    """Take leaves."""
    return _all(Leave, "leave()")


def by(*sender_ids: int) -> Filter[Event]:
    """Take events of these senders.

    Args:
        sender_ids: whole numbers, as in `Sender.id`. Names are not ids. A user's id is unknown before the
            user's first event.

    Raises:
        ConfigError: there is no id, or an id is not a whole number.
    """
    wanted = check_ids(sender_ids, "by()", "a sender's id, such as chat.sender.id")
    return _of_ids("by", wanted, lambda event: None if event.sender is None else event.sender.id)


def in_chat(*chat_ids: int) -> Filter[Event]:
    """Take events of these chats.

    Raises:
        ConfigError: there is no id, or an id is not a whole number.
    """
    wanted = check_ids(chat_ids, "in_chat()", "a chat's id, such as chat.id")
    return _of_ids("in_chat", wanted, lambda event: event.chat_id)


def _of_ids(name: str, wanted: frozenset[int], id_of: Callable[[Event], object]) -> Filter[Event]:
    kinds = any_of(*((name, id) for id in wanted))
    return Filter(lambda event, _: event if id_of(event) in wanted else None, f"{name}(...)", kinds=kinds)


def check_ids(ids: Sequence[object], who: str, what: str) -> frozenset[int]:
    """Check that `ids` are whole numbers, at least one. `who` and `what` are for the error's text.

    Raises:
        ConfigError: there is no id, or an id is not a whole number.
    """
    numbers = frozenset(id for id in ids if isinstance(id, int) and not isinstance(id, bool))
    if not ids or len(numbers) < len(set(map(repr, ids))):
        raise ConfigError(f"{who} takes whole numbers, each {what}")
    return numbers


def when(condition: Callable[[Event], bool]) -> Filter[Event]:
    """Take events for which `condition` returns true. The condition must be quick and must not wait.

    Raises:
        ConfigError: `condition` is not a function, or is async.
    """
    _check_condition(condition, "when()", "an event")

    def see(event: Event, setting: Setting) -> Event | None:
        return event if condition(event) else None

    return Filter(see, "when(...)", kinds=_of_condition("when", condition))


def kept(key: ReadKey[S], condition: Callable[[S], bool] | None = None) -> Filter[Event]:
    """Take events of chats whose value under `key` is true or, with `condition`, meets the condition.

    The filter reads the same data as the chat's conversations; the journal records which conversation got the
    event. The data are loaded with the event, but only in bots with a route that uses `kept`. If nothing is
    stored under `key`, the key's default counts; without a default, the filter takes nothing. The filter
    can't read data of a person or of the bot, because filters can't wait.

    Args:
        condition: function of the value, with the same rules as for `when`.

    Raises:
        ConfigError: `key` is not a key, or `condition` is not a function, or is async.

    Examples:
        >>> ADMIN = Key("admin", bool, default=False)
        >>> admin = Router(when=kept(ADMIN))
    """
    check_key(key)
    if condition is not None:
        _check_condition(condition, "kept()", "what is kept")

    def see(event: Event, setting: Setting) -> Event | None:
        try:
            value = key.load((setting.kept or {}).get(key.name))
        except KeyError:
            return None
        return event if (value if condition is None else condition(value)) else None

    kinds = _of_condition("kept", condition, key.name)
    return Filter(see, f"kept({key.name})", kinds=kinds, asks_kept=True)


def _check_condition(condition: object, who: str, given: str) -> None:
    if not callable(condition):
        raise ConfigError(f"{who} takes a function of {given} that says yes or no")
    if inspect.iscoroutinefunction(condition):
        # An async function would return a coroutine, which is true for every event.
        raise ConfigError(
            f"{who} takes a plain function: a filter can't wait; ask in the conversation instead"
        )


def _of_condition(word: str, condition: object, *more: object) -> Kinds:
    comparable = isinstance(condition, Hashable)
    return any_of((word, condition, *more)) if comparable else _unknown()


def pressed(kind: type[V] | None = None) -> Filter[Press[V]]:
    """Take presses of buttons with a key of this class; `Press.value` is the key.

    For routes: buttons sent with `send` work as long as their message exists, also after restarts. A button
    contains the class's name and fields; when one of these changes, presses of old buttons are not taken any
    more. A question takes presses of its own buttons, so `pressed` doesn't get such presses.

    Args:
        kind: `str`, `int`, `bool`, `date`, `datetime`, `time`, `timedelta`, an Enum, or a frozen attrs class
            or dataclass. None takes any press of an inline button, and leaves `Press.value` undecoded.

    Raises:
        ConfigError: `kind` is another class.

    Examples:
        >>> @attrs.frozen
        ... class Take:
        ...     order: int
        >>> @bot.aside(pressed(Take))
        ... async def take(chat: Chat[Press[Take]]) -> None:
        ...     await chat.answer(f"Order {chat.event.value.order} is yours.")
    """
    if kind is None:
        return _all(cast("type[Press[V]]", Press), "pressed()")
    check_kind(kind)
    expect(kind, "pressed()")
    wanted = kind

    def look(event: Event, setting: Setting) -> Press[V] | None:
        if not isinstance(event, Press) or not isinstance(event.value, str):
            return None
        front, dot, text = event.value.partition(".")
        key = decode_key(wanted, text) if front == LASTING and dot else None
        return None if key is None else attrs.evolve(event, value=key)

    return Filter(look, f"pressed({kind.__name__})", kinds=any_of((Press, kind)))


def signal(kind: type[S]) -> Filter[S]:
    """Take signals with a value of this class, and return the value; see `triobot.ChatRef.signal`.

    Raises:
        ConfigError: `kind` is not a class.
    """
    if not isinstance(cast("object", kind), type):
        raise ConfigError(f"signal() takes the class of what is told, such as signal(Shipped), not {kind!r}")
    expect(kind, "signal()")

    def see(event: Event, setting: Setting) -> S | None:
        found = cast("object", event)
        return found.value if isinstance(found, Signal) and isinstance(found.value, kind) else None

    return Filter(see, f"signal({kind.__name__})", True, kinds_of("signal", kind))


def starting() -> Filter[Message[Content] | Join]:
    """Return the filter of conversations that were declared without a filter: any message, any join."""
    return message() | join()


def nothing() -> Filter[Event]:
    """Return a filter that takes nothing, for routes that only code starts."""
    return Filter(lambda event, _: None, "nothing", kinds=frozenset())


@final
@attrs.define
class _Counted:
    left: float
    at: int
    seq: int


@final
class Flood:
    """Counter of events by sender: allows `per_minute` events at once, then the same number each minute."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._senders: OrderedDict[Hashable, _Counted] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def is_over(self, key: Hashable, seq: int, at: int) -> bool:
        """Count an event; return whether it exceeds the limit.

        Args:
            key: sender of the event.
            seq: number of the event in the inbox. Events up to the last number counted for this sender are
                not counted again, and are allowed.
            at: time of arrival in milliseconds; if the clock was set back, no time counts as passed.
        """
        sender = self._senders.get(key)
        if sender is None:
            sender = self._senders[key] = _Counted(self._per_minute, at, -1)
            if len(self._senders) > REMEMBERED:
                self._senders.popitem(last=False)
        elif seq <= sender.seq:
            return False
        self._senders.move_to_end(key)
        refilled = max(0, at - sender.at) * self._per_minute / 60_000
        sender.left = min(self._per_minute, sender.left + refilled)
        sender.at, sender.seq = at, seq
        if sender.left < 1:
            return True
        sender.left -= 1
        return False


def flooding(*, per_minute: int) -> Filter[Event]:
    """Take events that a sender sends beyond `per_minute` events a minute; for `Router.ignore`.

    Each sender in each chat has a count of their own; events without a sender count together for their chat.
    After a burst of `per_minute` events, the same number is allowed each minute. Each event counts at the
    time of its arrival, so events that waited while the bot was down are no flood. The counts start at zero
    when the process starts. Payments and signals are not counted.

    Raises:
        ConfigError: `per_minute` is not a whole number of at least 1.

    Examples:
        >>> bot.ignore(flooding(per_minute=30))
    """
    if isinstance(per_minute, bool) or not isinstance(cast("object", per_minute), int) or per_minute < 1:
        raise ConfigError("flooding(per_minute=) takes a whole number of at least 1")
    own = object()

    def see(event: Event, setting: Setting) -> Event | None:
        if is_payment(event):
            return None
        if setting.memory is None:
            # The filter is called again once the event is stored.
            raise TypeError("nothing is counted of an event that isn't stored yet")
        flood = cast("Flood", setting.memory.setdefault(own, Flood(per_minute)))
        key = (event.chat_id, None if event.sender is None else event.sender.id)
        return event if flood.is_over(key, setting.seq, setting.at) else None

    return Filter(see, f"flooding({per_minute})")


def is_payment(event: Event) -> bool:
    """Whether `event` is a payment's callback. Such callbacks don't go through the routing table."""
    return isinstance(event, PayCallback | InvoiceCallback)
