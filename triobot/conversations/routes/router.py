"""Routes: which coroutine an event starts. A `Router` collects them; a bot is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta, tzinfo
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

from ...base.frozen import guarded
from ...errors import ConfigError
from ...wire.events import Event
from ..running.lines import calling_line, take_home
from .declarations import Hook as Hook
from .declarations import Ignored as Ignored
from .declarations import Per as Per
from .declarations import Route as Route
from .declarations import RouteKind as RouteKind
from .declarations import Table as Table
from .declarations import (
    check_arguments,
    check_async,
    check_hooks,
    check_name,
    check_names,
    check_new,
    check_version,
    per_of,
    route_name,
)
from .filters import Filter, Setting, check_filter, nothing, refuse_uncalled, starting
from .schedules import Tick as Tick
from .schedules import Timetable, job_of

if TYPE_CHECKING:
    from ..chat import Chat, Room

E = TypeVar("E")
E_given = TypeVar("E_given", default=object)
E_co = TypeVar("E_co", covariant=True)
P = ParamSpec("P")

Handler: TypeAlias = "Callable[Concatenate[Chat[E], P], Awaitable[None]]"
Around: TypeAlias = "Callable[[Room[object], Callable[[], Awaitable[None]]], Awaitable[None]]"
RoomHandler: TypeAlias = "Callable[[Room[E]], Awaitable[None]]"
PerName: TypeAlias = Literal["chat", "sender"]
MissedName: TypeAlias = Literal["once", "all", "skip"]


# An aside's filter where none was given: None is a mistake, such as a filter that was not made.
_ONLY_BY_CODE: Final[Filter[Any]] = nothing()


_IN_NO_CHAT: Final = frozenset({RouteKind.ROOM, RouteKind.JOB})


@final
@guarded
class _Options:
    """What a declaration says besides its filter."""

    per: Per = Per.CHAT
    version: int = 1
    durable: bool = True
    bare: bool = False
    name: str | None = None
    formerly: tuple[str, ...] = ()
    job: Timetable | None = None

    @classmethod
    def of(
        cls, name: object, formerly: object, version: object, durable: object, per: object = "chat"
    ) -> _Options:
        return cls(
            per_of(per),
            check_version(version),
            bool(durable),
            name=None if name is None else check_name(name, "name"),
            formerly=check_names(formerly),
        )


@final
class Declaration(Generic[E_co]):
    """A decorator for a coroutine function that takes a `Chat` of the filter's type; gives it back."""

    def __init__(
        self, router: Router, kind: RouteKind, taken: Filter[E_co], options: _Options | None = None
    ) -> None:
        self._router, self._kind, self._filter = router, kind, taken
        self._options = options or _Options()

    @overload
    def __call__(self, handler: Handler[object, P], /) -> Handler[object, P]: ...
    @overload
    def __call__(self, handler: Handler[E_co, P], /) -> Handler[E_co, P]: ...
    def __call__(
        self, handler: Handler[E_co, P] | Handler[object, P], /
    ) -> Handler[E_co, P] | Handler[object, P]:
        self._router._add(  # pyright: ignore[reportPrivateUsage]
            self._kind, handler, self._filter, self._options
        )
        return handler


@final
class RoomDeclaration(Generic[E_co]):
    """A decorator for a coroutine function that takes a `Room` of the filter's type; gives it back."""

    def __init__(self, router: Router, kind: RouteKind, taken: Filter[E_co], options: _Options) -> None:
        self._router, self._kind, self._filter, self._options = router, kind, taken, options

    @overload
    def __call__(self, handler: RoomHandler[object], /) -> RoomHandler[object]: ...
    @overload
    def __call__(self, handler: RoomHandler[E_co], /) -> RoomHandler[E_co]: ...
    def __call__(
        self, handler: RoomHandler[E_co] | RoomHandler[object], /
    ) -> RoomHandler[E_co] | RoomHandler[object]:
        self._router._add(  # pyright: ignore[reportPrivateUsage]
            self._kind, handler, self._filter, self._options
        )
        return handler


