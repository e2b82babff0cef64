"""Filters: which events a route or a wait takes, and as what.

A `Filter[E]` looks at an event and answers with an `E`, or with None for "not mine". Join them with ``|``,
``&`` and ``~``; ``a & b`` has the type of `a`. They run once, live, and may look at mutable state: who got
an event is decided once.

A signal is taken by `signal` and by what is joined to it with ``&``, and by no other filter: ``~text()`` is
about what people do.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Generic, NoReturn, TypeAlias, cast, final, overload

import attrs
from typing_extensions import TypeVar

from ...base.frozen import frozen, guarded
from ...errors import ConfigError
from ...seams.values import expect, register
from ...wire.content import CONTENT_CLASSES, Audio, Content, File, Image, Media, Video, Voice
from ...wire.events import Event, InvoiceCallback, Join, Leave, Message, PayCallback, Press, Sender
from ...wire.ids import ChatId
from ..data import ReadKey, check_key
from ..doors.calls import SIGNAL_TYPES, Signal
from ..questions.keys import LASTING, check_kind, decode_key
from .typed import fold as fold
from .typed import read_command
from .verdicts import Verdicts

E_co = TypeVar("E_co", covariant=True, default=Event)
F = TypeVar("F")
S = TypeVar("S")
C = TypeVar("C", bound=Content, default=Content)
V = TypeVar("V", bound=Hashable, default=str)

_TEXT: Final[frozenset[object]] = frozenset({str})
REMEMBERED: Final = 10_000
"""Senders that are remembered; the one that was silent for longest is forgotten first."""


@final
@frozen
class Setting:
    """What a filter may know besides the event.

    Attributes:
        username: the bot's own name, which ``/command@name`` must carry to be for us.
        group: the chat is a group.
        seq: the event's place in the inbox: a filter that counts counts it once, however often it looks.
        at: when the event arrived, in wall milliseconds; not when its turn came.
        memory: what filters remember in this run of the bot, each under a key of its own; None for an event
            that isn't stored yet, of which nothing is remembered.
        kept: what the chat keeps, by key, as text; None if that hasn't been read.
        asked: what authors' conditions have said of events.
    """

    username: str | None = None
    group: bool = False
    seq: int = 0
    at: int = 0
    memory: MutableMapping[object, object] | None = attrs.field(
        factory=lambda: dict[object, object](), eq=False, repr=False
    )
    kept: Mapping[str, str] | None = attrs.field(default=None, eq=False, repr=False)
    asked: Verdicts = attrs.field(factory=Verdicts, eq=False, repr=False)

    def says(self, own: object, condition: Callable[[Any], object], value: object) -> bool:
        """Return whether a condition of the author's says yes to what a filter makes of the event.

        Args:
            own: tells the filter from others with the same condition.
        """
        said, key = self.asked.said.setdefault(self.seq, {}), (self.asked.taker, own)
        if key not in said:
            try:
                said[key] = bool(condition(value))
            except BaseException as error:
                said[key] = error
        if isinstance(answer := said[key], BaseException):
            raise answer
        return bool(answer)


Look: TypeAlias = Callable[[Event, Setting], F | None]


@final
@guarded
class Same:
    """What filters that take the same have in common.

    Attributes:
        word: of the function that makes them, or of what joins them.
        of: what that was given; nothing for all.
    """

    word: str
    of: frozenset[object] = frozenset()

    @property
    def parts(self) -> frozenset[Same]:
        """Return what was joined."""
        return cast("frozenset[Same]", self.of)


@final
@guarded(eq=False)
class Filter(Generic[E_co]):
    """Takes some events, each as an `E_co`; made by the functions of `triobot.filters`.

    Attributes:
        name: for logs and errors.
        signals: it looks at signals, too.
        same: equal for filters that take the same; None for what can't be compared.
        words: texts that it was made to wait for: what one writes to try the bot.
        asks_kept: it looks at what the chat keeps.

    Examples:
        >>> from triobot.filters import command, join, text
        >>> start = command("start") | join()
        >>> shouting = text() & ~text("help")
    """

    see: Look[E_co] = attrs.field(repr=False)
    name: str
    signals: bool = False
    same: Same | None = attrs.field(default=None, repr=False)
    words: frozenset[str] = attrs.field(default=frozenset(), repr=False)
    asks_kept: bool = attrs.field(default=False, repr=False)

    def look(self, event: Event, setting: Setting) -> E_co | None:
        """Return what this makes of an event, or None; only filters that name signals get to see one."""
        if type(event) in SIGNAL_TYPES and not self.signals:
            return None
        return self.see(event, setting)

    def where(self, condition: Callable[[E_co], bool]) -> Filter[E_co]:
        """Take what this takes and `condition` says yes to; it is given what this makes of the event.

        The condition must be quick and must not wait. It runs once, live, and may look at mutable state.

        Raises:
            ConfigError: it is no function, or an async one.

        Examples:
            >>> from triobot.filters import text
            >>> long = text().where(lambda message: len(message.content) > 200)
        """
        _check_condition(condition, "where()", "what the filter gives")

        def see(event: Event, setting: Setting) -> E_co | None:
            taken = self.see(event, setting)
            return taken if taken is not None and setting.says(see, condition, taken) else None

        same = pair("&", self.same, _same_condition("where", condition))
        name = f"{self.name}.where(...)"
        return Filter(see, name, self.signals, same, self.words, self.asks_kept)

    def __or__(self, other: Filter[F]) -> Filter[E_co | F]:
        check_filter(other, "|")
        signals = self.signals or other.signals
        first, second = (self.look, other.look) if signals else (self.see, other.see)

        def see(event: Event, setting: Setting) -> E_co | F | None:
            taken = first(event, setting)
            return second(event, setting) if taken is None else taken

        # Which of the two comes first makes no difference to who is asked after them.
        same = pair("|", self.same, other.same)
        words, asks = self.words | other.words, self.asks_kept or other.asks_kept
        return Filter(see, f"({self.name} | {other.name})", signals, same, words, asks)

    def __and__(self, other: Filter[object]) -> Filter[E_co]:
        check_filter(other, "&")

        def see(event: Event, setting: Setting) -> E_co | None:
            taken = self.see(event, setting)
            return None if taken is None or other.see(event, setting) is None else taken

        same = pair("&", self.same, other.same)
        signals, words = self.signals or other.signals, self.words | other.words
        asks = self.asks_kept or other.asks_kept
        return Filter(see, f"({self.name} & {other.name})", signals, same, words, asks)

    def __bool__(self) -> NoReturn:
        raise ConfigError(
            f"{self.name} is a filter, and has no truth by itself: join filters with |, & and ~, "
            "not with or, and, not"
        )

    def __invert__(self) -> Filter[Event]:
        def see(event: Event, setting: Setting) -> Event | None:
            return event if self.see(event, setting) is None else None

        same = None if self.same is None else Same("~", frozenset({self.same}))
        return Filter(see, f"~{self.name}", same=same, asks_kept=self.asks_kept)


def pair(word: str, first: Same | None, second: Same | None) -> Same | None:
    """Return what two joined filters are the same as; None if one of them can't be compared."""
    return None if first is None or second is None else Same(word, frozenset({first, second}))


