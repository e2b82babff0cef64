"""A bot's settings. An argument overrides an environment variable, and a variable overrides the default.

Variables are read when a bot starts, never at import.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

import attrs

from ..base.fields import check_types
from ..base.secrets import Secret
from ..errors import ConfigError
from ..webhook.limits import LIMITS, Limits

DEFAULT_BASE_URL: Final = "https://api.gap.im"
PREFIX: Final = "TRIOBOT_"
"""Default prefix of the variables' names."""

log: Final = logging.getLogger("triobot")


def _check(fits: object, words: str) -> None:
    if not fits:
        raise ConfigError(words)


def _hidden(text: Secret | str | None) -> Secret | None:
    return Secret(text) if isinstance(text, str) else text


@final
@attrs.frozen(kw_only=True)
class Settings:
    """A bot's configuration.

    Attributes:
        token: the service's token, from the developer portal (``TRIOBOT_TOKEN``). No log and no repr shows
            the token or the webhook's secret.
        base_url: the platform's address (``TRIOBOT_BASE_URL``). The address must be https, unless the
            platform is on this machine.
        webhook_secret: secret path of the webhook (``TRIOBOT_WEBHOOK_SECRET``). Several secrets, separated by
            commas, are all accepted. The first is the current secret. Without a value, the store generates a
            secret and keeps it.
        store: ``sqlite:PATH``, ``postgresql://...`` or ``memory:`` (``TRIOBOT_STORE``).
        host, port: address to listen on (``TRIOBOT_HOST``, ``TRIOBOT_PORT``). Port 0 means any free port.
        fd: an inherited listening socket instead of host and port (``--fd``, or systemd's variables).
        unix: path of a Unix socket (``TRIOBOT_UNIX``). The bot listens on this socket instead of a port, for
            a proxy on this machine.
        unix_mode, unix_group: mode of the Unix socket, such as 0o660 (``TRIOBOT_UNIX_MODE``, in octal), and
            name or number of its group (``TRIOBOT_UNIX_GROUP``). Mode and group determine who may connect
            besides the bot's own user. If only a group is set, the mode is 0o660.
        tls_certificate, tls_key: PEM files with the certificate and its key, for https without a proxy
            (``TRIOBOT_TLS_CERTIFICATE``, ``TRIOBOT_TLS_KEY``). One file may contain certificate and key. The
            running bot loads a renewed certificate.
        public_url: the webhook's public address, which ``triobot webhook-url`` prints
            (``TRIOBOT_PUBLIC_URL``).
        username: the bot's username, to recognize ``/command@name`` in groups (``TRIOBOT_USERNAME``).
        media_hosts: more domains from which the bot may download files, besides the platform's domain.
            Subdomains are included (``TRIOBOT_MEDIA_HOSTS``, separated by commas).
        charge_hosts: hosts allowed in a link to top up a wallet; by default the platform's own hosts.
        max_amount: largest amount that may be charged, as a guard against mistakes.
        retention_days: number of days for which the store keeps the journals of crashed conversations, and
            unreadable requests (``TRIOBOT_RETENTION_DAYS``). The store keeps the keys of `start` and of
            signals for the same time, but at least for a day. Another start or signal with a kept key has no
            effect.
        keep_ended: number of days for which the store keeps conversations that ended normally, with their
            journals (``TRIOBOT_KEEP_ENDED``). 0 means that the store deletes these conversations at once.
        limits: limits of the webhook (each by its own variable, such as ``TRIOBOT_CONNECTIONS``).
        rate: largest number of requests that the bot sends per second, for all chats together
            (``TRIOBOT_RATE``). The rate is at least 1. The limit applies to messages, edits, typing
            indicators and requests about payments, but not to answers to callbacks. Requests about payments
            are sent first. Without a value, the platform's answers determine the rate.
        backlog_seconds: number of seconds that a message or event may wait before the bot raises an alarm
            (``TRIOBOT_BACKLOG_SECONDS``).
        grace: seconds that a stop waits for running work.
        development: log warnings about code that will cause trouble later, and check after each answer that a
            restart would restore the conversation (``TRIOBOT_DEVELOPMENT=1``). The warnings are on under
            ``triobot talk`` and in tests, and off in production.
        log_tracebacks: log the traceback of each error in the bot's own code (``TRIOBOT_LOG_TRACEBACKS=1``).
            *Sensitive*: the error's text may contain users' messages.
        allow_insecure: allow sending the token over http:// to another machine.
        env: prefix of the variables' names, for messages.
        name: the bot's name in log lines and metrics (``TRIOBOT_NAME``). The default is the prefix of the
            bot's variables, or the store's name.
        metrics_host, metrics_port: address and port of ``/metrics`` for Prometheus (``TRIOBOT_METRICS_HOST``,
            ``TRIOBOT_METRICS_PORT``). Only this machine can reach the default address. Port 0 means any free
            port. Without a port, only the operator's socket serves metrics.
        alarm_url, alarm_secret: address to which the bot posts each alarm (``TRIOBOT_ALARM_URL``), and the
            key of the posts' signature (``TRIOBOT_ALARM_SECRET``).
        alarm_chat: the chat to which the bot sends each alarm (``TRIOBOT_ALARM_CHAT``).
        alarm_repeat_hours: number of hours after which the bot posts and sends an open alarm again
            (``TRIOBOT_ALARM_REPEAT_HOURS``). 0 means never.
        trace_share: share of the traces for which the bot makes OpenTelemetry spans, from 0 to 1
            (``TRIOBOT_TRACE_SHARE``). Without a value, the bot makes no spans, and doesn't import
            OpenTelemetry.

    For each variable there is a variant with the suffix ``_FILE``, which names a file with the value.
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
            _check(port is None or 0 <= port <= 65535, "the port must be from 0 to 65535")
        for name in ("retention_days", "keep_ended", "alarm_repeat_hours"):
            _check(getattr(self, name) >= 0, f"{name} must not be negative")
        _check(self.max_amount is None or self.max_amount >= 1, "max_amount must be at least 1")
        handed_over = self.fd is not None and self.unix is not None
        _check(not handed_over, "a socket was handed over, so that a path to listen on means nothing")
        _check(
            self.unix is not None or (self.unix_mode is None and self.unix_group is None),
            "there is a mode or a group and no path to listen on: set TRIOBOT_UNIX too",
        )
        mode_fits = self.unix_mode is None or 0 <= self.unix_mode <= 0o777
        _check(mode_fits, "the mode of the path to listen on must be from 0 to 0o777")
        together = f"{self.env}ALARM_URL and {self.env}ALARM_SECRET go together: set both, or none"
        _check((self.alarm_url is None) == (self.alarm_secret is None), together)
        is_line = self.name is None or (self.name.strip() and self.name.isprintable())
        _check(is_line, "the bot's name must be one line of text")
        _check(self.trace_share is None or 0 <= self.trace_share <= 1, "trace_share must be from 0 to 1")
        _check(
            self.tls_key is None or self.tls_certificate is not None,
            "there is a key for TLS and no certificate: set TRIOBOT_TLS_CERTIFICATE too",
        )
        rate_fits = self.rate is None or 1 <= self.rate < math.inf
        _check(rate_fits, "rate must be a number of requests a second, 1 at least")
        _check(self.backlog_seconds > 0, "backlog_seconds must be more than 0")
        _check(self.grace >= 0, "the grace period must not be negative")

    @property
    def label(self) -> str:
        """The bot's name in log lines and metrics.

        If `name` is None, the prefix of the bot's variables is the name, such as ``shop`` for ``SHOP_``. With
        the default prefix, the name is made from the store's address.
        """
        if self.name is not None:
            return self.name
        if self.env != PREFIX:
            return self.env.rstrip("_").lower()
        return Path(self.store.partition(":")[2]).stem or "triobot"

    @property
    def checked_token(self) -> Secret:
        """The token.

        Raises:
            ConfigError: there is no token.
        """
        if self.token is None or not self.token.reveal():
            raise ConfigError(
                f"no token: set {self.env}TOKEN (or {self.env}TOKEN_FILE) to the token from the developer "
                "portal; to try a bot without one, `triobot talk MODULE:BOT`"
            )
        return self.token


def _matching(pattern: str, what: str, made: Callable[[str], object]) -> Callable[[str], object]:
    """Return a parser of texts that match the pattern; `what` names the valid texts in errors."""

    def read(text: str) -> object:
        if not re.fullmatch(pattern, text):
            raise ValueError(what)
        return made(text)

    return read


def _whole(what: str, digits: int) -> Callable[[str], object]:
    return _matching(f"[0-9]{{1,{digits}}}", what, int)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[,\s]+", text)))


# Only 0 and 1 are valid, so that "no" or "false" never switches on an option that shows users' messages.
_SWITCH: Final = _matching("[01]", "0 or 1", "1".__eq__)
_RATE: Final = "a number of requests a second from 1 to 999999, such as 30"
_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(("token", "webhook_secret", "alarm_url", "alarm_secret"), Secret),
    **dict.fromkeys(("base_url", "store", "host", "unix", "unix_group", "tls_certificate", "tls_key"), str),
    **dict.fromkeys(("public_url", "username", "name", "metrics_host"), str),
    **dict.fromkeys(("port", "metrics_port"), _whole("a number", 9)),
    **dict.fromkeys(("retention_days", "keep_ended"), _whole("a number of days", 5)),
    **dict.fromkeys(("development", "log_tracebacks"), _SWITCH),
    "unix_mode": _matching("(0o?)?[0-7]{3}", "a mode in octal, such as 660", lambda text: int(text[-3:], 8)),
    "alarm_chat": _whole("a chat's number", 18),
    "trace_share": _matching(r"0|1|0?\.[0-9]{1,9}|[01]\.0*", "a number from 0 to 1", float),
    "alarm_repeat_hours": _whole("a whole number of hours, from 0 to 99999", 5),
    "media_hosts": _listed,
    "rate": _matching(r"(?=0*[1-9])[0-9]{1,6}(\.[0-9]{1,6})?", _RATE, float),
    "backlog_seconds": _whole("a number of seconds", 7),
}
"""Parsers of the settings that have a variable; a parser's ValueError names the valid values."""

