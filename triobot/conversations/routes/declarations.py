"""What is declared: a route, and the table of all; and what makes no sense among them.

Every mistake is found before the first event, and its error says what to do.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property, partial
from typing import Final, Self, cast, final

import attrs

from ...base.frozen import guarded
from ...errors import ConfigError, LocalProtocolError
from ...seams.values import lasting_module
from ...wire.events import Event
from ...wire.rules import check_text
from .filters import Filter, Same, covers, starting
from .schedules import Timetable


class RouteKind(Enum):
    """What starting a route does to the chat's live conversation."""

    CONVERSATION = "conversation"
    """Starts when there is none."""

    INTERRUPT = "interrupt"
    """Ends it, then is the live one."""

    ASIDE = "aside"
    """Runs beside it and leaves it alone."""

    ROOM = "room"
    """Runs in rooms of its own, in no chat."""

    JOB = "job"
    """Runs by the clock, in the bot's own room."""


class Per(Enum):
    """Whose a conversation is."""

    CHAT = "chat"
    SENDER = "sender"


@final
@guarded(eq=False)
class Hook:
    """What is around all routes of a router.

    Attributes:
        name: under which its operations are numbered.
        line: ``file:line`` of its declaration.
    """

    function: Callable[..., Awaitable[None]] = attrs.field(repr=False)
    name: str
    line: str

    @property
    def told(self) -> str:
        """Return how an error names it."""
        return f"{self.line}: @around {self.name}"


@final
@guarded(eq=False)
class Route:
    """One declared coroutine: its kind, what starts it, its name in logs and in the store.

    Attributes:
        bare: declared without a filter.
        per: whose a conversation of it is.
        version: of its code.
        durable: its place is meant to survive the process.
        formerly: names that it had before, oldest first.
        function: the name that it would have by itself.
        line: ``file:line`` of its declaration.
        hooks: around its function, the outermost first.
        job: when it runs, if that is by the clock.
    """

    kind: RouteKind
    handler: Callable[..., Awaitable[None]] = attrs.field(repr=False)
    filter: Filter[Event] = attrs.field(repr=False)
    name: str
    bare: bool = False
    per: Per = Per.CHAT
    version: int = 1
    durable: bool = True
    formerly: tuple[str, ...] = ()
    function: str = ""
    line: str = "?"
    hooks: tuple[Hook, ...] = ()
    job: Timetable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return its name and those that it had before."""
        return (self.name, *self.formerly)

    def within(self, hooks: Sequence[Hook]) -> Route:
        """Return it with these hooks around those that it has.

        Raises:
            ConfigError: two of them have the same name.
        """
        if not hooks:
            return self
        check_hooks(around := (*hooks, *self.hooks))
        return attrs.evolve(self, hooks=around)

    @property
    def first_name(self) -> str:
        """Return the oldest of its names, which stays when another is given."""
        return self.formerly[0] if self.formerly else self.name


@final
@guarded
class Ignored:
    """What is dropped before anything else sees it, and what the chat hears of it; nothing when empty."""

    filter: Filter[object]
    say: str = ""


@final
@guarded
class Table:
    """All routes, by kind, in the order in which they are tried.

    Attributes:
        rooms: those that run in no chat, and are tried by the signals to their own rooms only.
        of_room: it is that of a room, where a signal that nothing takes is dropped.
    """

    ignored: Sequence[Ignored]
    interrupts: Sequence[Route]
    asides: Sequence[Route]
    conversations: Sequence[Route]
    rooms: Sequence[Route] = ()
    of_room: bool = False
    jobs: Sequence[Route] = ()

    @classmethod
    def of(cls, routes: Sequence[Route], ignored: Sequence[Ignored], hooks: Sequence[Hook] = ()) -> Self:
        """Put the routes in order, and the hooks that are around all of them around each.

        Raises:
            ConfigError: declarations that contradict one another, or nothing at all.
        """
        if not routes:
            raise ConfigError("the bot has no route; declare one with @bot.conversation")
        routes = [route.within(hooks) for route in routes]

        def those(kind: RouteKind) -> tuple[Route, ...]:
            return tuple(route for route in routes if route.kind is kind)

        # Last of all the one that takes what anybody says, then those that only their router's filter limits.
        conversations = sorted(
            those(RouteKind.CONVERSATION), key=lambda route: (route.bare, _takes_all(route))
        )
        table = cls(
            tuple(ignored),
            those(RouteKind.INTERRUPT),
            those(RouteKind.ASIDE),
            tuple(conversations),
            those(RouteKind.ROOM),
            jobs=those(RouteKind.JOB),
        )
        _check_bare(conversations)
        _check_reachable(table)
        return table

    @property
    def routes(self) -> Sequence[Route]:
        """Return all routes, in the order in which they are tried; rooms and jobs last."""
        return (*self.interrupts, *self.asides, *self.conversations, *self.rooms, *self.jobs)

    @property
    def routes_of_chats(self) -> Sequence[Route]:
        """Return all routes that an event of a chat may begin."""
        return [one for one in self.routes if one.filter.name != "nothing" and one not in self.rooms]

    @cached_property
    def asks_kept(self) -> bool:
        """Return whether a filter looks at what the chat keeps, which is to be read first then."""
        filters = (*(one.filter for one in self.ignored), *(route.filter for route in self.routes))
        return any(one.asks_kept for one in filters)

    @property
    def functions(self) -> Sequence[Callable[..., Awaitable[None]]]:
        """Return all that a conversation may run: the routes' functions, and their hooks."""
        hooks = (hook.function for route in self.routes for hook in route.hooks)
        return [*(route.handler for route in self.routes), *dict.fromkeys(hooks)]

    @property
    def per_sender(self) -> bool:
        """Return whether members of a group may have conversations of their own."""
        return any(route.per is Per.SENDER for route in self.conversations)

    def in_room(self, name: str | None) -> Table:
        """Return what may begin in a room of this name: its own route, or nothing; in the bot's, jobs."""
        own = tuple(route for route in self.rooms if name in route.names)
        return Table((), (), (), own, of_room=True, jobs=self.jobs if name is None else ())

    def named(self, name: str) -> Route | None:
        """Return the route that has this name, or had it.

        A route that was given a name is also found by its function's: what was stored before goes on.
        """
        routes = self.routes
        if found := next((one for one in routes if name == one.name or name in one.formerly), None):
            return found
        by_function = [route for route in routes if route.function == name]
        return by_function[0] if len(by_function) == 1 else None

    def route_of(
        self,
        handler: Callable[..., object],
        args: Sequence[object] | None,
        who: str,
        *,
        room: bool = False,
        by: Route | None = None,
    ) -> Route:
        """Return the route that this function was declared as.

        Args:
            args: what it is to get besides the chat; None if it is not to be called.
            who: names what it was given to, with the author's line.
            room: it is to be a room's; otherwise it must not be.
            by: whose run asks, which may go on as itself, whatever it is.

        Raises:
            ConfigError: it is no route, or one of the other sort, or doesn't take these arguments.
        """
        for route in self.routes:
            if route.handler is handler:
                other = (route.kind is RouteKind.ROOM) is not room or route.job is not None
                if other and route is not by:
                    raise ConfigError(_not_of_sort(route, who, room=room))
                if args is not None:
                    check_arguments(handler, args, f"{who}: the arguments don't fit")
                return route
        name = route_name(handler) if callable(handler) else type(handler).__name__  # type: ignore[redundant-expr]
        sort, decorator = ("room", "@bot.room") if room else ("route", "@bot.aside, or another decorator")
        raise ConfigError(
            f"{who} takes a {sort}, and {name} is none; decorate it with {decorator} of the bot that runs"
        )


