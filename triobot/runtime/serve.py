"""Runs one or several bots behind one listener, until a signal.

This module is imported only when a bot runs, because declaring a bot needs neither a store nor a listener.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import attrs
import trio

from ..base.alarm_kinds import OnAlarm
from ..base.authors import contained, leaves
from ..base.binding import Bind, FdBind, TcpBind, Tls, UnixBind, allow_descriptors
from ..base.clock import WallClock
from ..base.signals import hearing_signals
from ..errors import ConfigError, TriobotError
from ..operator.metrics import METRICS_PATH
from ..operator.serving import serve_metrics
from ..outbox import OutboxRules
from ..seams import own_http
from ..seams.resources import Provided
from ..webhook.answers import Readiness, TrafficCounters
from ..webhook.endpoint import Endpoint, endpoint_of
from ..webhook.limits import Limits
from .settings import Settings
from .watchdog import telling_delays, telling_systemd

if TYPE_CHECKING:
    from .standby import Front

log: Final = logging.getLogger("triobot")
# Thresholds for garbage collections. Python's default of 700 new objects is reached after a few events. With
# 10,000, a collection of the youngest generation still takes less than a millisecond, and a message is
# answered 10 % faster.
_THRESHOLDS: Final = (10_000, 20, 20)


class Servable(Protocol):
    """A listener's interface to a bot."""

    _clock: WallClock
    _hook: OnAlarm | None

    def stop(self) -> None:
        """Stop the bot's work, and make its server return."""
        ...

    def _served(self, stop: trio.Event) -> AbstractContextManager[None]: ...

    def _working(
        self, front: Front, provided: Sequence[Provided], *, claims: bool
    ) -> AbstractAsyncContextManager[None]: ...

    def _opened(self, settings: Settings, clock: WallClock) -> AbstractAsyncContextManager[Front]: ...


Server: TypeAlias = Literal["triobot", "hypercorn"]
"""Server that listens: triobot's own, or hypercorn with Quart."""


def run_together(
    bots: Sequence[tuple[Servable, Settings]], *, server: Server = "triobot", ends: bool = False
) -> None:
    """Run bots in one process until SIGINT, SIGTERM or SIGHUP. A second signal stops at once; a third ends
    the process, even if code blocks the loop.

    Args:
        ends: whether the process ends after this call.

    Raises:
        ConfigError: a setting or a declaration is wrong; nothing was started.
        StoreError: a store can't be used; nothing was started.
    """
    limits = _serving_limits(bots[0][1], len(bots))
    # The process runs only bots, so raise the limit of open files. On many systems, the default limit is
    # 1,024 files.
    allow_descriptors(limits.connections + limits.spare_descriptors)
    try:
        with rarely_collected(ends=ends):
            trio.run(_run_until_signal, bots, server)
    except BaseException as error:
        # A SystemExit of the author's code becomes an error: only a signal may end the process without an
        # error.
        failure = contained(error)
        first, *rest = leaves(failure)
        if all(isinstance(one, TriobotError) for one in (first, *rest)):
            # Raise the reason alone, not the nested groups of failed nurseries: a person reads the error.
            raise first from first.__cause__
        raise failure from failure.__cause__


async def _run_until_signal(bots: Sequence[tuple[Servable, Settings]], server: Server) -> None:
    stopping = False

    def stop() -> None:
        # Thousands of conversations may end at once. Garbage collections would then take longer than the ends
        # of the conversations.
        gc.disable()
        for bot, _ in bots:
            bot.stop()

    with hearing_signals(3) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal stopping
                async for number in signals:
                    name = signal.Signals(number).name
                    if stopping and name == "SIGHUP":
                        continue  # shell and system may both send SIGHUP for a closed window
                    if stopping:
                        nursery.cancel_scope.cancel()
                        return
                    stopping = True
                    log.info("stopping on %s; once more stops at once", name)
                    stop()

            nursery.start_soon(watch)
            async with telling_systemd() as systemd, trio.open_nursery() as serving:
                await serving.start(
                    partial(serve_together, bots, server=server, stopping=systemd.tell_stopping)
                )
                # Report readiness only once all bots run: systemd may then start services that need the bots'
                # resources.
                systemd.tell("READY=1")
            nursery.cancel_scope.cancel()


