"""Where a server listens: an address, a path, or an inherited socket.

With an inherited socket a restart refuses no connection: the socket stays open in the process that made it,
and the kernel keeps the connections of the gap in its queue for the next process.

A server's TLS is here, too: made from the files that certificate programs write.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import ssl
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, assert_never, cast, final

import trio

from ..errors import ConfigError
from .frozen import guarded

# systemd hands its sockets over from this number on (sd_listen_fds).
_FIRST_INHERITED: Final = 3
_log: Final = logging.getLogger("triobot.http")


@final
@guarded
class TcpBind:
    """An address of this machine; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@final
@guarded
class UnixBind:
    """A path, for a proxy on this machine. What an ended process has left there is replaced.

    Attributes:
        mode: of the path; connecting needs write permission. None: by the process's umask, mostly its user.
        group: the name or the number of the group that the path belongs to; None: the process's own.
    """

    path: str
    mode: int | None = None
    group: str | None = None

    def __str__(self) -> str:
        return f"unix:{self.path}"


@final
@guarded
class FdBind:
    """A stream socket that this process has inherited; `open_listeners` takes it over, and closes it."""

    fd: int

    def __str__(self) -> str:
        return f"fd://{self.fd}"


Bind: TypeAlias = TcpBind | UnixBind | FdBind


def inherited_binds(environ: Mapping[str, str], pid: int) -> tuple[FdBind, ...]:
    """Return the sockets that systemd has opened for this process; empty if it has opened none.

    Args:
        environ: LISTEN_FDS and LISTEN_PID are read.
        pid: this process's; another one's sockets are not ours.
    """
    told, count = environ.get("LISTEN_PID", ""), environ.get("LISTEN_FDS", "")
    if told != str(pid) or not re.fullmatch(r"[1-9][0-9]{0,2}", count):
        return ()
    return tuple(FdBind(fd) for fd in range(_FIRST_INHERITED, _FIRST_INHERITED + int(count)))


def allow_descriptors(needed: int) -> None:
    """Let this process open `needed` files, or as many as the system allows it."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such bound
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def open_listeners(binds: Sequence[Bind], *, backlog: int) -> list[trio.SocketListener]:
    """Listen on all of these, or on none.

    Raises:
        ConfigError: an address is taken, is not this machine's, or is no listening socket.
    """
    if not binds:
        raise ConfigError("there is no address to listen on")
    listeners: list[trio.SocketListener] = []
    try:
        for bind in binds:
            try:
                listeners.extend(await _open(bind, backlog))
            except (OSError, ValueError) as error:
                raise ConfigError(f"can't listen on {bind}: {_reason(error)}") from error
    except BaseException:
        for listener in listeners:
            listener.socket.close()
        raise
    return listeners


def address_of(listener: trio.SocketListener, *, secured: bool = False) -> str:
    """Return the listener's address for display, such as ``http://127.0.0.1:8080``."""
    made = listener.socket
    if made.family in (socket.AF_INET, socket.AF_INET6):
        host, port = cast("tuple[str, int]", made.getsockname()[:2])
        return f"{'https' if secured else 'http'}://{TcpBind(host, port)}"
    return f"unix:{made.getsockname()}"


async def _open(bind: Bind, backlog: int) -> list[trio.SocketListener]:
    match bind:
        case TcpBind(host, port):
            return await trio.open_tcp_listeners(port, host=host, backlog=backlog)
        case UnixBind():
            await trio.lowlevel.checkpoint()
            if not hasattr(socket, "AF_UNIX"):
                raise ValueError("this system has no Unix sockets")
            return [_listen_unix(bind, backlog)]
        case FdBind(fd):
            await trio.lowlevel.checkpoint()
            return [_take_over(fd, backlog)]
        case _ as never:
            assert_never(never)


