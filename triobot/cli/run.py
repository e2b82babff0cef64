"""``triobot run``: arguments; `run_work` implements the command."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from .arguments import mode, number, port, whole

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
  triobot run pizza.py:bot --port 9000 --store sqlite:/var/lib/pizza.db
  triobot run pizza:bot --fd 3
  triobot run shop:bot desk:bot
"""

FORMATS: Final = ("plain", "json")


def declare(parser: argparse.ArgumentParser) -> None:
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
        help="a limit of the webhook, such as connections=1000 (all: the docs' page reference); repeatable",
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
