"""Declared routes, the table of all routes, and checks that find contradictory declarations.

Every mistake raises an error before the first event. The error's text describes the correction.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum
from functools import cached_property, partial
from typing import Self, cast, final

import attrs

from ...base.frozen import guarded
from ...errors import ConfigError, LocalProtocolError
from ...seams.values import lasting_module
from ...wire.events import Event
from ...wire.rules import check_text
from .filters import Filter, KindPath, Kinds, refuse_uncalled, starting
from .schedules import Timetable


class RouteKind(Enum):
    """Kind of a route: decides what happens to the chat's live conversation when the route starts."""

    CONVERSATION = "conversation"
    """Starts if there is no live conversation."""

    INTERRUPT = "interrupt"
    """Ends and replaces the live conversation."""

    ASIDE = "aside"
    """Runs beside the live conversation, which continues."""

    ROOM = "room"
    """Runs in rooms of its own, not in chats."""

    JOB = "job"
    """Runs by the clock, in the bot's own room."""


@final
@guarded(eq=False)
class Hook:
    """Code around all routes of a router.

    Attributes:
        name: name under which the hook's operations are numbered.
        line: ``file:line`` of the declaration.
    """

    function: Callable[..., Awaitable[None]] = attrs.field(repr=False)
    name: str
    line: str

    @property
    def title(self) -> str:
        """The hook's description in errors."""
        return f"{self.line}: @around {self.name}"


