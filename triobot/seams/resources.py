"""Resources: objects that a bot needs while it runs, such as a database pool.

The author declares a resource with `Bot.resource`. Resources are opened in the order of declaration before
the first event, and closed after the last conversation has stopped. A test, or a web application with its own
database pool, can provide a value; the bot then doesn't open the resource.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar, cast, final

import attrs

from ..base.authors import leaves, note, run_contained
from ..base.frozen import guarded
from ..errors import ConfigError

T = TypeVar("T")
_UNOPENED: Final = "can't open the resource "


@final
@guarded(eq=False)
class Resource(Generic[T]):
    """A handle to an object that is open while the bot runs; `Chat.use` and `Bot.use` return it."""

    open: Callable[[], AbstractAsyncContextManager[T]] = attrs.field(repr=False)
    name: str


Opened: TypeAlias = Mapping[Resource[object], object]


@final
@guarded
class Provided:
    """A value that replaces a resource until the bot stops; made by `provide`."""

    resource: Resource[object]
    value: object = attrs.field(repr=False)


def provide(resource: Resource[T], value: T) -> Provided:
    """Replace a resource by `value` until the bot stops: the bot neither opens nor closes `value`.

    Examples:
        >>> async def test(bot: Bot) -> None:
        ...     async with bot.running(provide(database, FakeDatabase())):
        ...         ...
    """
    check_resource(resource, "provide()")
    return Provided(cast("Resource[object]", resource), value)


def check_resource(resource: object, who: str) -> None:
    """Require a `Resource`.

    Raises:
        ConfigError: `resource` is something else; the error text names `who`.
    """
    if not isinstance(resource, Resource):
        raise ConfigError(f"{who} takes a resource: what @bot.resource made of its function")


@asynccontextmanager
async def open_resources(
    declared: Sequence[Resource[object]], provided: Sequence[Provided]
) -> AsyncGenerator[Opened]:
    """Open the declared resources in order, except the provided ones; close them in reverse order.

    Raises:
        ConfigError: a provided resource is not declared, or a declared resource can't be opened.
        Exception: the error with which the opening of a resource failed. Before the error is raised, the
            other opened resources are closed.
    """
    for given in provided:
        if not isinstance(cast("object", given), Provided):
            raise ConfigError("what is provided is made by provide(resource, value)")
    opened = {given.resource: given.value for given in provided}
    for resource in opened:
        check_resource(resource, "provide()")
        if resource not in declared:
            raise ConfigError(f"the resource {resource.name} is provided, but this bot doesn't declare it")
    async with AsyncExitStack() as stack:
        for resource in declared:
            if resource not in opened:
                try:
                    opened[resource] = await run_contained(_open, resource, stack)
                except Exception as error:
                    for one in leaves(error):
                        note(one, f"{_UNOPENED}{resource.name}")
                    raise
        yield opened


async def _open(resource: Resource[T], stack: AsyncExitStack) -> T:
    manager = resource.open()
    if not hasattr(manager, "__aenter__"):
        raise ConfigError(
            f"the resource {resource.name} is no async context manager function; put "
            "@asynccontextmanager under @bot.resource"
        )
    opened = await manager.__aenter__()
    stack.push_async_exit(partial(run_contained, manager.__aexit__))
    return opened


def about_opening(error: BaseException) -> str:
    """Return ``can't open the resource NAME: `` as a prefix for this error; empty for other errors."""
    notes = [one for one in getattr(error, "__notes__", ()) if one.startswith(_UNOPENED)]
    return f"{notes[-1]}: " if notes else ""


def find(opened: Opened, resource: Resource[T]) -> T:
    """Return the opened object, or the provided value, of a resource.

    Raises:
        ConfigError: the running bot doesn't declare the resource.
    """
    check_resource(resource, "use()")
    key = cast("Resource[object]", resource)
    if key not in opened:
        raise ConfigError(f"the resource {resource.name} isn't declared on the bot that runs")
    return cast("T", opened[key])