def _not_of_sort(route: Route, who: str, *, room: bool) -> str:
    if route.job is not None:
        return (
            f"{who} takes a {'room' if room else 'route of chats'}, and {route.name} is a job, which the "
            f"clock starts; `triobot jobs run {route.name}` does so by hand"
        )
    if room:
        return f"{who} takes a room, and {route.name} is @{route.kind.value}: it runs in chats"
    return (
        f"{who} takes a route of chats, and {route.name} is a room, which begins by what it is told: "
        f"await chat.to({route.function.rpartition('.')[2]}, key).signal(...)"
    )


def route_name(handler: Callable[..., object]) -> str:
    """Return a function's name in logs and in the store."""
    return f"{lasting_module(handler.__module__)}.{getattr(handler, '__qualname__', repr(handler))}"


def check_name(name: object, what: str) -> str:
    """Check a route's name, and return it.

    Raises:
        ConfigError: it can't be stored; `what` is the argument.
    """
    try:
        if "\0" not in check_text(what, name):
            return cast("str", name)
    except LocalProtocolError:
        pass
    raise ConfigError(f"{what}= says what a route is called in the store, as in {what}={_EXAMPLES[what]}")


_EXAMPLES: Final = {"name": '"order"', "formerly": '("pizza.order",)'}


def check_names(formerly: object) -> tuple[str, ...]:
    """Check the names that a route had before, and return them.

    Raises:
        ConfigError: they are none.
    """
    # A text is a sequence of texts, too.
    if isinstance(formerly, str) or not isinstance(formerly, Iterable):
        raise ConfigError(f"formerly= takes several names, as in formerly={_EXAMPLES['formerly']}")
    return tuple(check_name(name, "formerly") for name in cast("Iterable[object]", formerly))


def per_of(per: object) -> Per:
    """Return whose a conversation is, by its word.

    Raises:
        ConfigError: there is no such word.
    """
    try:
        return Per(per)
    except ValueError:
        raise ConfigError('per= is "chat" or "sender": whose the conversation is') from None


