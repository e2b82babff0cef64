"""Addresses at which a bot listens: a socket's path, or https with files; and contradictory settings."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme

from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.errors import ConfigError

ASKED = b"GET /healthz HTTP/1.1\r\nHost: bot\r\nConnection: close\r\n\r\n"


def a_bot() -> Bot:
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send("Hello.")

    return bot


def settings(**more: object) -> Settings:
    return Settings(
        token=Secret("trial-token-0123456789"),
        base_url="http://127.0.0.1:9",
        store="memory:",
        port=0,
        **more,  # type: ignore[arg-type]
    )


async def test_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "bot.sock")
    async with trio.open_nursery() as nursery:
        bot = a_bot()
        bound = await nursery.start(partial(bot.serve, settings=settings(unix=path)))
        assert bound == [f"unix:{path}"]
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(ASKED)
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        bot.stop()


async def test_https(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with trio.open_nursery() as nursery:
        bot = a_bot()
        files = {"tls_certificate": str(tmp_path / "cert.pem"), "tls_key": str(tmp_path / "key.pem")}
        (address,) = await nursery.start(partial(bot.serve, settings=settings(**files)))
        assert address.startswith("https://127.0.0.1:")
        stream = await trio.open_ssl_over_tcp_stream(
            "localhost", int(address.rpartition(":")[2]), ssl_context=trusting, https_compatible=True
        )
        async with stream:
            await stream.send_all(ASKED)
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        bot.stop()


def test_what_contradicts_itself() -> None:
    with pytest.raises(ConfigError, match="no certificate"):
        settings(tls_key="key.pem")
    with pytest.raises(ConfigError, match="handed over"):
        settings(fd=3, unix="/run/bot.sock")


async def test_a_certificate_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be used"):
        await a_bot().serve(settings=settings(tls_certificate=str(tmp_path / "none.pem")))
