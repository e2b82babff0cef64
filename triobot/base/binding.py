"""Addresses that a server listens on: TCP, Unix socket or inherited socket.

With an inherited socket, no connection is refused during a restart. The socket stays open in the process that
made it, and the kernel queues new connections until the next process accepts them.
"""

from __future__ import annotations

import errno
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

# The first descriptor of the sockets that systemd passes (sd_listen_fds).
_FIRST_INHERITED: Final = 3


@final
@guarded
class TcpBind:
    """TCP address of this computer. For port 0 the system chooses a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@final
@guarded
class UnixBind:
    """Path of a Unix socket, for a proxy on this computer.

    If an ended process has left a socket at this path, the socket is replaced.

    Attributes:
        mode: file mode of the path; a client needs write permission to connect. None: the process's umask
            decides, which usually permits this user only.
        group: name or number of the path's group; None: the process's own group.
    """

    path: str
    mode: int | None = None
    group: str | None = None

    def __str__(self) -> str:
        return f"unix:{self.path}"


@final
@guarded
class FdBind:
    """Descriptor of an inherited stream socket. `open_listeners` takes ownership of the descriptor."""

    fd: int

    def __str__(self) -> str:
        return f"fd://{self.fd}"


Bind: TypeAlias = TcpBind | UnixBind | FdBind


def inherited_binds(environ: Mapping[str, str], pid: int) -> tuple[FdBind, ...]:
    """Return the sockets that systemd has opened for this process; empty without such sockets.

    Args:
        environ: environment with LISTEN_FDS and LISTEN_PID.
        pid: this process's id; sockets for another process are ignored.
    """
    listen_pid, count = environ.get("LISTEN_PID", ""), environ.get("LISTEN_FDS", "")
    if listen_pid != str(pid) or not re.fullmatch(r"[1-9][0-9]{0,2}", count):
        return ()
    return tuple(FdBind(fd) for fd in range(_FIRST_INHERITED, _FIRST_INHERITED + int(count)))


def allow_descriptors(needed: int) -> None:
    """Raise the process's limit of open files to `needed`, but not above the system's hard limit."""
    try:
        import resource
    except ImportError:
        return  # Windows doesn't limit the number of open files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def open_listeners(binds: Sequence[Bind], *, backlog: int) -> list[trio.SocketListener]:
    """Listen on all addresses, or raise an error and listen on none.

    Raises:
        ConfigError: an address is in use or doesn't belong to this computer, or a descriptor is no listening
            socket.
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
            if error.errno is None:  # Python raised this error before any system call, so it has no number
                raise ValueError("the path is too long for a socket; Linux takes 107 bytes") from None
            if error.errno != errno.EADDRINUSE or not _is_left_over(path):
                raise
            Path(path).unlink()
            made.bind(path)
        # Set group and mode before listening: no connection is possible yet.
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
    import grp  # Windows has neither grp nor Unix sockets

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f"there is no group {group!r}") from None


def _set_mode(path: str, mode: int) -> None:
    # Change the mode through a descriptor of the path. If other users may write in the folder, they could
    # replace the path by a link before the change.
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
    # Connecting to a plain file fails with the same error as connecting to a dead socket, but a plain file
    # must not be deleted.
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
"""A server's TLS context, or a function that returns the context of a new connection. The function must be
quick and must not raise."""