@final
@guarded(eq=False)
class Route:
    """Declared coroutine function with its kind, its filter, and its name in logs and in the store.

    Attributes:
        bare: whether the route was declared without a filter.
        per_sender: whether each member of a group has a conversation of their own.
        version: version of the route's code.
        formerly: former names, oldest first.
        function: module and name of the function.
        line: ``file:line`` of the declaration.
        hooks: hooks around the function, outermost first.
        job: due times, if the route is a job.
    """

    kind: RouteKind
    handler: Callable[..., Awaitable[None]] = attrs.field(repr=False)
    filter: Filter[Event] = attrs.field(repr=False)
    name: str
    bare: bool = False
    per_sender: bool = False
    version: int = 1
    formerly: tuple[str, ...] = ()
    function: str = ""
    line: str = "?"
    hooks: tuple[Hook, ...] = ()
    job: Timetable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The current name, and all former names."""
        return (self.name, *self.formerly)

    def within(self, hooks: Sequence[Hook]) -> Route:
        """Return the route with additional hooks around its own hooks.

        Raises:
            ConfigError: two of the hooks have the same name.
        """
        if not hooks:
            return self
        check_hooks(around := (*hooks, *self.hooks))
        return attrs.evolve(self, hooks=around)

    @property
    def first_name(self) -> str:
        """The oldest name, which stays the same when the route is renamed."""
        return self.formerly[0] if self.formerly else self.name


@final
@guarded
class Ignored:
    """Filter of events to drop before routing, and the text that answers a dropped event, or ""."""

    filter: Filter[object]
    say: str = ""


@final
@guarded
class Table:
    """All routes by kind, in the order in which they are tried.

    Attributes:
        rooms: routes of rooms, tried only for signals to their own rooms.
        of_room: whether this is a room's table, which drops a signal that no route and no wait takes.
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
        """Put `hooks` around each route, and sort the routes into a table.

        Raises:
            ConfigError: declarations contradict one another, or there is no route.
        """
        if not routes:
            raise ConfigError("the bot has no route; declare one with @bot.conversation")
        routes = [route.within(hooks) for route in routes]

        def those(kind: RouteKind) -> tuple[Route, ...]:
            return tuple(route for route in routes if route.kind is kind)

        # A route with only its router's filter is tried late; a route for any message or join is tried last.
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
        _check_reachable(table)
        return table

    @property
    def routes(self) -> Sequence[Route]:
        """All routes, in the order in which they are tried; rooms and jobs last."""
        return (*self.interrupts, *self.asides, *self.conversations, *self.rooms, *self.jobs)

    @property
    def routes_of_chats(self) -> Sequence[Route]:
        """Routes that an event of a chat may start."""
        return [one for one in self.routes if one.filter.name != "nothing" and one not in self.rooms]

    @cached_property
    def asks_kept(self) -> bool:
        """Whether a filter reads the chat's data, which must then be loaded first."""
        filters = (*(one.filter for one in self.ignored), *(route.filter for route in self.routes))
        return any(one.asks_kept for one in filters)

    @property
    def functions(self) -> Sequence[Callable[..., Awaitable[None]]]:
        """All functions that a conversation may run: the routes' functions and their hooks."""
        hooks = (hook.function for route in self.routes for hook in route.hooks)
        return [*(route.handler for route in self.routes), *dict.fromkeys(hooks)]

    @property
    def per_sender(self) -> bool:
        """Whether members of a group may have conversations of their own."""
        return any(route.per_sender for route in self.conversations)

    def in_room(self, name: str | None) -> Table:
        """Return a room's table. The table has the route `name` or, if `name` is None, the jobs."""
        own = tuple(route for route in self.rooms if name in route.names)
        return Table((), (), (), own, of_room=True, jobs=self.jobs if name is None else ())

    def named(self, name: str) -> Route | None:
        """Return the route with this current or former name.

        A route with a ``name=`` is also found by its function's name, so that conversations stored before the
        renaming continue.
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
        """Return the route that was declared with the function `handler`.

        Args:
            args: arguments for the function besides the chat; None if the function isn't going to be called.
            who: description of the caller for errors, with the author's line.
            room: whether the route must be a room's route; if false, the route must be a route of chats.
            by: route of the calling conversation; a route of any kind, also a job, may continue as itself.

        Raises:
            ConfigError: the function is not a route, has a kind that `room` excludes, or doesn't accept the
                arguments.
        """
        for route in self.routes:
            if route.handler is handler:
                other = (route.kind is RouteKind.ROOM) is not room or route.job is not None
                if other and route is not by:
                    raise ConfigError(_not_of_sort(route, who, room=room))
                if args is not None:
                    check_arguments(handler, (None, *args), f"{who}: the arguments don't fit")
                return route
        name = route_name(handler) if callable(handler) else type(handler).__name__  # type: ignore[redundant-expr]
        sort, decorator = ("room", "@bot.room") if room else ("route", "@bot.aside, or another decorator")
        raise ConfigError(
            f"{who} takes a {sort}, and {name} is none; decorate it with {decorator} of the bot that runs"
        )


def _not_of_sort(route: Route, who: str, *, room: bool) -> str:
    sort, kind = "a room" if room else "a route of chats", route.kind.value
    begins = "the clock starts it" if route.job is not None else "it runs in chats"
    if route.kind is RouteKind.ROOM:
        called = route.function.rpartition(".")[2]
        begins = f"await chat.to({called}, key).signal(...) begins it"
    return f"{who} takes {sort}, and {route.name} is a {kind}: {begins}"


def route_name(handler: Callable[..., object]) -> str:
    """Return a function's name in logs and in the store."""
    return f"{lasting_module(handler.__module__)}.{getattr(handler, '__qualname__', repr(handler))}"


def check_name(name: object, what: str) -> str:
    """Return `name` if it is valid as a route's name. `what` is the argument's name for errors.

    Raises:
        ConfigError: the name can't be stored.
    """
    try:
        if "\0" not in check_text(what, name):
            return cast("str", name)
    except LocalProtocolError:
        pass
    raise ConfigError(f'{what}= takes what a route is called in the store, such as "order"')


def check_names(formerly: object) -> tuple[str, ...]:
    """Return a route's former names as a tuple, if they are valid.

    Raises:
        ConfigError: `formerly` is a single text or not iterable, or a name can't be stored.
    """
    # A single text is an iterable of texts, too.
    if isinstance(formerly, str) or not isinstance(formerly, Iterable):
        raise ConfigError('formerly= takes several names, as in formerly=("pizza.order",)')
    return tuple(check_name(name, "formerly") for name in cast("Iterable[object]", formerly))