LOG_FORMAT: Final = "LOG_FORMAT"
"""Variable for the whole process, read by the command line."""
_KNOWN: Final = (*(name.upper() for name in (*_READERS, *LIMITS)), LOG_FORMAT)


def check_prefix(env: object) -> str:
    """Check that `env` can be the prefix of variables' names.

    Raises:
        ConfigError: `env` is invalid.
    """
    if not isinstance(env, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]*_", env, re.ASCII):
        raise ConfigError("Bot(env=) is what the variables begin with: capitals and a _, such as SHOP_")
    return env


def read_environment(environ: Mapping[str, str], prefix: str = PREFIX) -> Settings:
    """Read the settings from variables.

    Args:
        prefix: prefix of the variables' names. With another prefix than the default, the default store is a
            file named after the prefix. So two bots in one folder use different stores.

    Raises:
        ConfigError: a value is invalid, or a file named by ``..._FILE`` is unreadable; the error shows no
            secret.
    """
    for name in sorted(environ):
        own = name[len(prefix) :].removesuffix("_FILE")
        if not name.startswith(prefix) or own in _KNOWN:
            continue
        from difflib import get_close_matches  # imported only for an unknown variable

        # If the author has chosen the prefix, an unknown variable may be the author's own.
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
    """Yield the named settings that have a value in a variable, or in a file that a variable names."""
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