def covers(first: Same | None, second: Same | None) -> bool:
    """Return whether a filter surely takes all that another one does; False also where that can't be told."""
    if first is None or second is None:
        return False
    if first == second:
        return True
    if second.word == "|":
        return all(covers(first, part) for part in second.parts)
    if second.word == "&" and any(covers(first, part) for part in second.parts):
        return True
    if first.word == "|":
        return any(covers(part, second) for part in first.parts)
    if first.word == "&":
        return all(covers(part, second) for part in first.parts)
    return _covers_alone(first, second)


def _covers_alone(first: Same, second: Same) -> bool:
    every = not first.of
    match first.word, second.word:
        case ("message", "text" | "command" | "matches") | ("text", "command" | "matches"):
            return every or first.of == _TEXT
        case "text", "message":
            return every and second.of == _TEXT
        case ("pressed", "pressed") | ("message", "message"):
            return every or (all(_is_kind(narrow, first.of) for narrow in second.of) and bool(second.of))
        case ("text", "text") | ("command", "command"):
            return every or (bool(second.of) and second.of <= first.of)
        case ("by", "by") | ("in_chat", "in_chat"):
            return second.of <= first.of
        case ("signal", "signal") | ("paid", "paid"):
            return all(_is_kind(narrow, first.of) for narrow in second.of)
        case _:
            return False


