"""Bots that listen: one of them or several behind one listener, until a signal.

Loaded when a bot is run and not before: what a bot file declares needs neither a store nor a listener.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    contextmanager,
)
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

import attrs
import trio

from ..base.alarm_kinds import OnAlarm
from ..base.authors import contained, leaves
from ..base.binding import Bind, FdBind, RenewedCertificate, TcpBind, UnixBind, allow_descriptors
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
from .work import Front

log: Final = logging.getLogger("triobot")
# Python's 700 new objects are a handful of events. At 10,000 a collection of the youngest is still below a
# millisecond, and an echo costs a tenth less.
_THRESHOLDS: Final = (10_000, 20, 20)


class Servable(Protocol):
    """A bot, as far as a listener serves it."""

    _clock: WallClock
    _hook: OnAlarm | None

    def stop(self) -> None:
        """Make what serves it come to rest and return."""
        ...

    def _served(self, stop: trio.Event) -> AbstractContextManager[None]: ...

    def _working(
        self, front: Front, provided: Sequence[Provided], *, claims: bool
    ) -> AbstractAsyncContextManager[None]: ...

    def _opened(self, settings: Settings, clock: WallClock) -> AbstractAsyncContextManager[Front]: ...


Server: TypeAlias = Literal["triobot", "hypercorn"]
"""Whose server listens: ours, or hypercorn with Quart behind it."""


def run_together(
    bots: Sequence[tuple[Servable, Settings]], *, server: Server = "triobot", ends: bool = False
) -> None:
    """Run bots in one process until SIGINT, SIGTERM or SIGHUP; a second signal stops at once.

    A third ends the process, whatever its bots do.

    Args:
        ends: the process ends with this.

    Raises:
        ConfigError: a setting or a declaration is wrong; nothing was started.
        StoreError: a store can't be used; nothing was started.
    """
    limits = _serving_limits(bots[0][1], len(bots))
    # The process is ours. Many systems let it open 1,024 files until it asks for more.
    allow_descriptors(limits.connections + limits.spare_descriptors)
    try:
        with rarely_collected(ends=ends):
            trio.run(_run_until_signal, bots, server)
    except BaseException as error:
        # Nothing but a signal ends a process without an error.
        failure = contained(error)
        first, *rest = leaves(failure)
        if all(isinstance(one, TriobotError) for one in (first, *rest)):
            # Of a tree of nurseries that failed for one reason, a person wants to read the reason.
            raise first from first.__cause__
        raise failure from failure.__cause__


async def _run_until_signal(bots: Sequence[tuple[Servable, Settings]], server: Server) -> None:
    stopping = False

    def stop() -> None:
        # Thousands of conversations end at once: looking for circles among what is left of them would take
        # longer than ending them.
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
                        continue  # of a window that is closed both the shell and the system tell
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
                # Not before: what is started after this one may need what the resources opened.
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
    """Listen and work for bots that share a listener, until one of them is to stop; see `Bot.serve`.

    Each has a store, a token and a path of its own. Where to listen is said by the first. If one of them
    can't start, none runs.

    While another process has a store that several machines reach, this one stands by: it listens, and takes
    events for the other one. So does a process that has lost such a store, once its work is cut.

    Args:
        server: whose; under hypercorn no event is handled in the transaction that accepts it.
        stopping: called when one is to stop, before any comes to rest.

    Raises:
        ConfigError: two of them have something in common that each must have for itself.
    """
    if len(bots) > 1:
        _check_apart(bots)
    first, stop = bots[0][1], trio.Event()
    # A certificate that can't be used starts nothing, under hypercorn as well.
    tls = None
    if first.tls_certificate is not None:
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
        # Not before the bots have come to rest: until then events are accepted.
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
    tls: RenewedCertificate | None,
) -> Callable[..., Awaitable[object]]:
    """Return what listens for the webhooks until it is to close."""
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
    """Refuse bots that have something in common.

    Raises:
        ConfigError: they have.
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
    """Return whether all are ready, or else what the first that is not says."""
    said = [intake.readiness() for intake in intakes]
    return next((one for one in said if not one.ready), said[0])


def _serving_limits(settings: Settings, bots: int) -> Limits:
    """Return the limits of our own listener, which leaves descriptors for the requests to the platform."""
    limits = settings.limits
    spare = limits.spare_descriptors + bots * OutboxRules().connections
    return attrs.evolve(limits, spare_descriptors=spare)


def bind_of(settings: Settings) -> Bind:
    """Return where a bot listens."""
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
    """Collect more rarely while the block runs, and never look at what was there before: modules and classes.

    For a program that does nothing else; inside another program it is not ours to say.

    Args:
        ends: the process ends with the block. What is left is not looked at again: with thousands of chats in
            memory that took seconds, in which a new process waited for this one.
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
