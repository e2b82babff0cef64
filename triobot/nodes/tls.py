"""TLS between the nodes' doors: each node shows a certificate of one authority, which is theirs alone.

Names are not checked: a node is found by its row in the database, at whatever address it has there. So it is
the authority that says who is a node, and behind that both sides prove the store's key.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final, final

import trio

from ..binding import refuse_password, state_of
from ..errors import ConfigError
from ..settings import Settings
from .links import StrangerError

_log: Final = logging.getLogger("triobot.nodes")
_HANDSHAKE_SECONDS: Final = 2.0
_FILES: Final = ("door_certificate", "door_key", "door_ca")


@final
class DoorTls:
    """What a node shows at its own door and at the others', and what it wants to see there.

    Files that have changed are read anew for the next connection. If they can't be used then, the log says so
    and those before stay in use.

    Raises:
        ConfigError: a file can't be used, or the certificate is none of that authority's.
    """

    def __init__(self, certificate: str, key: str, authority: str) -> None:
        self._files = (Path(certificate), Path(key), Path(authority))
        # Before they are read: a change in between is seen the next time.
        self._seen = self._look()
        self._first, self._second = _contexts(*self._files)

    async def secure(self, stream: trio.abc.Stream, *, first: bool) -> trio.abc.Stream:
        """Agree on TLS over a connection; if that fails it is closed.

        Args:
            first: this side has connected.

        Raises:
            StrangerError: the other side has no certificate that is accepted, or doesn't accept ours.
            trio.TooSlowError: it says nothing.
        """
        self._renew()
        context = self._first if first else self._second
        secured = trio.SSLStream(stream, context, server_side=not first, https_compatible=True)
        try:
            with trio.fail_after(_HANDSHAKE_SECONDS):
                await secured.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            reason = error.__cause__ if isinstance(error, trio.BrokenResourceError) else None
            # One that ends meanwhile is no stranger.
            if isinstance(reason, ssl.SSLError) and not isinstance(reason, ssl.SSLEOFError):
                raise StrangerError(
                    f"TLS was not agreed on ({_told(reason)}); each node needs a certificate of the same"
                    " authority"
                ) from None
            raise
        return secured

    def _renew(self) -> None:
        if (found := self._look()) == self._seen:
            return
        self._seen = found
        try:
            self._first, self._second = _contexts(*self._files)
        except ConfigError as error:
            _log.warning("%s; those before stay in use", error)
        else:
            _log.info("the certificate %s was renewed, and is used from now on", self._files[0])

    def _look(self) -> list[tuple[int, ...] | None]:
        return [state_of(path) for path in self._files]


def read_door_tls(settings: Settings) -> DoorTls | None:
    """Return what encrypts the doors, by the settings; None: nothing does.

    Raises:
        ConfigError: a file is missing or can't be used.
    """
    certificate, key, authority = settings.door_certificate, settings.door_key, settings.door_ca
    if certificate is not None and key is not None and authority is not None:
        return DoorTls(certificate, key, authority)
    given = [name for name in _FILES if getattr(settings, name) is not None]
    if given:
        missing = ", ".join(f"{settings.env}{name.upper()}" for name in _FILES if name not in given)
        raise ConfigError(
            f"the doors of nodes are encrypted by a certificate, its key and the authority's certificate: set"
            f" {missing} too"
        )
    return None


def _contexts(certificate: Path, key: Path, authority: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of the side that has connected, and of the other one."""
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(certificate, key, password=refuse_password)
        except (OSError, ValueError) as error:
            said = (
                f"the certificate {certificate} and its key {key} can't be used for the door: {_told(error)}"
            )
            raise ConfigError(said) from None
        try:
            context.load_verify_locations(authority)
        except (OSError, ValueError) as error:
            said = f"the authority's certificate {authority} can't be used for the door: {_told(error)}"
            raise ConfigError(said) from None
    _try_out(certificate, authority, *contexts)
    return contexts


def _try_out(certificate: Path, authority: Path, first: ssl.SSLContext, second: ssl.SSLContext) -> None:
    """Have both sides agree in memory: a certificate that other nodes would refuse is told here and now."""
    to_first, to_second = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        first.wrap_bio(to_first, to_second),
        second.wrap_bio(to_second, to_first, server_side=True),
    )
    for side in sides * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise ConfigError(
                f"the other nodes would refuse the certificate {certificate}: {_told(error)}; it must be one"
                f" of the authority {authority}, in its time, for both sides of a connection"
            ) from None


def _told(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.reason or "it isn't one, or both don't belong together"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