def _is_kind(narrow: object, wide: Iterable[object]) -> bool:
    return isinstance(narrow, type) and any(
        isinstance(kind, type) and issubclass(narrow, kind) for kind in wide
    )


def check_filter(taken: object, who: str) -> None:
    """Refuse what is no filter.

    Raises:
        ConfigError: it isn't; `who` names what it was given to.
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
    """Refuse one of our functions that make filters, where what it makes was meant.

    Raises:
        ConfigError: it is one.
    """
    name = str(getattr(taken, "__name__", ""))
    if getattr(taken, "__module__", "") == __name__ and not isinstance(taken, type):
        raise ConfigError(f"{who} takes a filter, and {name} makes one: call it, as in {name}()")


@final
@guarded
class Command:
    """A ``/command``, typed or tapped on a keyboard.

    Attributes:
        name: without the slash, folded.
        rest: what followed it, without outer blanks.
    """

    chat_id: ChatId
    name: str
    rest: str = attrs.field(default="", repr=False)
    sender: Sender | None = None


# The second name is what records had before it had one that stays.
register(Command, name="triobot.Command", aliases=["triobot.conversations.filters.Command"])


def as_command(event: Event, setting: Setting) -> Command | None:
    """Read an event as a command for this bot, or None."""
    if not isinstance(event, Message) or not isinstance(event.content, str):
        return None
    if (typed := read_command(event.content)) is None:
        return None
    name, at, whose = typed[0].partition("@")
    if not name or (at and not (setting.username and whose == fold(setting.username))):
        return None
    return Command(event.chat_id, name, typed[1], event.sender)


@overload
def message(kind: type[C] | None = None) -> Filter[Message[C]]: ...  # type: ignore[overload-overlap]
@overload
def message(kind: type[Media]) -> Filter[Message[Image | Video | Audio | Voice | File]]: ...
def message(
    kind: type[C] | type[Media] | None = None,
) -> Filter[Message[C]] | Filter[Message[Image | Video | Audio | Voice | File]]:
    """Take messages; with `kind` only those whose content is of this class, such as `File` or `Media`."""
    if kind is None:
        return Filter(
            lambda event, _: event if isinstance(event, Message) else None, "message()", same=Same("message")
        )
    if kind not in (*CONTENT_CLASSES, Media):
        raise ConfigError(f"message() takes a content class, not {kind!r}")
    wanted = kind

    def look(event: Event, setting: Setting) -> Message[C] | None:
        if isinstance(event, Message) and isinstance(event.content, wanted):
            return cast("Message[C]", event)
        return None

    return Filter(look, f"message({kind.__name__})", same=Same("message", frozenset({kind})))


def text(*words: str) -> Filter[Message[str]]:
    """Take text messages: any, or those that are one of `words` once both are folded.

    Raises:
        ConfigError: one of them is no text.
    """
    _check_words(words, "text()", "a text, as in text('yes', 'no')")
    folded = {fold(word) for word in words}

    def look(event: Event, setting: Setting) -> Message[str] | None:
        if not isinstance(event, Message) or not isinstance(event.content, str):
            return None
        taken = cast("Message[str]", event)
        return taken if not folded or fold(event.content) in folded else None

    name = f"text({', '.join(words)})"
    return Filter(look, name, same=Same("text", frozenset(folded)), words=frozenset(words))


def command(*names: str) -> Filter[Command]:
    """Take ``/name``, ``/name arguments`` and ``/name@this-bot``; any command without `names`.

    Raises:
        ConfigError: one of them can't be a command's name.
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

    name = f"command({', '.join(names)})"
    typed = frozenset(f"/{name}" for name in folded)
    return Filter(look, name, same=Same("command", frozenset(folded)), words=typed)


