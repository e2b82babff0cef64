"""When descriptors run out: nothing spins, nothing ends, and errors stay what they are."""

from __future__ import annotations

import errno
import ssl

import pytest
import trio

from triobot.base import authorities
from triobot.http.connections import NoConnectionError, Origin, dial


async def test_certificates_that_can_t_be_read_are_a_connection_that_was_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading them takes a descriptor more than the socket; nothing has been sent then."""

    def none_left() -> ssl.SSLContext:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(authorities, "client_context", none_left)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        origin = Origin("https", "127.0.0.1", listener.socket.getsockname()[1])
        with pytest.raises(NoConnectionError, match="Too many open files"):
            await dial(origin)