async def serve_together(
    bots: Sequence[tuple[Servable, Settings]],
    *provided: Provided,
    clock: WallClock | None = None,
    server: Server = "triobot",
    stopping: Callable[[], None] | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run bots behind one listener, until one of these bots is stopped; see `Bot.serve`.

    Each bot has its own store, token and path. The first bot's settings define the address. If one bot can't
    start, no bot runs.

    While another process has a bot's shared store, this process stands by, and only accepts events for the
    other process. If this process loses a shared store, the work is cancelled, and this process stands by
    again.

    Args:
        server: server that listens. Under hypercorn, no event is handled in the transaction that accepts the
            event.
        stopping: called at the start of a stop, before any bot stops its work.

    Raises:
        ConfigError: a bot is listed twice, or two bots share a token, store or secret, or differ in the
            address.
    """
    if len(bots) > 1:
        _check_apart(bots)
    first, stop = bots[0][1], trio.Event()
    # An unusable certificate must prevent the start, also with hypercorn.
    tls: Tls | None = None
    if first.tls_certificate is not None:
        from ..base.certificates import RenewedCertificate

        tls = RenewedCertificate(first.tls_certificate, first.tls_key)
    binds = [bind_of(first)]
    closing = trio.Event()
    async with AsyncExitStack() as opened:
        for bot, _ in bots:
            opened.enter_context(bot._served(stop))  # pyright: ignore[reportPrivateUsage]
        tell_delays = opened.enter_context(telling_delays())
        intakes = [
            await opened.enter_async_context(
                bot._opened(settings, clock or bot._clock)  # pyright: ignore[reportPrivateUsage]
            )
            for bot, settings in bots
        ]
        listener = await opened.enter_async_context(trio.open_nursery())
        limits, traffic = _serving_limits(first, len(bots)), TrafficCounters()
        serving = _serving(server, intakes, first, binds, closing, limits, traffic, tls)
        bound: list[str] = await listener.start(serving)
        intakes[0].traffic = traffic
        if first.metrics_port is not None:
            page = await listener.start(
                serve_metrics,
                lambda: [api for intake in intakes for api in intake.apis],
                TcpBind(first.metrics_host, first.metrics_port),
                closing,
            )
            log.info("metrics are at %s%s", page, METRICS_PATH)
        # `closing` is set after the bots have stopped their work: until then events are accepted.
        opened.callback(closing.set)
        claims = server == "triobot"
        for (bot, _), intake in zip(bots, intakes, strict=True):
            await opened.enter_async_context(bot._working(intake, provided, claims=claims))  # pyright: ignore[reportPrivateUsage]
        log.info("listening on %s", ", ".join(bound))
        task_status.started(bound)
        try:
            await stop.wait()
        finally:
            tell_delays(max(settings.grace for _, settings in bots))
        if stopping is not None:
            stopping()


def _serving(
    server: Server,
    intakes: Sequence[Front],
    settings: Settings,
    binds: Sequence[Bind],
    closing: trio.Event,
    limits: Limits,
    traffic: TrafficCounters,
    tls: Tls | None,
) -> Callable[..., Awaitable[object]]:
    ready = intakes[0].readiness if len(intakes) == 1 else partial(_all_ready, intakes)

    endpoints = [
        Endpoint(
            intake.inbox,
            intake.secrets,
            limits=limits,
            readiness=ready,
            traffic=traffic,
            begins=intake.voice.begin,
        )
        for intake in intakes
    ]
    if server == "triobot" and not own_http.is_here():
        log.warning("triobot.http isn't here: hypercorn listens, and httpx sends")
        server = "hypercorn"
    if server == "hypercorn":
        from ..webhook.app import serve_stock

        serve_there = partial(
            serve_stock, partial(endpoint_of, endpoints), binds, shutdown=closing, limits=limits
        )
        return partial(serve_there, certificate=settings.tls_certificate, key=settings.tls_key)
    from ..webhook.serving import answering, serve

    handler = answering(endpoints)
    return partial(serve, handler, binds, shutdown=closing, limits=limits, tls=tls, traffic=traffic)


def _check_apart(bots: Sequence[tuple[Servable, Settings]]) -> None:
    """Refuse bots that share a token, store or secret, or that differ in the address.

    Raises:
        ConfigError: two bots share a setting, which the error names.
    """
    if len({id(bot) for bot, _ in bots}) < len(bots):
        raise ConfigError("the same bot is named twice; each runs once")
    own: dict[str, Callable[[Settings], object]] = {
        "TOKEN": lambda one: one.checked_token.reveal(),
        "STORE": lambda one: None if one.store == "memory:" else one.store,
        "WEBHOOK_SECRET": lambda one: one.webhook_secret and one.webhook_secret.reveal(),
    }
    for name, read in own.items():
        seen: dict[object, Settings] = {}
        for _, settings in bots:
            value = read(settings)
            if value is not None and (other := seen.setdefault(value, settings)) is not settings:
                raise ConfigError(
                    f"two bots have the same {name.lower().replace('_', ' ')}, and each needs its own: give "
                    f"each an env= of its own, such as Bot(env='SHOP_'), and set {other.env}{name} and "
                    f"{settings.env}{name}"
                )
    if len({bind_of(settings) for _, settings in bots}) > 1:
        raise ConfigError("several bots share one listener: give all of them the same place, or none")


def _all_ready(intakes: Sequence[Front]) -> Readiness:
    """Return the state of the first bot that isn't ready; if all bots are ready, the first bot's state."""
    said = [intake.readiness() for intake in intakes]
    return next((one for one in said if not one.ready), said[0])


def _serving_limits(settings: Settings, bots: int) -> Limits:
    """Return the listener's limits, with descriptors reserved for requests to the platform."""
    limits = settings.limits
    spare = limits.spare_descriptors + bots * OutboxRules().connections
    return attrs.evolve(limits, spare_descriptors=spare)


def bind_of(settings: Settings) -> Bind:
    """Return the address to listen on."""
    if settings.fd is not None:
        return FdBind(settings.fd)
    if settings.unix is not None:
        mode = settings.unix_mode
        if mode is None and settings.unix_group is not None:
            mode = 0o660
        return UnixBind(settings.unix, mode, settings.unix_group)
    return TcpBind(settings.host, settings.port)


@contextmanager
def rarely_collected(*, ends: bool = False) -> Generator[None]:
    """While the block runs, collect garbage less often, and skip the objects that existed before the block:
    modules and classes.

    Use `rarely_collected` only in a process that runs nothing but bots: a program that embeds a bot
    configures its own garbage collection.

    Args:
        ends: whether the process ends after the block. If so, the remaining objects are not collected. With
            thousands of chats in memory, the collection took seconds, and a new process had to wait.
    """
    before, enabled = gc.get_threshold(), gc.isenabled()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if ends:
            gc.freeze()
        else:
            gc.unfreeze()
        if enabled:
            gc.enable()
