"""Settings: arguments first, then the environment, then defaults. Read when a bot starts, never at import."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

import attrs

from ..base.fields import check_types
from ..base.frozen import guarded
from ..base.secrets import Secret
from ..errors import ConfigError
from ..webhook.limits import LIMITS, Limits

DEFAULT_BASE_URL: Final = "https://api.gap.im"
PREFIX: Final = "TRIOBOT_"
"""What the variables' names begin with, unless a bot says otherwise."""

log: Final = logging.getLogger("triobot")


def _hidden(text: Secret | str | None) -> Secret | None:
    return Secret(text) if isinstance(text, str) else text


@final
@guarded(kw_only=True)
class Settings:
    """All that a bot needs to know besides its code.

    Attributes:
        token: the service's token, from the developer portal (``TRIOBOT_TOKEN``); no log and no repr shows
            it, nor the webhook's secret.
        base_url: where the platform is (``TRIOBOT_BASE_URL``); https, unless it is on this machine.
        webhook_secret: the secret path of the webhook; several, separated by commas, are all accepted and
            the first is the current one (``TRIOBOT_WEBHOOK_SECRET``). None: the store makes and keeps one.
        store: ``sqlite:PATH`` or ``memory:`` (``TRIOBOT_STORE``); experimental: ``postgresql://...``.
        host, port: where to listen (``TRIOBOT_HOST``, ``TRIOBOT_PORT``); port 0 takes a free one.
        fd: an inherited listening socket instead of host and port (``--fd``, or systemd's variables).
        unix: a path to listen on instead, for a proxy on this machine (``TRIOBOT_UNIX``).
        unix_mode, unix_group: who may connect there, besides the bot's own user: a mode such as 0o660
            (``TRIOBOT_UNIX_MODE``, in octal) and the group's name or number (``TRIOBOT_UNIX_GROUP``). With a
            group alone the mode is 0o660.
        tls_certificate, tls_key: PEM files, to serve https without a proxy (``TRIOBOT_TLS_CERTIFICATE``,
            ``TRIOBOT_TLS_KEY``); the certificate's may hold the key too. A renewed
            one is taken while the bot runs.
        public_url: the address under which the platform reaches us (``TRIOBOT_PUBLIC_URL``), for
            ``triobot webhook-url``.
        username: the bot's own name, for ``/command@name`` in groups (``TRIOBOT_USERNAME``).
        media_hosts: domains, with all below them, from which files may be downloaded besides the platform's
            own (``TRIOBOT_MEDIA_HOSTS``, separated by commas).
        charge_hosts: hosts that a link to top up a wallet may lead to; by default the platform's own.
        max_amount: above this nothing is charged, as a guard against a mistake in an amount.
        retention_days: how long the store keeps conversations that crashed, for a look at their journals, and
            requests that nobody could read; and, a day at least, how long the key of a `start` or a signal is
            known (``TRIOBOT_RETENTION_DAYS``).
        keep_ended: days for which conversations that ended well are kept, too, with their journals, for a
            look at what they were (``TRIOBOT_KEEP_ENDED``); 0: they go at once.
        limits: how much the webhook takes, and how long it waits (each by its own variable, such as
            ``TRIOBOT_CONNECTIONS``).
        rate: how many requests the bot sends in a second at most, in all chats together
            (``TRIOBOT_RATE``), 1 at least: messages, edits, signs of typing, and what payments need, which
            goes first; no answers to callbacks. None: as many as the platform bears, as its answers show.
        backlog_seconds: an alarm tells when something has waited this long to be sent, or to be handed to its
            chat (``TRIOBOT_BACKLOG_SECONDS``).
        grace: seconds that a stop gives to what is being done.
        development: tell a developer, in the log, of habits that hurt later (``TRIOBOT_DEVELOPMENT=1``);
            on under ``triobot talk`` and in tests, off when a bot runs in earnest.
        log_tracebacks: log the traceback of an error of the bot's own code (``TRIOBOT_LOG_TRACEBACKS=1``).
            *Sensitive*: the error's text may hold what people wrote.
        allow_insecure: let the token travel over http:// to another machine.
        env: what the variables' names begin with, for what is said of them.
        name: what log lines and metrics call the bot (``TRIOBOT_NAME``); see `label`.
        metrics_host, metrics_port: where to serve ``/metrics`` for Prometheus (``TRIOBOT_METRICS_HOST``,
            ``TRIOBOT_METRICS_PORT``): an address, by default this machine's own only, and a port, 0 for a
            free one. Without a port only the operator's socket does.
        alarm_url, alarm_secret: an address that each alarm is posted to (``TRIOBOT_ALARM_URL``), and the key
            of the signature (``TRIOBOT_ALARM_SECRET``).
        alarm_chat: a chat of the bot that hears each alarm (``TRIOBOT_ALARM_CHAT``).
        alarm_repeat_hours: an alarm that lasts is told there again after so many hours
            (``TRIOBOT_ALARM_REPEAT_HOURS``); 0: never.
        trace_share: make OpenTelemetry spans of this share of the traces, from 0 to 1
            (``TRIOBOT_TRACE_SHARE``); None: the bot makes no spans, and doesn't load it.

    Each variable has a variant with ``_FILE`` at its end, which names a file that holds the value.
    """

    token: Secret | None = attrs.field(default=None, converter=_hidden)
    base_url: str = DEFAULT_BASE_URL
    webhook_secret: Secret | None = attrs.field(default=None, converter=_hidden)
    store: str = "sqlite:triobot.db"
    host: str = "127.0.0.1"
    port: int = 8080
    fd: int | None = None
    unix: str | None = None
    unix_mode: int | None = None
    unix_group: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    public_url: str | None = None
    username: str | None = None
    media_hosts: tuple[str, ...] = ()
    charge_hosts: tuple[str, ...] = ()
    max_amount: int | None = None
    retention_days: int = 7
    keep_ended: int = 0
    limits: Limits = attrs.field(factory=Limits)
    rate: float | None = None
    backlog_seconds: float = 60.0
    grace: float = 10.0
    allow_insecure: bool = False
    development: bool = False
    log_tracebacks: bool = False
    env: str = PREFIX
    name: str | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    alarm_url: Secret | None = attrs.field(default=None, converter=_hidden)
    alarm_secret: Secret | None = attrs.field(default=None, converter=_hidden)
    alarm_chat: int | None = None
    alarm_repeat_hours: int = 6
    trace_share: float | None = None

    def __attrs_post_init__(self) -> None:
        check_types(self)
        for port in (self.port, self.metrics_port):
            if port is not None and not 0 <= port <= 65535:
                raise ConfigError("the port must be from 0 to 65535")
        for name, days in (("retention_days", self.retention_days), ("keep_ended", self.keep_ended)):
            if days < 0:
                raise ConfigError(f"{name} must not be negative")
        if self.max_amount is not None and self.max_amount < 1:
            raise ConfigError("max_amount must be at least 1")
        if self.fd is not None and self.unix is not None:
            raise ConfigError("a socket was handed over, so that a path to listen on means nothing")
        if self.unix is None and (self.unix_mode is not None or self.unix_group is not None):
            raise ConfigError("there is a mode or a group and no path to listen on: set TRIOBOT_UNIX too")
        if self.unix_mode is not None and not 0 <= self.unix_mode <= 0o777:
            raise ConfigError("the mode of the path to listen on must be from 0 to 0o777")
        if (self.alarm_url is None) != (self.alarm_secret is None):
            raise ConfigError(
                f"{self.env}ALARM_URL and {self.env}ALARM_SECRET go together: set both, or none"
            )
        if self.name is not None and (not self.name.strip() or not self.name.isprintable()):
            raise ConfigError("the bot's name must be one line of text")
        if self.trace_share is not None and not 0 <= self.trace_share <= 1:
            raise ConfigError("trace_share must be from 0 to 1")
        if self.alarm_repeat_hours < 0:
            raise ConfigError("alarm_repeat_hours must not be negative")
        if self.tls_key is not None and self.tls_certificate is None:
            raise ConfigError("there is a key for TLS and no certificate: set TRIOBOT_TLS_CERTIFICATE too")
        if self.rate is not None and not 1 <= self.rate < math.inf:
            raise ConfigError("rate must be a number of requests a second, 1 at least")
        if not self.backlog_seconds > 0:
            raise ConfigError("backlog_seconds must be more than 0")
        if not self.grace >= 0:
            raise ConfigError("the grace period must not be negative")

    @property
    def label(self) -> str:
        """Return what log lines and metrics call the bot.

        Its name, if it has one; else what its variables begin with, if that is its own; else its store.
        """
        if self.name is not None:
            return self.name
        if self.env != PREFIX:
            return self.env.rstrip("_").lower()
        return Path(self.store.partition(":")[2]).stem or "triobot"

    @property
    def checked_token(self) -> Secret:
        """Return the token.

        Raises:
            ConfigError: there is none.
        """
        if self.token is None or not self.token.reveal():
            raise ConfigError(
                f"no token: set {self.env}TOKEN (or {self.env}TOKEN_FILE) to the token from the developer "
                "portal; to try a bot without one, `triobot talk MODULE:BOT`"
            )
        return self.token


