"""A mail server on this machine, which accepts mail only over TLS and after a login."""

from __future__ import annotations

import base64
import email
import email.policy
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from email.message import EmailMessage
from functools import partial
from typing import cast

import attrs
import trio
import trustme

HOST = "127.0.0.2"


@attrs.define
class MailServer:
    """One, and the mails that it has taken."""

    user: str
    password: str
    authority: trustme.CA = attrs.Factory(trustme.CA)
    port: int = 0
    mails: list[EmailMessage] = attrs.Factory(list)

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Talk SMTP until the other side leaves."""
        with suppress(trio.BrokenResourceError):  # it has gone
            await self._talk(await self._within_tls(stream))

    async def _within_tls(self, stream: trio.abc.Stream) -> trio.abc.Stream:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(HOST).configure_cert(context)
        secure = trio.SSLStream(stream, context, server_side=True)
        await secure.do_handshake()
        return secure

    async def _talk(self, stream: trio.abc.Stream) -> None:
        rest, known = b"", False

        async def until(mark: bytes) -> bytes:
            nonlocal rest
            while mark not in rest:
                if not (piece := await stream.receive_some()):
                    raise trio.BrokenResourceError
                rest += piece
            part, rest = rest.split(mark, 1)
            return part

        await stream.send_all(b"220 here\r\n")
        while True:
            line = (await until(b"\r\n")).decode()
            match line.split()[0].upper():
                case "EHLO":
                    answer = "250-here\r\n250 AUTH PLAIN"
                case "AUTH":
                    given = base64.b64decode(line.split()[2]).decode()
                    known = given == f"\0{self.user}\0{self.password}"
                    answer = "235 welcome" if known else f"535 {self.password} is not what you said"
                case "DATA":
                    await stream.send_all(b"354 go on\r\n")
                    text = await until(b"\r\n.\r\n")
                    mail = email.message_from_bytes(text, policy=email.policy.default)
                    self.mails.append(cast(EmailMessage, mail))
                    answer = "250 taken"
                case "QUIT":
                    return
                case _:
                    answer = "250 fine" if known else "530 who are you?"
            await stream.send_all(f"{answer}\r\n".encode())


@asynccontextmanager
async def receiving(server: MailServer) -> AsyncGenerator[None]:
    """Have it serve while the block runs."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.serve, 0, host=HOST))
        server.port = listeners[0].socket.getsockname()[1]
        yield
        nursery.cancel_scope.cancel()
