"""Start of a child process. Parent and child exchange lines of JSON over a socket."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence

import trio

from ..errors import TravelError


async def start_child(
    command: Sequence[str], environ: Mapping[str, str]
) -> tuple[trio.Process, trio.SocketStream]:
    """Start a process, and append the descriptor of the child's end of the socket to the command line.

    Raises:
        TravelError: on this system, a process can't inherit an open socket.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise TravelError("this needs Linux or macOS, where a process is handed an open socket")
    ours, theirs = socket.socketpair()
    line = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    with theirs:
        try:
            process = await trio.lowlevel.open_process(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environ,
                start_new_session=True,
            )
        except BaseException:
            await trio.aclose_forcefully(line)
            raise
    return process, line