def _whole(what: str, digits: int) -> Callable[[str], int]:
    """Make a reader of a whole number."""

    def read(text: str) -> int:
        if not re.fullmatch(f"[0-9]{{1,{digits}}}", text):
            raise ValueError(what)
        return int(text)

    return read


def _share(text: str) -> float:
    if not re.fullmatch(r"0|1|0?\.[0-9]{1,9}|[01]\.0*", text):
        raise ValueError("a number from 0 to 1")
    return float(text)


def _rate(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or float(text) < 1:
        raise ValueError("a number of requests a second from 1 to 999999, such as 30")
    return float(text)


def _switch(text: str) -> bool:
    # Neither "no" nor "false" may turn on what shows what people wrote.
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _mode(text: str) -> int:
    if not re.fullmatch(r"(0o?)?[0-7]{3}", text):
        raise ValueError("a mode in octal, such as 660")
    return int(text[-3:], 8)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[,\s]+", text)))


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "token": Secret,
    "base_url": str,
    "webhook_secret": Secret,
    "store": str,
    "host": str,
    "port": _whole("a number", 9),
    "unix": str,
    "unix_mode": _mode,
    "unix_group": str,
    "tls_certificate": str,
    "tls_key": str,
    "public_url": str,
    "username": str,
    "name": str,
    "metrics_host": str,
    "metrics_port": _whole("a number", 9),
    "alarm_url": Secret,
    "alarm_secret": Secret,
    "alarm_chat": _whole("a chat's number", 18),
    "trace_share": _share,
    "alarm_repeat_hours": _whole("a whole number of hours, from 0 to 99999", 5),
    "media_hosts": _listed,
    "development": _switch,
    "log_tracebacks": _switch,
    "retention_days": _whole("a number of days", 5),
    "keep_ended": _whole("a number of days", 5),
    "rate": _rate,
    "backlog_seconds": _whole("a number of seconds", 7),
}
"""By setting, what reads its variable, or raises what it must be; the other settings have none."""