def _check_words(words: Sequence[object], who: str, what: str) -> None:
    for word in words:
        if not isinstance(word, str):
            raise ConfigError(f"{who} takes words, each {what}; not a {type(word).__name__}")


def join() -> Filter[Join]:
    """Take joins."""
    return Filter(lambda event, _: event if isinstance(event, Join) else None, "join()", same=Same("join"))


def leave() -> Filter[Leave]:
    """Take leaves."""
    return Filter(lambda event, _: event if isinstance(event, Leave) else None, "leave()", same=Same("leave"))


def by(*sender_ids: int) -> Filter[Event]:
    """Take what these people sent.

    Args:
        sender_ids: whole numbers, as in `Sender.id`; names are no ids, and nobody's id is known before they
            have written.

    Raises:
        ConfigError: one of them is something else, or there is none.
    """
    wanted = check_ids(sender_ids, "by()", "a sender's id, such as chat.sender.id")

    def look(event: Event, setting: Setting) -> Event | None:
        return event if event.sender is not None and event.sender.id in wanted else None

    return Filter(look, "by(...)", same=Same("by", wanted))


def in_chat(*chat_ids: int) -> Filter[Event]:
    """Take what happens in these chats.

    Raises:
        ConfigError: one of the ids is no whole number, or there is none.
    """
    wanted = check_ids(chat_ids, "in_chat()", "a chat's id, such as chat.id")

    def look(event: Event, setting: Setting) -> Event | None:
        return event if event.chat_id in wanted else None

    return Filter(look, "in_chat(...)", same=Same("in_chat", wanted))


def check_ids(ids: Sequence[object], who: str, what: str) -> frozenset[int]:
    """Check that these are whole numbers, at least one; `who` takes them, and `what` they are.

    Raises:
        ConfigError: they are something else.
    """
    numbers = frozenset(id for id in ids if isinstance(id, int) and not isinstance(id, bool))
    if not ids or len(numbers) < len(set(map(repr, ids))):
        raise ConfigError(f"{who} takes whole numbers, each {what}")
    return numbers


def when(condition: Callable[[Event], bool]) -> Filter[Event]:
    """Take what `condition` says yes to. It must be quick and must not wait.

    Raises:
        ConfigError: it is no function, or an async one.
    """
    _check_condition(condition, "when()", "an event")
    same = _same_condition("when", condition)

    def see(event: Event, setting: Setting) -> Event | None:
        return event if setting.says(see, condition, event) else None

    return Filter(see, "when(...)", same=same)


