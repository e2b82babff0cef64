"""``triobot run``: a bot and its webhook, until a signal."""

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

from ..authors import leaves
from ..binding import inherited_binds
from ..bot import Bot
from ..errors import ConfigError
from ..logs import expected
from ..settings import LOG_FORMAT, PREFIX, Settings
from ..together import run_together
from ..webhook.limits import Limits
from ..webhook.secrets import webhook_address
from .arguments import mode, number, port, whole
from .loading import load_bot
from .terminal import FAILED, is_terminal, one_line, set_up_logging
from .webhook_url import current_secret

DETAILS: Final = """\
Name the bot by its module or file; without ":name" it is the variable `bot`.
An option wins over the bot's own arguments, and these win over the TRIOBOT_* variables.
Several bots run in one process behind one listener. Each has a store, a token and a path of its own, so each
reads variables of its own: Bot(env="SHOP_") reads those that begin with SHOP_. If one can't start, none runs.
The token is never an option, because other users of the machine could read it. Set TRIOBOT_TOKEN, or set
TRIOBOT_TOKEN_FILE to a file that holds it.

SIGINT, SIGTERM or SIGHUP (unless it runs under nohup) brings the bot to rest; a second one stops it at once.
The bot finds a socket that systemd hands over (LISTEN_FDS) by itself.

examples:
  triobot run pizza:bot
  triobot run examples/echo.py:bot --port 9000 --store sqlite:/var/lib/echo.db
  triobot run pizza:bot --fd 3
  triobot run shop:bot desk:bot
"""

log: Final = logging.getLogger("triobot")
FORMATS: Final = ("plain", "json")

# The options that are settings as they are.
_SETTINGS: Final = (
    *("host", "port", "unix", "unix_mode", "unix_group"),
    *(
        "tls_certificate",
        "tls_key",
        "store",
        "grace",
        "metrics_host",
        "metrics_port",
    ),
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "bots", metavar="MODULE:BOT", nargs="+", help="the bot, such as pizza:bot or path/pizza.py:bot"
    )
    parser.add_argument(
        "--server",
        choices=("triobot", "hypercorn"),
        default="triobot",
        help="which server listens: triobot's own, or hypercorn with Quart's routes (slower)",
    )
    parser.add_argument("--host", metavar="HOST", help="the address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=port, help="the port, 0 for a free one (default 8080)")
    descriptor = whole("the number of an inherited socket, such as 3", 0, 65535)
    parser.add_argument("--fd", metavar="N", type=descriptor, help="an inherited listening socket instead")
    parser.add_argument("--unix", metavar="PATH", help="a path to listen on instead, for a proxy")
    parser.add_argument("--unix-mode", metavar="MODE", type=mode, help="who may connect there, such as 660")
    parser.add_argument("--unix-group", metavar="GROUP", help="its group, such as www-data")
    parser.add_argument(
        "--tls-certificate", metavar="FILE", help="a PEM file, to serve https without a proxy"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="its key, if that is in a file of its own")
    parser.add_argument(
        "--store", metavar="URL", help="sqlite:PATH, postgresql://... or memory: (default sqlite:triobot.db)"
    )
    parser.add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a limit of the webhook, such as connections=1000 (docs/running.md lists them); repeatable",
    )
    parser.add_argument(
        "--access-log", action="store_true", help="log each request to the webhook, without its path"
    )
    parser.add_argument(
        "--metrics-port",
        metavar="N",
        type=port,
        help="serve /metrics to Prometheus on this port of --metrics-host, 0 for a free one",
    )
    parser.add_argument("--metrics-host", metavar="HOST", help="the address for /metrics (default 127.0.0.1)")
    parser.add_argument(
        "--log-format",
        metavar="FORMAT",
        choices=FORMATS,
        help="plain, or json: one object a line, for programs (default plain; also TRIOBOT_LOG_FORMAT)",
    )
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=number("a number of seconds, 0 or more", 0, sys.float_info.max),
        help="how long a stop waits for what is being done (default 10)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the bot until a signal."""
    form = _log_format(arguments.log_format, os.environ)
    set_up_logging(debug=arguments.debug, access=arguments.access_log, form=form)
    with ExitStack() as named:
        try:
            _run(arguments, named)
        except Exception as error:
            if form == "plain":
                raise
            # The reason why it ends is a line as all others are.
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
    """Return the socket that systemd handed over to this process, or None.

    The variables are taken out, so that programs that the bot starts don't take them for their own.

    Raises:
        ConfigError: there are several, and nothing tells which one is the webhook's.
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
    """Print the address to register, at a terminal only: a log would keep its secret for ever."""
    secret, settings = trio.run(current_secret, settings)
    base = settings.public_url
    if base is None:
        print(f"register (with your public address, or set {settings.env}PUBLIC_URL):")
        base = "https://YOUR-HOST"
    else:
        print("register:")
    print(f"  {webhook_address(base, secret)}", flush=True)
    return settings