def _listen_unix(bind: UnixBind, backlog: int) -> trio.SocketListener:
    path = bind.path
    group = -1 if bind.group is None else _group_id(bind.group)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            made.bind(path)
        except OSError as error:
            if error.errno is None:  # Python's own, before the system was asked
                raise ValueError("the path is too long for a socket; Linux takes 107 bytes") from None
            if error.errno != errno.EADDRINUSE or not _is_left_over(path):
                raise
            Path(path).unlink()
            made.bind(path)
        # Before a connection is possible.
        if group != -1:
            os.chown(path, -1, group, follow_symlinks=False)
        if bind.mode is not None:
            _set_mode(path, bind.mode)
        made.listen(backlog)
        return trio.SocketListener(trio.socket.from_stdlib_socket(made))
    except BaseException:
        made.close()
        raise


def _group_id(group: str) -> int:
    if re.fullmatch(r"[0-9]{1,10}", group):
        return int(group)
    import grp  # Windows has none, and no Unix sockets either

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f"there is no group {group!r}") from None


def _set_mode(path: str, mode: int) -> None:
    # By a descriptor of the name itself: where others may write to the folder, a link could be there by now.
    nameless = getattr(os, "O_PATH", None)
    if nameless is None:
        Path(path).chmod(mode)
        return
    fd = os.open(path, nameless | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise ValueError("what is there is no socket any more")
        Path(f"/proc/self/fd/{fd}").chmod(mode)
    finally:
        os.close(fd)


def _take_over(fd: int, backlog: int) -> trio.SocketListener:
    inherited = socket.socket(fileno=fd)
    try:
        if inherited.type != socket.SOCK_STREAM:
            raise ValueError("it is no stream socket")
        inherited.listen(backlog)
        return trio.SocketListener(trio.socket.from_stdlib_socket(inherited))
    except BaseException:
        inherited.close()
        raise


def _is_left_over(path: str) -> bool:
    # Connecting to a plain file fails with the same error: such a file is in use, and stays.
    if not stat.S_ISSOCK(Path(path).lstat().st_mode):
        raise ValueError("what is there is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "another program is listening there"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


Tls: TypeAlias = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""A server's TLS context, or a function that returns it for each connection; quick, and must not raise."""


def server_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """Return a TLS context for a server with this certificate, offering HTTP/1.1.

    Args:
        certificate: a PEM file with the whole chain; it may hold the key too.
        key: a PEM file with the key, without a password.

    Raises:
        ConfigError: a file can't be read or isn't one, or the two don't belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=refuse_password)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ConfigError(f"the certificate {certificate} and its key can't be used: {reason}") from error
    return context


@final
class RenewedCertificate:
    """Returns a TLS context with the certificate that the files hold now, for each connection that begins.

    A certificate that can't be used, such as a new one whose key has not been written yet, is logged, and the
    one before stays in use. Args and Raises: as `server_context`.
    """

    def __init__(self, certificate: str | Path, key: str | Path | None = None) -> None:
        self._certificate = Path(certificate)
        self._key = None if key is None else Path(key)
        # Before they are read: a change in between is seen the next time.
        self._seen = self._look()
        self._context = server_context(self._certificate, self._key)

    def __call__(self) -> ssl.SSLContext:
        """Return the TLS context for a connection that begins now."""
        found = self._look()
        if found != self._seen:
            self._seen = found
            try:
                # A new one: half of a change in the old would break it, too.
                self._context = server_context(self._certificate, self._key)
                _log.info("the certificate %s was renewed, and is used from now on", self._certificate)
            except ConfigError as error:
                _log.warning("%s; the one before stays in use", error)
        return self._context

    def _look(self) -> list[tuple[int, ...] | None]:
        return [state_of(path) for path in (self._certificate, self._key) if path is not None]


def state_of(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from the one that was there before it; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def refuse_password() -> str:
    """Raise ValueError; without this OpenSSL asks at the terminal, and a service stands still."""
    raise ValueError("the key has a password")
