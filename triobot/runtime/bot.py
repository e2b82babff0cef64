"""Class `Bot`: a bot's declarations, and the methods that run the bot.

The modules `work` and `serve` import all other packages. Both modules are imported only when a bot runs,
because declaring a bot needs no store, outbox or listener. The nested context managers define the order in
which a bot stops.

`Bot.to` returns a reference to a chat, for tasks outside conversations. A message sent by this reference is
queued in the chat's lane like every other message, but no conversation records the call. So `Bot.to` raises
an error inside conversations, except in a step.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final, overload
from weakref import WeakSet

import attrs
import trio

from ..base.alarm_kinds import OnAlarm
from ..base.authors import run_contained
from ..base.clock import SystemClock, WallClock
from ..base.secrets import Secret
from ..conversations.calls.broadcasts import Broadcast
from ..conversations.calls.refs import INSTEAD, Door, RoomRef, person_ref, place_ref
from ..conversations.chat import ChatRef as ChatRef
from ..conversations.chat import Room, ref_to
from ..conversations.data import Keeping, Key, Speech
from ..conversations.questions.buttons import Buttons, Keyboard, inline_of, reply_of
from ..conversations.routes.declarations import check_function
from ..conversations.routes.router import Router, table_of
from ..conversations.running.branches import refuse_conversations
from ..conversations.running.lines import calling_line
from ..conversations.services import OnFailure, tell_nobody
from ..conversations.texts import Texts
from ..errors import ConfigError
from ..seams.resources import Provided, Resource, find, open_resources
from ..seams.rooms import SHARED, is_chat
from ..wire.content import Media
from ..wire.ids import ChatId, SenderId
from ..wire.operations import Upload
from .failures import Failure as Failure
from .failures import OnError, open_failures
from .settings import PREFIX, Settings, check_prefix, read_environment

if TYPE_CHECKING:
    import httpx
    from quart_trio import QuartTrio

    from ..conversations.services import Services
    from ..conversations.shared import Shared
    from .standby import Front, Standby
    from .work import Intake, Runtime, Statistics, Surroundings

_importing: Final[ContextVar[str | None]] = ContextVar("importing", default=None)
BackgroundT = TypeVar("BackgroundT", bound=Callable[[], Awaitable[None]])
M = TypeVar("M", bound=Media)
T = TypeVar("T")


@contextmanager
def importing(module: str) -> Generator[None]:
    """While the block runs, `Bot.run` raises ConfigError: the code that imports `module` runs the bot itself.

    Args:
        module: name of the imported module, for the error.
    """
    before = _importing.set(module)
    try:
        yield
    finally:
        _importing.reset(before)


@final
class Bot(Router):
    """A bot: its declarations, and methods to run the bot. Each start begins with new state.

    Args:
        token: the service's token; default ``TRIOBOT_TOKEN``.
        env: prefix of the bot's variables instead of ``TRIOBOT_``, such as ``SHOP_``; for several bots in one
            process, each with its own token and store.
        base_url: the platform's address; default ``TRIOBOT_BASE_URL``, or else the public platform.
        store: ``sqlite:PATH``, ``memory:`` or ``postgresql://...``; default ``TRIOBOT_STORE``, or else
            ``sqlite:triobot.db``.
        settings: all settings; the environment is then ignored.
        texts: the texts that triobot itself sends, or a function that chooses the texts by the chat's stored
            values, such as ``lambda data: WORDS[data[LANGUAGE]]``. Default: English.
        transport: sends the requests to the platform, for example through a proxy or to a test's fake
            platform.
        clock: time of day; default: this machine's clock.

    Examples:
        >>> from triobot import Bot, Chat
        >>> bot = Bot()
        >>> @bot.conversation
        ... async def hello(chat: Chat) -> None:
        ...     name = await chat.ask("Your name?")
        ...     await chat.send(f"Hello, {name}.")
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        base_url: str | None = None,
        store: str | None = None,
        env: str = PREFIX,
        settings: Settings | None = None,
        texts: Speech | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: WallClock | None = None,
    ) -> None:
        super().__init__()
        if settings is not None and (token or base_url or store):
            raise ConfigError("give a Bot either settings= or single arguments, not both")
        if not isinstance(cast("object", texts), Texts | None) and not callable(texts):
            raise ConfigError("Bot(texts=) takes a Texts, or a function of what a chat keeps that gives one")
        if not isinstance(cast("object", settings), Settings | None):
            raise ConfigError("Bot(settings=) takes a Settings")
        self._env = check_prefix(env)
        self._token = token
        self._base_url = base_url
        self._store = store
        self._settings = settings
        self._texts = texts or Texts.english()
        self._transport = transport
        self._clock = clock or SystemClock()
        self._hook: OnAlarm | None = None
        self._on_error: OnError | None = None
        self._resources: list[Resource[object]] = []
        self._background: list[Callable[[], Awaitable[None]]] = []
        self._work: Runtime | None = None
        # The `Standby`, if other processes can share the store. A standby's work may start and end several
        # times.
        self._standby: Standby | None = None
        self._around: Surroundings | None = None
        self._on_failure: OnFailure = tell_nobody
        self._stop, self._serves = trio.Event(), False
        self._mounted: WeakSet[QuartTrio] = WeakSet()

    # --- declaring

    def on_alarm(self, hook: OnAlarm, /) -> OnAlarm:
        """Declare a hook that is called with each alarm: an async function of an `Alarm`. Alarms are logged,
        too.

        Raises:
            ConfigError: `hook` is no async function of one argument.
        """
        check_function(hook, "@on_alarm", "of one argument, an Alarm")
        self._hook = hook
        return hook

    def on_error(self, hook: OnError, /) -> OnError:
        """Declare a hook for exceptions that the bot's own code raised and didn't handle.

        The hook is an async function of a `Failure`. The hook is called in the process in which the code
        failed: once for each failed conversation, and once for each filter that failed on an event. After a
        restart, only the `on_alarm` hook is called again for the same failure. A call has a time limit of
        five seconds. The hook runs in a task of its own. The hook may write to a chat by ``failure.place``,
        and use the bot's resources. The hook's own errors are logged. *Sensitive*: the exception may contain
        users' messages.

        The hook isn't called for conversations that ended because their user left or didn't pay.

        Raises:
            ConfigError: `hook` is no async function of one argument, or the bot has an error hook already.

        Examples:
            >>> @bot.on_error
            ... async def report(failure: Failure) -> None:
            ...     await trackers.send(failure.error, tags={"route": failure.route})
        """
        check_function(hook, "@on_error", "of one argument, a Failure")
        if self._on_error is not None:
            raise ConfigError("a bot has one @on_error, and this one has it already")
        self._on_error = hook
        return hook

    def background(self, run: BackgroundT, /) -> BackgroundT:
        """Declare a background task: an async function without arguments.

        The task starts when the resources are open and `Bot.to` works, so its first lines run at each start
        of the bot. If several processes share a store, only the process that has the store runs the task. The
        task may end. If the task raises, the bot stops with that error. At a stop, the task is cancelled
        first, so that messages from a shielded ``finally`` are still sent within a few seconds. The task is
        not durable. For work that must survive a restart, start a conversation with `to`, or send a signal to
        a conversation. Use a `resource` for objects that must exist before the first event.

        Raises:
            ConfigError: `run` is no async function, or has parameters.

        Examples:
            >>> @bot.background
            ... async def follow() -> None:
            ...     async for order in bot.use(kitchen).ready():
            ...         await bot.to(order.chat_id).signal(Ready(order.id), key=order.id)
        """
        check_function(run, "@background", "without arguments", ())
        self._background.append(run)
        return run

    def resource(self, open: Callable[[], AbstractAsyncContextManager[T]], /) -> Resource[T]:
        """Declare an object that the bot needs while it runs. `resource` decorates an async context manager
        function.

        Resources are opened before the first event, in the order of declaration, and closed after the last
        conversation has stopped. `provide` replaces a resource by another value for one start of the bot.

        Examples:
            >>> @bot.resource
            ... @asynccontextmanager
            ... async def database() -> AsyncGenerator[Pool]:
            ...     async with open_pool() as pool:
            ...         yield pool
        """
        resource = Resource(open, str(getattr(open, "__qualname__", type(open).__qualname__)))
        self._resources.append(cast("Resource[object]", resource))
        return resource

    def use(self, resource: Resource[T]) -> T:
        """Return the value of an open resource, for use outside conversations; inside, use `Chat.use`.

        Raises:
            ConfigError: the bot isn't running, or doesn't declare the resource.
        """
        refuse_conversations("bot.use()", "chat.use()")
        return find(self._running().resources, resource)

    def settings(self) -> Settings:
        """Return the settings that the bot would use if it started now.

        Raises:
            ConfigError: a variable is invalid.
        """
        if self._around is not None:
            return self._around.settings
        if self._settings is not None:
            return self._settings
        token = None if self._token is None else Secret(self._token)
        given = {"token": token, "base_url": self._base_url, "store": self._store}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return attrs.evolve(read_environment(os.environ, self._env), **changes)

    # --- running

    def run(self, settings: Settings | None = None) -> None:
        """Run until SIGINT, SIGTERM or SIGHUP; a second signal stops at once.

        Raises:
            ConfigError: a setting or a declaration is wrong; nothing was started.
            StoreError: the store can't be used.
        """
        if (module := _importing.get()) is not None:
            raise ConfigError(
                f"{module} runs its bot while it is being imported; put bot.run() under "
                'if __name__ == "__main__":'
            )
        from .serve import run_together

        run_together([(self, settings or self.settings())])

    async def serve(
        self,
        *provided: Provided,
        settings: Settings | None = None,
        clock: WallClock | None = None,
        task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen and work, until `stop` or cancellation; ``await nursery.start(bot.serve)`` embeds a bot in a
        Trio program.

        `task_status` receives the bound addresses once the bot is ready. `provided` values replace resources,
        and `clock` replaces the bot's own clock.

        Cancellation: *forceful*: running work is cancelled; no accepted event is lost.
        """
        from .serve import serve_together

        bots = [(self, settings or self.settings())]
        await serve_together(bots, *provided, clock=clock, task_status=task_status)

    def stop(self) -> None:
        """Stop the bot's work, and make `serve` return; safe to call more than once."""
        self._stop.set()

    @contextmanager
    def _served(self, stop: trio.Event) -> Generator[None]:
        """While the block runs, `Bot.stop` sets the event `stop`. Refuse a bot that runs already."""
        self._check_rests()
        self._stop, self._serves = stop, True
        try:
            yield
        finally:
            self._serves = False

    def _check_rests(self) -> None:
        if self._serves or self._work is not None or self._standby is not None:
            raise ConfigError("this bot is running already")

    @asynccontextmanager
    async def running(
        self, *provided: Provided, settings: Settings | None = None, claims: bool = True
    ) -> AsyncGenerator[Intake]:
        """Run the bot without a listener while the block runs, for tests and for other servers.

        Yields the intake; feed events by ``await intake.inbox.accept(content_type, body)``. For a store in
        PostgreSQL, which other processes can share, a `Standby` is yielded instead. A `Standby` has an inbox,
        too, but no store.

        Args:
            claims: whether the transaction that accepts an event may also handle the event; one transaction
                is faster than two. If not, each event is first stored, and then passed to the dispatcher
                through a memory channel.
        """
        settings, around = settings or self.settings(), self._around
        clock = self._clock if around is None else around.clock
        self._check_rests()
        from .watchdog import telling_delays

        with telling_delays() as tell_delays:
            async with self._opened(settings, clock) as front, self._working(front, provided, claims=claims):
                # `front` may also be a `Standby`. Callers use only the attributes that both classes have.
                intake = cast("Intake", front)
                if around is not None:
                    around.opened(intake)
                try:
                    yield intake
                finally:
                    if around is None:  # in tests, real seconds have no meaning
                        tell_delays(settings.grace)

    def _opened(self, settings: Settings, clock: WallClock) -> AbstractAsyncContextManager[Front]:
        from .logs import open_logs
        from .work import open_intake

        open_logs()
        around = self._around
        if around is None and settings.store.startswith("postgresql:"):
            from .standby import open_standby

            return open_standby(settings, clock, self._hook)
        return open_intake(settings, clock, self._hook, around=around)

    @asynccontextmanager
    async def _working(
        self, front: Front, provided: Sequence[Provided], *, claims: bool = True
    ) -> AsyncGenerator[None]:
        from ..client.platform import opened_transports
        from .logs import speaking
        from .watchdog import watched_loop
        from .work import Intake, open_work

        if self._work is not None or self._standby is not None:
            raise ConfigError("this bot is running already")
        table, texts, transport, media = table_of(self), self._texts, self._transport, None
        around, develops = self._around, front.settings.development
        replays = None if around is None else around.replays
        if around is None and develops:
            from ..conversations.inspection.checking import ReplayCheck

            replays = ReplayCheck()
        opening: Callable[..., AbstractAsyncContextManager[Runtime | None]]
        opening = partial(open_work, front) if isinstance(front, Intake) else _turns(self, front)
        on_failure = self._on_failure if around is None else around.on_failure
        if around is not None:
            transport = media = around.transport
            provided = (*around.provided, *provided)
        try:
            with speaking(front.voice):
                # `Bot.to` works until the work has stopped: a running step may still use `Bot.to`.
                async with (
                    # Don't watch the loop in virtual time, which may stand still.
                    watched_loop() if around is None else nullcontext(),
                    open_resources(self._resources, provided) as resources,
                    open_failures(
                        self._on_error,
                        self._place,
                        on_failure,
                        tracebacks=develops or front.settings.log_tracebacks,
                    ) as failures,
                    opened_transports(transport, media),
                    opening(
                        table,
                        texts,
                        transport=transport,
                        media_transport=media,
                        resources=resources,
                        replays=replays,
                        # No alarm in tests: the emulated platform may fail for any length of time.
                        backlog_seconds=front.settings.backlog_seconds if around is None else None,
                        on_failure=failures.take,
                        instead=None if around is None else around.instead,
                        claims=claims,
                    ) as self._work,
                ):
                    failures.begin()
                    runs_background = isinstance(front, Intake) and (around is None or around.instead is None)
                    # This nursery is the innermost block: background tasks can use the whole bot, and are
                    # cancelled while their messages can still be sent. A `Standby` starts the background
                    # tasks itself.
                    async with trio.open_nursery() as nursery:
                        for run in self._background if runs_background else ():
                            name = getattr(run, "__qualname__", None)
                            nursery.start_soon(run_contained, run, name=name)
                        with speaking(None):  # log lines of the caller's code aren't the bot's
                            yield
                        nursery.cancel_scope.cancel()
        finally:
            self._work = self._standby = None

    # --- other servers

    @property
    def asgi(self) -> QuartTrio:
        """ASGI application with the webhook, for ``hypercorn -k trio module:bot.asgi``.

        The application's lifespan runs the bot. Use one worker only: each worker would run a separate bot on
        the same store.
        """
        from .asgi import application_of

        return application_of(self.settings, partial(self.running, claims=False))

    def mount(self, app: QuartTrio, prefix: str) -> None:
        """Mount the webhook in a quart-trio application, and run the bot during the application's lifespan.

        The bot starts before the application serves, and stops its work when the application stops. Until the
        bot runs, requests under `prefix` are answered 503.

        Args:
            prefix: such as ``/bot``.

        Raises:
            ConfigError: `app` is no quart-trio application, or `prefix` is invalid, or the bot is mounted in
                `app` already.
        """
        from quart_trio import QuartTrio

        from .asgi import mount

        if not (isinstance(cast("object", app), QuartTrio) and isinstance(cast("object", prefix), str)):
            raise ConfigError(
                "bot.mount() takes a quart_trio.QuartTrio application, and a prefix such as '/bot'"
            )
        if app in self._mounted:
            raise ConfigError("this bot is mounted into this application already")
        mount(self.settings, partial(self.running, claims=False), app, prefix)
        self._mounted.add(app)

    # --- from outside conversations

    @overload
    def to(self, place: int | str, /) -> ChatRef: ...
    @overload
    def to(self, place: Callable[[Room[Any]], Awaitable[None]], key: str | int = "", /) -> RoomRef: ...
    def to(
        self, place: int | str | Callable[[Room[Any]], Awaitable[None]], key: str | int = "", /
    ) -> ChatRef | RoomRef:
        """Return a reference to a chat or a room, for use outside conversations.

        Args:
            place, key: as for `Room.to`.

        Raises:
            ConfigError: the bot isn't running, `place` is a function that belongs to no room, or `key` is
                invalid.
            ForeignTaskError: called from a conversation; use `chat.to` there, since the conversation records
                the operations of `chat.to`.
            LocalProtocolError: `place` is no chat id, phone number or group name.
        """
        refuse_conversations("bot.to()", INSTEAD)
        return ref_to(self._outside(), place, key)

    def _place(self, place: ChatId) -> RoomRef:
        door = Door(self._shared)
        return ChatRef(door, place) if is_chat(place) else RoomRef(door, place)

    def person(self, sender_id: SenderId) -> RoomRef:
        """Return a reference to the values stored for a person, for all chats together; see `Chat.person`.
        For use outside conversations.

        Raises: as `to`.
        """
        refuse_conversations("bot.person()", "chat.person()")
        return person_ref(self._outside(), sender_id)

    def place(self, name: str, key: str | int = "") -> RoomRef:
        """Return a reference to the values stored under a name of your choice; see `Chat.place`. For use
        outside conversations.

        Raises: as `to`.
        """
        refuse_conversations("bot.place()", "chat.place()")
        return place_ref(self._outside(), name, key, f"{calling_line()}: place()")

    @property
    def shared(self) -> RoomRef:
        """Reference to the values stored for the bot itself; see `Chat.shared`. For use outside
        conversations.

        Raises: as `to`.
        """
        refuse_conversations("bot.shared", "chat.shared")
        return RoomRef(self._outside(), SHARED)

    def each(self, key: Key[T]) -> AsyncIterator[tuple[ChatId, T]]:
        """Iterate over the chats that store a value under a key, each with its value. `each` helps to choose
        the audience of a broadcast, or to export data.

        Chats are read in pages, in the order of their ids. A change during the iteration may be missed.

        Raises:
            ConfigError: the bot isn't running.
            ForeignTaskError: called from a conversation.
            UnreadableRecordError: a value is unreadable or of another class; the error names the chat. The
                iteration can go on with the next chat.
        """
        refuse_conversations("bot.each()", "chat.step() with a function that reads it")
        return Each(self._running().dispatcher.keeping, key)

    def broadcast(self, key: str) -> Broadcast:
        """Return an object that starts, checks and stops the broadcast with a key of your choice.

        Legal outside conversations, and in a `Chat.step`.

        Raises:
            ConfigError: the bot isn't running.
            ForeignTaskError: called from a conversation, outside a step.
            LocalProtocolError: the key is empty, longer than 200 characters, or not printable.
        """
        refuse_conversations("bot.broadcast()", "chat.broadcast(key)")
        return Broadcast(self._outside(), key)

    async def upload(
        self, media: M, *, buttons: Buttons[Any] | None = None, keyboard: Keyboard | None = None
    ) -> M:
        """Upload a file to the platform; the returned media value may be sent any number of times.

        Args:
            buttons, keyboard: sent with the uploaded file; the platform's interface doesn't define their
                effect. For buttons below a message, use `ChatRef.send`.

        Raises:
            ConfigError: the bot isn't running.
            ForeignTaskError: called from a conversation, outside a step.
            LocalProtocolError: `buttons` or `keyboard` is of a wrong type, or the platform has the file
                already.
        """
        refuse_conversations("bot.upload()", "chat.step(bot.upload, media)")
        reply, inline = reply_of(keyboard), inline_of(buttons)
        descriptor = await self._running().platform.perform(Upload.of(media, reply, inline))
        return attrs.evolve(media, source=descriptor)

    async def download(self, media: Media, to: Path, *, limit: int = 100 * 1024 * 1024) -> Path:
        """Download a received file to a path of your choice; see `PlatformClient.download`.

        Raises:
            ConfigError: the bot isn't running.
            ForeignTaskError: called from a conversation, outside a step.
        """
        refuse_conversations("bot.download()", "chat.step(bot.download, media, path)")
        return await self._running().platform.download(media, to, limit=limit)

    def statistics(self) -> Statistics:
        """Return counts of the running bot's work and state.

        Raises:
            ConfigError: the bot isn't running.
        """
        refuse_conversations("bot.statistics()", "chat.step() with a function that reads it")
        return self._running().statistics()

    def _outside(self) -> Door:
        self._running()
        return Door(self._shared)

    def _shared(self) -> Shared:
        return self._running().dispatcher.shared

    def _running(self) -> Runtime:
        if self._standby is not None:
            return self._standby.any_work()
        if self._work is None:
            raise ConfigError("the bot isn't running")
        return self._work


def _turns(bot: Bot, front: Standby) -> Callable[..., AbstractAsyncContextManager[None]]:
    from .standby import open_turns

    bot._standby = front  # pyright: ignore[reportPrivateUsage]
    front.background = bot._background  # pyright: ignore[reportPrivateUsage]
    return partial(open_turns, front)


def given_settings(bot: Bot) -> Settings:
    """Return the `Settings` given to the bot, or else the defaults; read no environment variable."""
    return bot._settings or Settings()  # pyright: ignore[reportPrivateUsage]


def dry_services_of(bot: Bot, settings: Settings) -> Services:
    """Make the services for a replay of a bot's journals: with the bot's texts and its settings for links in
    charges, but without effects.
    """
    from ..client.address import own_hosts
    from ..conversations.inspection.closed import closed_resources
    from ..conversations.inspection.rerun import dry_services

    hosts = settings.charge_hosts or own_hosts(settings.base_url)
    return dry_services(bot._texts, closed_resources(), 0, hosts)  # pyright: ignore[reportPrivateUsage]


def apart(bot: Bot) -> tuple[Bot, Sequence[Provided]]:
    """Return a copy of the bot for replays, and closed stand-ins for its resources.

    The copy calls no alarm or error hooks. Several copies may run at once, also while the bot runs.
    """
    from ..conversations.inspection.closed import closed_resources

    own, closed = copy.copy(bot), closed_resources()
    own._hook = own._on_error = None  # pyright: ignore[reportPrivateUsage]
    own._work, own._around, own._stop = None, None, trio.Event()  # pyright: ignore[reportPrivateUsage]
    own._serves = False  # pyright: ignore[reportPrivateUsage]
    return own, [Provided(one, closed[one]) for one in own._resources]  # pyright: ignore[reportPrivateUsage]


@contextmanager
def within(bot: Bot, around: Surroundings) -> Generator[None]:
    """While the block runs, a start of the bot uses the replacements in `around`; for the test kit."""
    before, bot._around = bot._around, around  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        bot._around = before  # pyright: ignore[reportPrivateUsage]


def tell_failures(bot: Bot, to: OnFailure) -> None:
    """Call `to` with each failure at once, in addition to the author's hook."""
    bot._on_failure = to  # pyright: ignore[reportPrivateUsage]


@final
class Each(Generic[T]):
    """The chats that store a value under a key, in the order of their ids, each with its value."""

    def __init__(self, keeping: Keeping, key: Key[T]) -> None:
        self._keeping = keeping
        self._key = key
        self._after: ChatId | None = None
        self._page = deque[tuple[ChatId, str]]()

    def __aiter__(self) -> Each[T]:
        return self

    async def __anext__(self) -> tuple[ChatId, T]:
        if not self._page:
            self._page.extend(await self._keeping.keyed(self._key.name, self._after))
            if not self._page:
                raise StopAsyncIteration
            self._after = self._page[-1][0]
        chat_id, text = self._page.popleft()
        return chat_id, self._key.load_of(chat_id, text)