class Router:
    """Collects routes, in the order of the lines; a bot includes the routers of other modules.

    A declaration holds no state of a run. Every function is declared once; what is declared in a way that
    makes no sense is refused when it is read, or when the bot starts.

    Args:
        when: a filter that all routes of this router share, besides their own, and its `ignore`, too; also
            those of the routers that it includes.

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
    def conversation(self, handler: Handler[object, P], /) -> Handler[object, P]: ...
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
        durable: bool = True,
    ) -> Declaration[E_given]: ...
    def conversation(
        self,
        taken: Handler[object, P] | Filter[E] | None = None,
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        per: PerName = "chat",
        version: int = 1,
        durable: bool = True,
    ) -> Handler[object, P] | Declaration[E] | Declaration[object]:
        """Declare a conversation: it starts when the chat has no live one.

        Without a filter: on any message or join, and always tried last; behind the filter of its router, last
        but for the one that has none at all.

        Args:
            name: what it is called in the store and in logs, wherever its function goes; by default its
                module and its function, so that moving or renaming these is another route.
            formerly: names that it had before, oldest first, as ``triobot journal list`` shows them: what is
                stored under one goes on here. Of its function's own name it knows by itself.
            per: whose it is: with ``"sender"`` each member of a group has one of their own, which sees what
                that member does and nothing of what others do.
            version: of its code, from 1; a higher one says that what is stored of older ones doesn't fit.
            durable: whether its place is meant to survive the process.

        Raises:
            ConfigError: one of these is something else, or another route has this function or name.
        """
        options = _Options.of(name, formerly, version, durable, per)
        if isinstance(taken, Filter):
            return Declaration(self, RouteKind.CONVERSATION, taken, options)
        bare = attrs.evolve(options, bare=True)
        if taken is None:
            return Declaration(self, RouteKind.CONVERSATION, starting(), bare)
        if not callable(taken):
            check_filter(taken, "@conversation")
        self._add(RouteKind.CONVERSATION, taken, starting(), bare)
        return taken

    def interrupt(
        self,
        taken: Filter[E],
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
        durable: bool = True,
    ) -> Declaration[E]:
        """Declare an interrupt: it ends the live conversation, then is the live one.

        Args:
            name, formerly, version, durable: as for `conversation`.
        """
        check_filter(taken, "@interrupt")
        options = _Options.of(name, formerly, version, durable)
        return Declaration(self, RouteKind.INTERRUPT, taken, options)

    @overload
    def aside(self, handler: Handler[object, P], /) -> Handler[object, P]: ...
    @overload
    def aside(
        self,
        taken: Filter[E_given] = ...,  # pyright: ignore[reportInvalidTypeVarUse]
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
        durable: bool = True,
    ) -> Declaration[E_given]: ...
    def aside(
        self,
        taken: Handler[object, P] | Filter[E] = _ONLY_BY_CODE,
        /,
        *,
        name: str | None = None,
        formerly: Sequence[str] = (),
        version: int = 1,
        durable: bool = True,
    ) -> Handler[object, P] | Declaration[E] | Declaration[object]:
        """Declare an aside: it runs beside the live conversation and leaves it alone.

        Without a filter only code starts it, with `Chat.start` or `ChatRef.start`; then its function may
        take arguments besides the chat.

        Args:
            name, formerly, version, durable: as for `conversation`.
        """
        options = _Options.of(name, formerly, version, durable)
        if taken is _ONLY_BY_CODE:
            return Declaration(self, RouteKind.ASIDE, _ONLY_BY_CODE, attrs.evolve(options, bare=True))
        if isinstance(taken, Filter) or not callable(taken):
            check_filter(taken, "@aside")
            return Declaration(self, RouteKind.ASIDE, taken, options)
        self._add(RouteKind.ASIDE, taken, _ONLY_BY_CODE, attrs.evolve(options, bare=True))
        return taken

    def room(
        self, taken: Filter[E], /, *, name: str | None = None, formerly: Sequence[str] = (), version: int = 1
    ) -> RoomDeclaration[E]:
        """Declare a kind of room: code that decides, waits and keeps time for several chats, and is none.

        There are as many rooms of the kind as there are keys: `Room.to` and `Bot.to` name one. In each, the
        function begins with the first signal that the filter takes, as `Room.event`, and runs once at a time;
        when it has ended, the next such signal begins it anew. Signals that come meanwhile wait for its
        `Room.receive`. What is left at its end and doesn't begin it is dropped and counted, as is what comes
        while it doesn't run: so what was said to one match never reaches the next.

        A room's data outlive its coroutine. It may last for years; like every conversation it survives the
        process, and is parked where its code and its journal part: then its signals wait.

        Args:
            taken: made of `triobot.filters.signal`; no chat's events come here, nor is the router's ``when``
                asked.
            name, formerly, version: as for `conversation`; which room a key stands for follows from the
                oldest of its names, so that of a function without ``name=`` is its module and function.

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
        return RoomDeclaration(
            self, RouteKind.ROOM, taken, _Options.of(name, formerly, version, durable=True)
        )

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
        """Declare a job: it runs by the clock, in the bot's own room, as a conversation that survives.

        Each due time begins one run at most, whatever dies; and there are never two runs of a job at once. A
        run sends to chats, starts conversations there, takes steps; what it keeps is the bot's own
        (`Room.data`). It asks nobody. One that fails is told by `Bot.on_error` and the alarm ``job_failed``,
        and is not tried again: the next due time comes as ever.

        A job is known by its name, over deploys. One that is new, or has another expression, zone or
        interval, is due from now on; what is known of one that was taken away stays until
        ``triobot jobs forget``.

        Args:
            when: a cron expression of five fields; or an interval of ten seconds at least: it is due at whole
                multiples of that since the beginning of 1970 in UTC.
            tz: the zone of the expression, `UTC` or a `ZoneInfo`. Where summer time leaves out 02:30, that is
                at the end of the gap; where it comes twice, once, and ``*/30`` in both.
            missed: what becomes of due times at which no run could begin, since no bot ran or the former run
                still did. ``"once"``: one run for all of them, with the last one's time. ``"all"``: one
                each, in order, for the newest 1,000. ``"skip"``: none, but one that is less than a minute
                late. `Tick.missed` counts what was left out.
            name, formerly, version: as for `conversation`.

        Raises:
            ConfigError: the expression is none, or never due; there is no zone, or an interval is too short.

        Cancellation: as of every conversation: a stop of the program ends no run.

        Examples:
            >>> @bot.every("0 9 * * SAT", tz=ZoneInfo("Asia/Tehran"))
            ... async def weekly(job: Room[Tick]) -> None:
            ...     await job.to(chat_id).send(f"Week {job.event.due:%V} begins.")
            >>> @bot.every(timedelta(minutes=10))
            ... async def poll(job: Room[Tick]) -> None:
            ...     await job.step(fetch)
        """
        options = _Options.of(name, formerly, version, durable=True)
        options = attrs.evolve(options, bare=True, job=job_of(when, tz, missed))
        return RoomDeclaration(self, RouteKind.JOB, _ONLY_BY_CODE, options)

    def around(self, hook: Around, /) -> Around:
        """Declare what is around every conversation, interrupt, aside, room and job of this router.

        The hook is the outer part of each route's coroutine: ``await call()`` runs what is within, to its
        end, over restarts. A hook that doesn't call declines: the route's function doesn't run, and the
        conversation ends quietly. A bot's hooks are around those of the routers that it includes; those of
        one router are around one another in the order of their lines, the first outermost.

        It replays by the law of conversations: its operations are recorded, once for each conversation, and
        all else runs again with each incarnation; see `Room.replaying`. Its operations are numbered under
        its name, apart from the function's: a hook without operations may be added, removed and moved while
        conversations wait. One with operations changes as any code does, by `Room.patched`; its module and
        name are its identity.

        Errors and cancellations pass through it. Behind ``await call()`` it runs when the function has ended,
        and again if the process dies before that is stored. What is paid for is settled by the normal end
        of the function, whatever the hook does then. ``call`` a second time, or in a child, raises; that is
        your program's fault.

        What is awaited inside a conversation, steps and filters have no hooks.

        Args:
            hook: an async function of two arguments, which comes back unchanged: the room, which is a `Chat`
                where people are, and `call`.

        Raises:
            ConfigError: it is something else, or another hook around the same routes has its name.

        Cancellation: as in a handler: what ends the conversation is felt at the next operation, and code in
            ``finally`` runs at each eviction, too.

        Examples:
            >>> @bot.around
            ... async def timed(room: Room, call: Callable[[], Awaitable[None]]) -> None:
            ...     began = room.now()
            ...     await call()
            ...     log.info("%s took %s", room.route, room.now() - began)
        """
        what = "@around decorates"
        if not callable(hook):
            raise ConfigError(f"{what} an async function, not {hook!r}")
        refuse_uncalled(hook, "@around")
        check_arguments(hook, (None,), f"{what} a function of two arguments, a room and call")
        check_async(hook, what)
        take_home(hook.__module__)
        self._hooks.append(Hook(hook, route_name(hook), calling_line()))
        check_hooks(self._hooks)
        return hook

    def ignore(self, taken: Filter[object], /, *, say: str = "") -> None:
        """Count and drop what this takes, before anything else sees it.

        Args:
            say: what the chat hears of it, once a minute at most; a crash may lose that. A press is always
                answered, with these words.

        Examples:
            >>> bot.ignore(flooding(per_minute=30), say="Slowly, please: I can't keep up.")
        """
        check_filter(taken, "ignore()")
        if not isinstance(cast("object", say), str):
            raise ConfigError("ignore(say=) takes a text")
        self._ignored.append(Ignored(self._behind(taken), say))

    def include(self, router: Router, /) -> None:
        """Add another module's routes behind those declared so far, within the hooks that it has.

        What it declares later is not added.

        Raises:
            ConfigError: this is no router, or the same one, or has a route of the same function or name.
        """
        if not isinstance(cast("object", router), Router) or router is self:
            raise ConfigError("include() takes another Router")
        for route in router._routes:
            check_new(route, self._routes)
            taken = route.filter if route.kind in _IN_NO_CHAT else self._behind(route.filter)
            self._routes.append(attrs.evolve(route, filter=taken).within(router._hooks))
        self._ignored.extend(Ignored(self._behind(one.filter), one.say) for one in router._ignored)

    def _add(
        self,
        kind: RouteKind,
        handler: Handler[E, P] | Handler[object, P] | RoomHandler[E] | RoomHandler[object],
        taken: Filter[E],
        options: _Options,
    ) -> None:
        decorator = "@every" if kind is RouteKind.JOB else f"@{kind.value}"
        if not callable(handler):
            raise ConfigError(f"{decorator} decorates an async function, not {handler!r}")
        refuse_uncalled(handler, decorator)
        function = route_name(handler)
        only_code = kind is RouteKind.ASIDE and options.bare
        place = "room" if kind in _IN_NO_CHAT else "chat"
        takes = "a chat" if only_code else f"one argument, the {place}"
        written = f"async def f({place}: {place.title()})"
        others = "" if only_code or kind in _IN_NO_CHAT else "; an @aside without a filter may take more"
        check_arguments(
            handler,
            None if only_code else (),
            f"{decorator} decorates a function of {takes}, as in {written}{others}",
        )
        check_async(handler, f"{decorator} decorates")
        take_home(handler.__module__)
        # The filter's type and the handler's fit by the decorator's signature; the table holds them all.
        behind = taken if kind in _IN_NO_CHAT else self._behind(taken)
        route = Route(
            kind,
            handler,
            behind,  # type: ignore[arg-type]
            function if options.name is None else options.name,
            options.bare,
            options.per,
            options.version,
            options.durable,
            tuple(dict.fromkeys(name for name in options.formerly if name != options.name)),
            function,
            calling_line(),
            job=options.job,
        )
        check_new(route, self._routes)
        self._routes.append(route)

    def _behind(self, taken: Filter[E]) -> Filter[E]:
        """Look at what all routes share first: a filter that counts counts only what is this router's."""
        shared = self._when
        if shared is None:
            return taken

        def see(event: Event, setting: Setting) -> E | None:
            return None if shared.see(event, setting) is None else taken.see(event, setting)

        name = f"({shared.name} & {taken.name})"
        return attrs.evolve(taken & shared, see=see, name=name, signals=taken.signals)


def table_of(router: Router) -> Table:
    """Return the routes as the dispatcher reads them.

    Raises:
        ConfigError: declarations that contradict one another, or nothing at all; says what to do.
    """
    return Table.of(router._routes, router._ignored, router._hooks)  # pyright: ignore[reportPrivateUsage]