LOG_FORMAT: Final = "LOG_FORMAT"
"""Read by the command line, for the process."""
_KNOWN: Final = (*(name.upper() for name in (*_READERS, *LIMITS)), LOG_FORMAT)


def check_prefix(env: object) -> str:
    """Refuse what the names of variables can't begin with.

    Raises:
        ConfigError: it is no such text.
    """
    if not isinstance(env, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]*_", env, re.ASCII):
        raise ConfigError("Bot(env=) is what the variables begin with: capitals and a _, such as SHOP_")
    return env


def read_environment(environ: Mapping[str, str], prefix: str = PREFIX) -> Settings:
    """Read the settings from variables.

    Args:
        prefix: what their names begin with. With another one than the usual the store is a file of that
            name, so that two bots in one folder don't meet in one store.

    Raises:
        ConfigError: a value can't be read, or a file named by ``..._FILE`` can't; secrets are not shown.
    """
    for name in sorted(environ):
        own = name[len(prefix) :].removesuffix("_FILE")
        if not name.startswith(prefix) or own in _KNOWN:
            continue
        from difflib import get_close_matches  # by those only that have such a variable

        # What begins with a prefix of the author's choice may be the author's own.
        if prefix == PREFIX or get_close_matches(own, _KNOWN, n=1, cutoff=0.8):
            known = ", ".join(f"{prefix}{one}" for one in _KNOWN)
            log.warning("nothing reads the variable %s; the known ones are %s", name, known)
    limits = Limits.read(dict(_given(environ, LIMITS, prefix)))
    read: dict[str, Any] = {"env": prefix}
    if prefix != PREFIX:
        read["store"] = f"sqlite:{prefix.rstrip('_').lower()}.db"
    for name, text in _given(environ, _READERS, prefix):
        try:
            read[name] = _READERS[name](text)
        except ValueError as error:
            raise ConfigError(f"{prefix}{name.upper()} must be {error}") from None
    return Settings(limits=limits, **read)


def _given(environ: Mapping[str, str], names: Iterable[str], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of these names that a variable, or the file that it names, gives."""
    for setting in names:
        name = f"{prefix}{setting.upper()}"
        value, place = environ.get(name), environ.get(f"{name}_FILE")
        if value and place:
            raise ConfigError(f"{name} and {name}_FILE are both set; set one of them")
        if place:
            try:
                value = Path(place).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"{name}_FILE: the file {place!r} can't be read ({type(error).__name__})"
                ) from None
        if value:
            yield setting, value
