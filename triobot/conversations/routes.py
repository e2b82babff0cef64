"""Routes: which coroutine an event starts. A `Router` collects them; a bot is one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeAlias, final, overload

import attrs
from typing_extensions import TypeVar

from ..errors import ConfigError
from ..wire.events import Event
from .filters import Filter, Setting, check_filter, starting

if TYPE_CHECKING:
    from .chat import Chat

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)

Handler: TypeAlias = "Callable[[Chat[E]], Awaitable[None]]"


class RouteKind(Enum):
    """What starting a route does to the chat's live conversation."""

    CONVERSATION = "conversation"
    """Starts when there is none."""

    INTERRUPT = "interrupt"
    """Ends it, then is the live one."""

    ASIDE = "aside"
    """Runs beside it and leaves it alone."""


@final
@attrs.frozen(eq=False)
class Route:
    """One declared coroutine: its kind, what starts it, its name in logs."""

    kind: RouteKind
    handler: Callable[[Chat[Event]], Awaitable[None]] = attrs.field(repr=False)
    filter: Filter[Event] = attrs.field(repr=False)
    name: str
    bare: bool = False


@final
class Declaration(Generic[E_co]):
    """A decorator for a coroutine function that takes a `Chat` of the filter's type; gives it back."""

    def __init__(self, router: Router, kind: RouteKind, taken: Filter[E_co], *, bare: bool) -> None:
        self._router, self._kind, self._filter, self._bare = router, kind, taken, bare

    @overload
    def __call__(self, handler: Handler[object], /) -> Handler[object]: ...
    @overload
    def __call__(self, handler: Handler[E_co], /) -> Handler[E_co]: ...
    def __call__(self, handler: Handler[E_co] | Handler[object], /) -> Handler[E_co] | Handler[object]:
        self._router.add(self._kind, handler, self._filter, bare=self._bare)
        return handler


class Router:
    """Collects routes, in the order of the lines; a bot includes the routers of other modules.

    A declaration holds no state of a run.

    Args:
        when: a filter that all routes of this router share, besides their own, and its `ignore`, too; also
            those of the routers that it includes.

    Example:
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
        self._ignored: list[Filter[object]] = []

    @overload
    def conversation(self, handler: Handler[object], /) -> Handler[object]: ...
    @overload
    def conversation(self, taken: Filter[E], /) -> Declaration[E]: ...
    def conversation(self, taken: Handler[object] | Filter[E], /) -> Handler[object] | Declaration[E]:
        """Declare a conversation: it starts when the chat has no live one.

        Without a filter: on any message or join, and always tried last.
        """
        if isinstance(taken, Filter):
            return Declaration(self, RouteKind.CONVERSATION, taken, bare=False)
        self.add(RouteKind.CONVERSATION, taken, starting(), bare=True)
        return taken

    def interrupt(self, taken: Filter[E], /) -> Declaration[E]:
        """Declare an interrupt: it ends the live conversation, then is the live one."""
        check_filter(taken, "@interrupt")
        return Declaration(self, RouteKind.INTERRUPT, taken, bare=False)

    def aside(self, taken: Filter[E], /) -> Declaration[E]:
        """Declare an aside: it runs beside the live conversation and leaves it alone."""
        check_filter(taken, "@aside")
        return Declaration(self, RouteKind.ASIDE, taken, bare=False)

    def ignore(self, taken: Filter[object], /) -> None:
        """Count and drop what this takes, before anything else sees it."""
        check_filter(taken, "ignore()")
        self._ignored.append(self._behind(taken))

    def include(self, router: Router, /) -> None:
        """Add another module's routes behind those declared so far."""
        for route in router._routes:
            self._routes.append(attrs.evolve(route, filter=self._behind(route.filter)))
        self._ignored.extend(self._behind(taken) for taken in router._ignored)

    def add(
        self,
        kind: RouteKind,
        handler: Handler[E] | Handler[object],
        taken: Filter[E],
        *,
        bare: bool,
    ) -> None:
        """Add a route; the decorators do."""
        if not callable(handler):
            raise ConfigError(f"@{kind.value} decorates an async function, not {handler!r}")
        name = f"{handler.__module__}.{getattr(handler, '__qualname__', repr(handler))}"
        if not _takes_a_chat(handler):
            raise ConfigError(f"@{kind.value} decorates a function of one argument, the chat; {name} isn't")
        # The filter's type and the handler's fit by the decorator's signature; the table holds them all.
        behind = self._behind(taken)
        self._routes.append(Route(kind, handler, behind, name, bare))  # type: ignore[arg-type]

    def _behind(self, taken: Filter[E]) -> Filter[E]:
        """Look at what all routes share first: a filter that counts counts only what is this router's."""
        shared = self._when
        if shared is None:
            return taken

        def see(event: Event, setting: Setting) -> E | None:
            return None if shared.see(event, setting) is None else taken.see(event, setting)

        return Filter(see, f"({shared.name} & {taken.name})", taken.signals)

    def table(self) -> Table:
        """The routes as the dispatcher reads them.

        Raises:
            ConfigError: two conversations without a filter, or nothing at all.
        """
        bare = [route.name for route in self._routes if route.bare]
        if len(bare) > 1:
            raise ConfigError(f"two conversations have no filter: {bare[0]} and {bare[1]}; give one a filter")
        if not self._routes:
            raise ConfigError("the bot has no route; declare one with @bot.conversation")
        return Table(
            ignored=tuple(self._ignored),
            interrupts=self._of(RouteKind.INTERRUPT),
            asides=self._of(RouteKind.ASIDE),
            conversations=tuple(
                sorted(self._of(RouteKind.CONVERSATION), key=lambda route: route.bare),
            ),
        )

    def _of(self, kind: RouteKind) -> tuple[Route, ...]:
        return tuple(route for route in self._routes if route.kind is kind)


def _takes_a_chat(handler: Callable[..., object]) -> bool:
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        return False
    except ValueError:  # it has no signature to look at
        pass
    return True


@final
@attrs.frozen
class Table:
    """All routes, by kind, in the order in which they are tried."""

    ignored: Sequence[Filter[object]]
    interrupts: Sequence[Route]
    asides: Sequence[Route]
    conversations: Sequence[Route]