def kept(key: ReadKey[S], condition: Callable[[S], bool] | None = None) -> Filter[Event]:
    """Take what happens in chats that keep something true under a key, or what `condition` says yes to.

    It looks once, when the event comes, at what the chat's conversations see; who got the event is what is
    recorded. What the chat keeps is read with the event, and only by bots of which a route asks. An empty
    slot is its key's default, and without one takes nothing. What is kept of a person or of the bot a filter
    can't ask: it can't wait.

    Args:
        condition: is given the value; as for `when`.

    Raises:
        ConfigError: this is no key, or the condition is no function, or an async one.

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
        return event if (value if condition is None else setting.says(see, condition, value)) else None

    own = isinstance(condition, Hashable)
    same = Same("kept", frozenset({(key.name, condition)})) if own else None
    return Filter(see, f"kept({key.name})", same=same, asks_kept=True)


def _check_condition(condition: object, who: str, given: str) -> None:
    if not callable(condition):
        raise ConfigError(f"{who} takes a function of {given} that says yes or no")
    if inspect.iscoroutinefunction(condition):
        # What it returns without being awaited would be a yes to everything.
        raise ConfigError(
            f"{who} takes a plain function: a filter can't wait; ask in the conversation instead"
        )


def _same_condition(word: str, condition: Callable[..., bool]) -> Same | None:
    return Same(word, frozenset({condition})) if isinstance(cast("object", condition), Hashable) else None


def pressed(kind: type[V] | None = None) -> Filter[Press[V]]:
    """Take presses of buttons whose key is of this class; `Press.value` is that key.

    For routes: buttons that `send` put there live as long as their message, also over restarts. The class's
    name and its fields travel with the button: after a change of either, old buttons are nobody's. The
    buttons of a question are that question's, and not taken.

    Args:
        kind: `str`, `int`, `bool`, `date`, `datetime`, `time`, `timedelta`, an Enum, or a frozen attrs class
            or dataclass. None: any press of an inline button, with its data undecoded.

    Raises:
        ConfigError: it is another class.

    Examples:
        >>> @attrs.frozen
        ... class Take:
        ...     order: int
        >>> @bot.aside(pressed(Take))
        ... async def take(chat: Chat[Press[Take]]) -> None:
        ...     await chat.answer(f"Order {chat.event.value.order} is yours.")
    """
    if kind is None:
        return Filter(
            lambda event, _: cast("Press[V]", event) if isinstance(event, Press) else None,
            "pressed()",
            same=Same("pressed"),
        )
    check_kind(kind)
    expect(kind, "pressed()")
    wanted = kind

    def look(event: Event, setting: Setting) -> Press[V] | None:
        if not isinstance(event, Press) or not isinstance(event.value, str):
            return None
        front, dot, text = event.value.partition(".")
        key = decode_key(wanted, text) if front == LASTING and dot else None
        return None if key is None else attrs.evolve(event, value=key)

    return Filter(look, f"pressed({kind.__name__})", same=Same("pressed", frozenset({kind})))


def signal(kind: type[S]) -> Filter[S]:
    """Take signals whose value is of this class, as that value; see `triobot.ChatRef.signal`.

    Raises:
        ConfigError: this is no class.
    """
    if not isinstance(cast("object", kind), type):
        raise ConfigError(f"signal() takes the class of what is told, such as signal(Shipped), not {kind!r}")
    expect(kind, "signal()")

    def see(event: Event, setting: Setting) -> S | None:
        found = cast("object", event)
        return found.value if isinstance(found, Signal) and isinstance(found.value, kind) else None

    return Filter(see, f"signal({kind.__name__})", True, Same("signal", frozenset({kind})))


def starting() -> Filter[Message[Content] | Join]:
    """Take what starts a conversation without a filter of its own: any message, any join."""
    return message() | join()


def nothing() -> Filter[Event]:
    """Take nothing: only code starts what has this filter."""
    return Filter(lambda event, _: None, "nothing")


@final
@attrs.define
class _Counted:
    left: float
    at: int
    seq: int


@final
class Flood:
    """Counts by sender: `per_minute` at once, and as many each minute after that."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._senders: OrderedDict[Hashable, _Counted] = OrderedDict()

    def __len__(self) -> int:
        return len(self._senders)

    def is_over(self, key: Hashable, seq: int, at: int) -> bool:
        """Count this event, and return whether it is one too many.

        Args:
            key: who sent it.
            seq: grows with each event; one that was let through is not counted again.
            at: when it arrived, in milliseconds; a clock that is set back counts as standing still.
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
    """Take what somebody sends beyond `per_minute` events a minute; for `Router.ignore`.

    Each person counts alone, in each chat; what comes without a sender counts for its chat. After a burst of
    `per_minute` as many a minute get through. Time is that of arrival: what waited while the bot was down is
    no flood. Each run of the bot counts from the beginning; payments and signals don't count.

    Raises:
        ConfigError: `per_minute` is no whole number of at least 1.

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
            raise TypeError("nothing is counted of an event that isn't stored yet")  # it is asked again then
        flood = cast("Flood", setting.memory.setdefault(own, Flood(per_minute)))
        key = (event.chat_id, None if event.sender is None else event.sender.id)
        return event if flood.is_over(key, setting.seq, setting.at) else None

    return Filter(see, f"flooding({per_minute})")


def is_payment(event: Event) -> bool:
    """Return whether this is a payment's callback: those never walk the routing table."""
    return isinstance(event, PayCallback | InvoiceCallback)
