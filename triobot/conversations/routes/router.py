"""Routers: declare which coroutine function an event starts. A bot is a router, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta, tzinfo
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    cast,
    final,
    overload,
)

import attrs
from typing_extensions import TypeVar

from ...errors import ConfigError
from ...wire.events import Event
from ..running.lines import calling_line, take_home
from .declarations import Hook as Hook
from .declarations import Ignored as Ignored
from .declarations import Route as Route
from .declarations import RouteKind as RouteKind
from .declarations import Table as Table
from .declarations import (
    check_function,
    check_hooks,
    check_name,
    check_names,
    check_new,
    check_version,
    is_per_sender,
    route_name,
)
from .filters import Filter, Setting, check_filter, nothing, starting
from .schedules import Tick as Tick
from .schedules import Timetable, job_of

if TYPE_CHECKING:
    from ..chat import Chat, Room

E = TypeVar("E")
E_given = TypeVar("E_given", default=object)
Plain = TypeVar("Plain")
Given = TypeVar("Given")
P = ParamSpec("P")

Handler: TypeAlias = Callable[Concatenate[Given, P], Awaitable[None]]
ChatDeclaration: TypeAlias = "Declaration[Chat[object], Chat[E]]"
RoomDeclaration: TypeAlias = "Declaration[Room[object], Room[E]]"
Around: TypeAlias = "Callable[[Room[object], Callable[[], Awaitable[None]]], Awaitable[None]]"
PerName: TypeAlias = Literal["chat", "sender"]
MissedName: TypeAlias = Literal["once", "all", "skip"]


# Default filter of an aside. Not None: an author who passes None has made a mistake.
_ONLY_BY_CODE: Final[Filter[Any]] = nothing()


_IN_NO_CHAT: Final = frozenset({RouteKind.ROOM, RouteKind.JOB})


async def _undecorated(_: object) -> None:
    raise AssertionError("the decorator has not been applied")


@final
class Declaration(Generic[Plain, Given]):
    """Decorator for a coroutine function that takes a `Given`, or a `Plain` for events of any type."""

    def __init__(self, add: Callable[[Callable[..., Awaitable[None]]], None]) -> None:
        self._add = add

    @overload
    def __call__(self, handler: Handler[Plain, P], /) -> Handler[Plain, P]: ...
    @overload
    def __call__(self, handler: Handler[Given, P], /) -> Handler[Given, P]: ...
    def __call__(self, handler: Handler[Any, P], /) -> Handler[Any, P]:
        self._add(handler)
        return handler


class Router:
    """Collection of routes, in the order of their lines; a bot includes the routers of other modules.

    A router contains only declarations, no state of a running bot. Each function is declared once. Invalid
    declarations raise an error when they are executed, or when the bot starts.

    Args:
        when: filter that all routes of this router share, in addition to their own; the filter also applies
            to `ignore`, and to the routers that this router includes.

    Examples:
        >>> admin = Router(when=by(17))
        >>> @admin.aside(command("ban"))
        ... async def ban(chat: Chat[Command]) -> None: ...
        >>> bot.include(admin)
    """

    def __init__(self, *, when: Filter[object] | None = None) -> None:
        if when is not None:
            check_filter(when, "Router(when=)")
        self._when = when
        self._routes: list[Route] = []
        self._ignored: list[Ignored] = []
        self._hooks: list[Hook] = []

    @overload
    def conversation(self, handler: Handler[Chat[object], P], /) -> Handler[Chat[object], P]: ...
    @overload
    def conversation(
        self,
        taken: Filter[E_given] = ...,  # pyright: ignore[reportInvalidTypeVarUse]
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        per: PerName = "chat",
        version: int = 1,
    ) -> ChatDeclaration[E_given]: ...
    def conversation(
        self,
        taken: Handler[Chat[object], P] | Filter[E] | None = None,
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        per: PerName = "chat",
        version: int = 1,
    ) -> Handler[Chat[object], P] | ChatDeclaration[E] | ChatDeclaration[object]:
        """Declare a conversation: a route that starts when the chat has no live conversation.

        A conversation without a filter starts with any message or join, and is tried last. A conversation
        that only has its router's filter is tried before the conversation without any filter.

        Args:
            name: the route's name in the store and in logs, unchanged when the function is moved. The
                default is the function's module and name; with this default, a moved or renamed function is
                another route.
            formerly: former names, oldest first, as ``triobot journal list`` shows them. Conversations stored
                under one of these names continue with this route. The function's own name needs no entry.
            per: owner of the conversation. With ``"sender"``, each member of a group has a conversation of
                their own, which only gets events of that member.
            version: version of the code, from 1. Raise the version if stored conversations of older versions
                don't fit the new code.

        Raises:
            ConfigError: an argument is invalid, or another route has the same function or name.
        """
        kind = RouteKind.CONVERSATION
        if isinstance(taken, Filter):
            return self._declare(kind, taken, name, formerly, version, per)
        declaration = self._declare(kind, starting(), name, formerly, version, per, bare=True)
        if taken is None:
            return declaration
        if not callable(taken):
            check_filter(taken, "@conversation")
        return declaration(taken)

    def interrupt(
        self,
        taken: Filter[E],
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
    ) -> ChatDeclaration[E]:
        """Declare an interrupt: a route that ends and replaces the chat's live conversation.

        Args:
            name, formerly, version: as for `conversation`.
        """
        check_filter(taken, "@interrupt")
        return self._declare(RouteKind.INTERRUPT, taken, name, formerly, version)

    @overload
    def aside(self, handler: Handler[Chat[object], P], /) -> Handler[Chat[object], P]: ...
    @overload
    def aside(
        self,
        taken: Filter[E_given] = ...,  # pyright: ignore[reportInvalidTypeVarUse]
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
    ) -> ChatDeclaration[E_given]: ...
    def aside(
        self,
        taken: Handler[Chat[object], P] | Filter[E] = _ONLY_BY_CODE,
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
    ) -> Handler[Chat[object], P] | ChatDeclaration[E] | ChatDeclaration[object]:
        """Declare an aside: a route that runs beside the live conversation, which continues.

        Without a filter, only code starts the aside, with `Chat.start` or `ChatRef.start`. The function
        of an aside without a filter may take arguments besides the chat.

        Args:
            name, formerly, version: as for `conversation`.
        """
        given = taken if isinstance(taken, Filter) else _ONLY_BY_CODE
        bare = given is _ONLY_BY_CODE
        declaration = self._declare(RouteKind.ASIDE, given, name, formerly, version, bare=bare)
        if isinstance(taken, Filter):
            return declaration
        if not callable(taken):
            check_filter(taken, "@aside")
        return declaration(taken)

    def room(
        self, taken: Filter[E], /, *, name: str | None = None, formerly: Sequence[str] = (), version: int = 1
    ) -> RoomDeclaration[E]:
        """Declare a kind of room: code outside of any chat that coordinates several chats.

        A room's code decides, waits and keeps deadlines. A kind has one room for each key; `Room.to` and
        `Bot.to` refer to a room. In each room, the function starts with the first signal that the filter
        takes; `Room.event` is the signal. Only one run is active at a time. After a run's end, the next
        signal that the filter takes starts the function anew. Signals that arrive during a run wait for
        `Room.receive`. Signals that are left at a run's end, or that arrive between runs, start a run or are
        dropped and counted. So a run gets only signals that arrived after the signal that started the run.

        A room's data outlive its coroutine. The coroutine may run for years. Like every conversation, a room
        survives the process, and is parked if its code doesn't fit its journal. Signals to a parked room
        wait.

        Args:
            taken: filter made with `triobot.filters.signal`. Events of chats never start a room, and the
                router's ``when`` doesn't apply.
            name, formerly, version: as for `conversation`. A key's room depends on the oldest name of the
                route: without ``name=``, on the function's module and name.

        Raises:
            ConfigError: the filter takes no signals.

        Examples:
            >>> @bot.room(signal(Wants))
            ... async def lobby(room: Room[Wants]) -> None:
            ...     one = room.event
            ...     two = await room.receive(signal(Wants).where(lambda other: other.chat != one.chat))
            ...     for player in (one, two):
            ...         await room.to(player.chat).send("You have an opponent.")
        """
        check_filter(taken, "@room")
        if not taken.signals:
            raise ConfigError(
                f"@room takes signals, and {taken.name} takes none; say which one begins it, as in "
                "@bot.room(signal(Begin))"
            )
        return self._declare(RouteKind.ROOM, taken, name, formerly, version)

    @overload
    def every(
        self,
        cron: str,
        /,
        *,
        tz: tzinfo,
        missed: MissedName = "once",
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
    ) -> RoomDeclaration[Tick]: ...
    @overload
    def every(
        self,
        interval: timedelta,
        /,
        *,
        missed: MissedName = "once",
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
    ) -> RoomDeclaration[Tick]: ...
    def every(
        self,
        when: str | timedelta,
        /,
        *,
        tz: tzinfo | None = None,
        missed: MissedName = "once",
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
    ) -> RoomDeclaration[Tick]:
        """Declare a job: a conversation that starts by the clock, in the bot's own room.

        A job's runs survive restarts. Each due time starts at most one run, even across crashes. A job never
        has two runs at once. A run can send to chats, start conversations in chats and run steps; its data
        are the bot's own (`Room.data`). A run can't ask users. A failed run is reported by `Bot.on_error` and
        the alarm ``job_failed``, and is not repeated. The next due time is not affected.

        A job is identified by its name across deploys. The due times of a new job, or of a job with a changed
        expression, zone or interval, are counted from now on.

        Args:
            when: a cron expression of five fields; or an interval of at least ten seconds. The due times are
                the whole multiples of the interval since the beginning of 1970 in UTC.
            tz: zone of the expression, `UTC` or a `ZoneInfo`. If summer time skips 02:30, a job of 02:30 runs
                at the end of the gap. If 02:30 occurs twice, the job runs once, but ``*/30`` runs in both
                hours.
            missed: policy for due times at which no run could start, because no bot ran or the former run
                still ran. ``"once"``: one run for all missed due times; `Tick.due` is the last one.
                ``"all"``: one run for each due time, in order, but only for the newest 1,000. ``"skip"``: no
                run, except for a due time less than a minute ago. `Tick.missed` is the number of due times
                without a run.
            name, formerly, version: as for `conversation`.

        Raises:
            ConfigError: the expression is invalid or never due, `tz` is missing, or the interval is too
                short.

        Cancellation: as for every conversation: a stop of the program ends no run.

        Examples:
            >>> @bot.every("0 9 * * SAT", tz=ZoneInfo("Asia/Tehran"))
            ... async def weekly(job: Room[Tick]) -> None:
            ...     await job.to(chat_id).send(f"Week {job.event.due:%V} begins.")
            >>> @bot.every(timedelta(minutes=10))
            ... async def poll(job: Room[Tick]) -> None:
            ...     await job.step(fetch)
        """
        job = job_of(when, tz, missed)
        return self._declare(RouteKind.JOB, _ONLY_BY_CODE, name, formerly, version, bare=True, job=job)

    def around(self, hook: Around, /) -> Around:
        """Declare a hook around every conversation, interrupt, aside, room and job of this router.

        The hook is the outer code of each route's coroutine. ``await call()`` runs the inner code (further
        hooks, and the route's function) to its end, across restarts. If a hook doesn't await ``call()``, the
        route's function doesn't run, and the conversation ends without a message. A bot's hooks are outside
        of the hooks of included routers. The hooks of one router are nested in the order of their lines, the
        first outermost.

        A hook follows the rules of conversations. Hooks' operations are recorded, once for each conversation;
        all other code runs again at each revival, see `Room.replaying`. A hook's operations are numbered
        under the hook's name, separately from the function's operations. So a hook without operations may be
        added, removed and moved while conversations wait. To change a hook with operations, use
        `Room.patched`, as for any code. A hook is identified by its module and name.

        Errors and cancellations pass through the hook. The code after ``await call()`` runs when the function
        has ended, and again if the process crashes before the hook's end is stored. The function's normal end
        settles a payment, whatever the hook does after that. A second ``call``, or a ``call`` in a child
        task, is your program's fault, and raises an error.

        Hooks don't apply to functions awaited inside a conversation, to steps, or to filters.

        Args:
            hook: an async function of two arguments, which is returned unchanged. The first is the room (a
                `Chat` in chats), the second is `call`.

        Raises:
            ConfigError: `hook` is not async, doesn't accept two arguments, or has the same name as another
                hook around the same routes.

        Cancellation: as in a route's function: the conversation's end cancels the next operation. Code in
        ``finally`` also runs at each eviction.

        Examples:
            >>> @bot.around
            ... async def timed(room: Room, call: Callable[[], Awaitable[None]]) -> None:
            ...     began = room.now()
            ...     await call()
            ...     log.info("%s took %s", room.route, room.now() - began)
        """
        check_function(hook, "@around", "of two arguments, a room and call", (None, None))
        take_home(hook.__module__)
        self._hooks.append(Hook(hook, route_name(hook), calling_line()))
        check_hooks(self._hooks)
        return hook

    def ignore(self, taken: Filter[object], /, *, say: str = "") -> None:
        """Drop and count events that the filter takes, before any route is tried.

        Args:
            say: text that answers a dropped event, at most once a minute; a crash may lose the answer. A
                press is always answered, with this text.

        Examples:
            >>> bot.ignore(flooding(per_minute=30), say="Slowly, please: I can't keep up.")
        """
        check_filter(taken, "ignore()")
        if not isinstance(cast("object", say), str):
            raise ConfigError("ignore(say=) takes a text")
        self._ignored.append(Ignored(self._behind(taken), say))

    def include(self, router: Router, /) -> None:
        """Add the routes of `router`, wrapped in that router's hooks, after the routes declared so far.

        Routes that the router declares later are not added.

        Raises:
            ConfigError: `router` is not another `Router`, or has a route with the function or name of a route
                of this router.
        """
        if not isinstance(cast("object", router), Router) or router is self:
            raise ConfigError("include() takes another Router")
        for route in router._routes:
            check_new(route, self._routes)
            taken = route.filter if route.kind in _IN_NO_CHAT else self._behind(route.filter)
            self._routes.append(attrs.evolve(route, filter=taken).within(router._hooks))
        self._ignored.extend(Ignored(self._behind(one.filter), one.say) for one in router._ignored)

    def _declare(
        self,
        kind: RouteKind,
        taken: Filter[Any],
        name: object,
        formerly: object,
        version: object,
        per: object = "chat",
        *,
        bare: bool = False,
        job: Timetable | None = None,
    ) -> Declaration[Any, Any]:
        """Check the options, and return a decorator that adds the decorated function as a route."""
        named, owner = "" if name is None else check_name(name, "name"), is_per_sender(per)
        former, number = check_names(formerly), check_version(version)
        route = Route(kind, _undecorated, taken, named, bare, owner, number, former, job=job)
        return Declaration(partial(self._add, route))

    def _add(self, route: Route, handler: Callable[..., Awaitable[None]]) -> None:
        kind = route.kind
        only_code = kind is RouteKind.ASIDE and route.bare
        place = "room" if kind in _IN_NO_CHAT else "chat"
        takes = "a chat" if only_code else f"one argument, the {place}"
        others = "" if only_code or kind in _IN_NO_CHAT else "; an @aside without a filter may take more"
        check_function(
            handler,
            "@every" if kind is RouteKind.JOB else f"@{kind.value}",
            f"of {takes}, as in async def f({place}: {place.title()}){others}",
            None if only_code else (None,),
        )
        take_home(handler.__module__)
        function = route_name(handler)
        # Type checkers have compared the filter's type with the handler's at the decorator; the route doesn't
        # keep these types.
        route = attrs.evolve(
            route,
            handler=handler,
            filter=route.filter if kind in _IN_NO_CHAT else self._behind(route.filter),
            name=route.name or function,
            formerly=tuple(dict.fromkeys(name for name in route.formerly if name != route.name)),
            function=function,
            line=calling_line(),
        )
        check_new(route, self._routes)
        self._routes.append(route)

    def _behind(self, taken: Filter[E]) -> Filter[E]:
        """Return the filter joined with the router's `when`.

        `when` is tried first: a counting filter must count only events of this router.
        """
        shared = self._when
        if shared is None:
            return taken

        def see(event: Event, setting: Setting) -> E | None:
            return None if shared.see(event, setting) is None else taken.see(event, setting)

        name = f"({shared.name} & {taken.name})"
        return attrs.evolve(taken & shared, see=see, name=name, signals=taken.signals)


def table_of(router: Router) -> Table:
    """Return the declared routes as a table for the dispatcher.

    Raises:
        ConfigError: declarations contradict one another, or there is no route.
    """
    return Table.of(router._routes, router._ignored, router._hooks)  # pyright: ignore[reportPrivateUsage]
