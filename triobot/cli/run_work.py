"""Implements ``triobot run``: run a bot and its webhook until a signal."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from typing import Final

import attrs
import trio

from ..base.authors import leaves
from ..base.binding import inherited_binds
from ..errors import ConfigError
from ..runtime.bot import Bot
from ..runtime.logs import expected
from ..runtime.serve import run_together
from ..runtime.settings import LOG_FORMAT, PREFIX, Settings
from ..webhook.limits import Limits
from ..webhook.secrets import webhook_address
from .loading import load_bot
from .run import FORMATS
from .terminal import FAILED, is_terminal, one_line, set_up_logging

log: Final = logging.getLogger("triobot")

# Options with the same name and value as a setting.
_SETTINGS: Final = (
    *("host", "port", "unix", "unix_mode", "unix_group", "tls_certificate", "tls_key", "store", "grace"),
    *("metrics_host", "metrics_port"),
)


def run(arguments: argparse.Namespace) -> None:
    form = _log_format(arguments.log_format, os.environ)
    set_up_logging(debug=arguments.debug, access=arguments.access_log, form=form)
    with ExitStack() as named:
        try:
            _run(arguments, named)
        except Exception as error:
            if form == "plain":
                raise
            # In JSON logs, the reason why the process ends must be a log line, too.
            for cause in dict.fromkeys(one_line(cause) for cause in leaves(error)):
                log.critical(cause)
            log.debug("the bot failed", exc_info=error)
            sys.exit(FAILED)


def _log_format(given: str | None, environ: Mapping[str, str]) -> str:
    form = given or environ.get(f"{PREFIX}{LOG_FORMAT}") or "plain"
    if form not in FORMATS:
        raise ConfigError(f"{PREFIX}{LOG_FORMAT} must be {' or '.join(FORMATS)}")
    return form


def _run(arguments: argparse.Namespace, named: ExitStack) -> None:
    targets: list[str] = arguments.bots
    if len(targets) > 1 and arguments.store:
        raise ConfigError("each of several bots has a store of its own: leave --store out")
    fd: int | None = arguments.fd if arguments.fd is not None else inherited_socket(os.environ, os.getpid())
    bots: list[tuple[Bot, Settings]] = []
    for target in targets:
        bot = load_bot(target)
        settings = _with_arguments(bot.settings(), arguments, fd)
        named.enter_context(expected(settings.label))
        bots.append((bot, _show_address(settings) if is_terminal(sys.stdout) else settings))
    run_together(bots, server=arguments.server, ends=True)


def _with_arguments(settings: Settings, arguments: argparse.Namespace, fd: int | None) -> Settings:
    if fd is not None and (arguments.host, arguments.port, arguments.unix) != (None, None, None):
        raise ConfigError(
            "a socket was handed over, so that --host, --port and --unix mean nothing; leave them out"
        )
    given = {name: getattr(arguments, name) for name in _SETTINGS}
    given = {name: value for name, value in given.items() if value not in (None, "")}
    if fd is not None:
        given["fd"] = fd
    return attrs.evolve(settings, limits=_limits(settings.limits, arguments.limit), **given)


def _limits(limits: Limits, given: Sequence[str]) -> Limits:
    pairs = [one.partition("=") for one in given]
    if not all(name and equals for name, equals, _ in pairs):
        raise ConfigError("a limit is given as NAME=VALUE, such as --limit connections=1000")
    values = {name: value for name, _, value in pairs}
    read = Limits.read(values)
    return attrs.evolve(limits, **{name: getattr(read, name) for name in values})


def inherited_socket(environ: MutableMapping[str, str], pid: int) -> int | None:
    """Return the descriptor of the socket that systemd passed to this process, or None.

    Removes systemd's variables from `environ`, so that programs started by the bot don't use the socket.

    Raises:
        ConfigError: systemd passed several sockets, so the webhook's socket is unknown.
    """
    binds = inherited_binds(environ, pid)
    if not binds:
        return None
    first, *others = binds
    for name in ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):
        environ.pop(name, None)
    if others:
        raise ConfigError(
            f"{len(binds)} sockets were handed over (LISTEN_FDS), and the bot takes one: give its number with"
            " --fd"
        )
    return first.fd


def _show_address(settings: Settings) -> Settings:
    """Print the webhook's address for registration. Use this only in a terminal: a log would keep the secret.

    Returns: settings with the printed secret.
    """
    from .webhook_url import current_secret

    secret, settings = trio.run(current_secret, settings)
    base = settings.public_url
    if base is None:
        print(f"register (with your public address, or set {settings.env}PUBLIC_URL):")
        base = "https://YOUR-HOST"
    else:
        print("register:")
    print(f"  {webhook_address(base, secret)}", flush=True)
    return settings