def is_per_sender(per: object) -> bool:
    """Return whether `per` gives each member a conversation of their own.

    Raises:
        ConfigError: `per` is neither "chat" nor "sender".
    """
    if per not in ("chat", "sender"):
        raise ConfigError('per= is "chat" or "sender": whose the conversation is')
    return per == "sender"


def check_version(version: object) -> int:
    """Return `version` if it is valid as a route's version.

    Raises:
        ConfigError: `version` is not a whole number from 1.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError("version= is a whole number from 1; raise it when stored places no longer fit")
    return version


def check_arguments(handler: Callable[..., object], args: Sequence[object] | None, what: str) -> None:
    """Check that a function can be called with `args`.

    Args:
        args: the arguments; None if only the first, a chat, is known yet.

    Raises:
        ConfigError: the function doesn't accept the arguments.
    """
    try:
        signature = inspect.signature(handler)
        if args is None:
            signature.bind_partial(None)
        else:
            signature.bind(*args)
    except TypeError as error:
        raise ConfigError(f"{what}; {route_name(handler)}: {error}") from None
    except ValueError:  # the function has no signature to check
        pass


def check_function(
    function: object, decorator: str, takes: str, args: Sequence[object] | None = (None,)
) -> None:
    """Check, before the first call, that a decorated function is async and can be called with `args`.

    Args:
        takes: description of the function for errors, such as "of one argument".
        args: as for `check_arguments`.

    Raises:
        ConfigError: `function` is not async, or can't be called with `args`.
    """
    if not callable(function):
        raise ConfigError(f"{decorator} decorates an async function, not {function!r}")
    refuse_uncalled(function, decorator)
    check_arguments(function, args, f"{decorator} decorates a function {takes}")
    # functools.wraps may have put a plain function around an async one.
    plain = inspect.unwrap(function)
    if not (inspect.isroutine(plain) or isinstance(cast("object", plain), partial)):
        plain = type(plain).__call__  # an object with a __call__ method
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(plain)):
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise ConfigError(
            f"{decorator} decorates an async function, and {name} is none; declare it with `async def`, "
            "without `yield`"
        )


def check_new(route: Route, others: Iterable[Route]) -> None:
    """Check that the store and calls can distinguish a route from all earlier routes.

    Raises:
        ConfigError: another route has the same function or name. The error names the lines of both routes.
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
    """Check that a journal can distinguish the hooks around a route.

    Raises:
        ConfigError: two hooks have the same name. The error names the lines of both hooks.
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
    return route.bare and route.filter.kinds == starting().kinds


def _check_reachable(table: Table) -> None:
    """Check that each route can start: earlier filters must leave some of the route's events.

    Raises:
        ConfigError: a route can never start.
    """
    # The events that earlier filters take, indexed by one of the kinds of each alternative.
    before: dict[KindPath, list[tuple[frozenset[KindPath], str]]] = {}

    def add(kinds: Kinds, named: str) -> None:
        for every in kinds:
            before.setdefault(next(iter(every)), []).append((every, named))

    def taker_of(every: frozenset[KindPath]) -> str | None:
        wider = {path[:length] for path in every for length in range(1, len(path) + 1)}
        found = (one for kind in wider for one in before.get(kind, ()))
        return next((named for kinds, named in found if kinds <= wider), None)

    for one in table.ignored:
        add(one.filter.kinds, f"ignore({one.filter.name})")
    for route in (*table.interrupts, *table.asides, *table.conversations):
        kinds, named = route.filter.kinds, f"@{route.kind.value} {route.name} ({route.line})"
        paid = bool(kinds) and all(any(path[0] == "paid" for path in every) for every in kinds)
        if paid and route.kind is not RouteKind.ASIDE:
            raise ConfigError(
                f"{named} can never start: what was paid for is given by asides; declare it with @bot.aside"
            )
        takers = [taker_of(every) for every in kinds]
        if takers and None not in takers:
            names = " and ".join(dict.fromkeys(taker for taker in takers if taker))
            raise ConfigError(
                f"{named} can never start: before it {names} take{'' if ' and ' in names else 's'} all that "
                f"{route.filter.name} does; change its filter, or take one of them away"
            )
        add(kinds, named)