def check_version(version: object) -> int:
    """Check a route's version, and return it.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError("version= is a whole number from 1; raise it when stored places no longer fit")
    return version


def check_arguments(handler: Callable[..., object], args: Sequence[object] | None, what: str) -> None:
    """Refuse a function that can't be called with a chat and these arguments.

    Args:
        args: what it gets besides the chat; None if nobody knows yet.

    Raises:
        ConfigError: it can't be.
    """
    try:
        signature = inspect.signature(handler)
        if args is None:
            signature.bind_partial(None)
        else:
            signature.bind(None, *args)
    except TypeError as error:
        raise ConfigError(f"{what}; {route_name(handler)}: {error}") from None
    except ValueError:  # it has no signature to look at
        pass


def check_async(handler: Callable[..., object], who: str) -> None:
    """Refuse a function that can't be awaited, before it is called for the first time.

    Raises:
        ConfigError: it can't be; `who` names what it was given to.
    """
    plain: object = handler
    while isinstance(plain, partial):
        plain = cast("partial[object]", plain).func
    if not inspect.isroutine(plain):
        plain = type(plain).__call__  # an object that is called like a function
    # What functools.wraps has wrapped may be a plain function around an async one.
    last = inspect.unwrap(cast("Callable[..., object]", plain))
    if inspect.isroutine(plain) and not (
        inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(last)
    ):
        name = getattr(handler, "__qualname__", type(handler).__qualname__)
        raise ConfigError(
            f"{who} an async function, and {name} is none; declare it with `async def`, without `yield`"
        )


def check_new(route: Route, others: Iterable[Route]) -> None:
    """Refuse a route that the store, or a call, could not tell from one that was declared before.

    Raises:
        ConfigError: there is such a one; names both lines.
    """
    for other in others:
        if other.handler is route.handler:
            raise ConfigError(
                f"{route.name} is declared twice, as {other.kind.value} and as {route.kind.value}, at "
                f"{other.line} and at {route.line}; join the filters with |, or give each declaration a "
                "function of its own"
            )
        if same := [name for name in route.names if name in other.names]:
            raise ConfigError(
                f"two routes are called {same[0]}, at {other.line} and at {route.line}; the store tells them "
                "by their names, the former ones included: rename one, or give it a name="
            )


def check_hooks(hooks: Iterable[Hook]) -> None:
    """Refuse hooks around one route that its journal could not tell from one another.

    Raises:
        ConfigError: two have the same name; names both lines.
    """
    by_name: dict[str, Hook] = {}
    for hook in hooks:
        if (other := by_name.setdefault(hook.name, hook)) is not hook:
            raise ConfigError(
                f"two hooks around the same routes are called {hook.name}, at {other.line} and at "
                f"{hook.line}; journals tell them by their names: take one away, or give each a function of "
                "its own"
            )


def _takes_all(route: Route) -> bool:
    """Return whether neither a filter nor a router limits what a route takes."""
    return route.bare and route.filter.same == starting().same


def _check_bare(conversations: Sequence[Route]) -> None:
    bare = [route.name for route in conversations if _takes_all(route)]
    if len(bare) > 1:
        raise ConfigError(f"two conversations have no filter: {bare[0]} and {bare[1]}; give one a filter")


def _check_reachable(table: Table) -> None:
    """Refuse a route that could never start, since those before it take all that its filter takes."""
    before: list[tuple[Same, str]] = [
        (one.filter.same, f"ignore({one.filter.name})")
        for one in table.ignored
        if one.filter.same is not None
    ]
    for route in (*table.interrupts, *table.asides, *table.conversations):
        same, named = route.filter.same, f"@{route.kind.value} {route.name} ({route.line})"
        paid = same is not None and same.word == "paid"
        if paid and route.kind is not RouteKind.ASIDE:
            raise ConfigError(
                f"{named} can never start: what was paid for is given by asides; declare it with @bot.aside"
            )
        takers = [_taker(part, before) for part in _parts(same)]
        if same is not None and None not in takers:
            names = " and ".join(dict.fromkeys(taker for taker in takers if taker))
            raise ConfigError(
                f"{named} can never start: before it {names} take{'' if ' and ' in names else 's'} all that "
                f"{route.filter.name} does; change its filter, or take one of them away"
            )
        if same is not None:
            before.append((same, named))


def _parts(same: Same | None) -> Iterator[Same | None]:
    """Yield what is taken by one or another, each by itself."""
    if same is not None and same.word == "|":
        for part in same.parts:
            yield from _parts(part)
    elif same is not None and same.word in ("text", "command") and same.of:
        yield from (Same(same.word, frozenset({word})) for word in same.of)
    else:
        yield same


def _taker(same: Same | None, before: Iterable[tuple[Same, str]]) -> str | None:
    return next((name for earlier, name in before if covers(earlier, same)), None)
