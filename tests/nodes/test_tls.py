"""TLS between doors: who is let in, what is told of those who aren't, and of files that can't be used."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest
import trio
import trio.testing
import trustme

from triobot.errors import ConfigError
from triobot.nodes.links import VERSION, Kind, StrangerError, open_link
from triobot.nodes.tls import DoorTls, read_door_tls
from triobot.settings import Settings

KEY = b"the store's key, which both sides have"
Files: TypeAlias = tuple[str, str, str]


@attrs.frozen
class Folder:
    """Where certificates are written."""

    path: Path

    def write(self, authority: trustme.CA, name: str, **more: datetime) -> Files:
        """Write a node's certificate, its key, and its authority's."""
        files = [self.path / f"{name}-{what}.pem" for what in ("certificate", "key", "ca")]
        issued = authority.issue_cert(f"{name}.internal", **more)
        issued.cert_chain_pems[0].write_to_path(files[0])
        issued.private_key_pem.write_to_path(files[1])
        authority.cert_pem.write_to_path(files[2])
        certificate, key, ca = map(str, files)
        return certificate, key, ca


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def meet(first: DoorTls | None, second: DoorTls | None) -> tuple[str, str]:
    """Have two sides meet over a real connection; what each of them says."""
    said = ["", ""]

    async def side(number: int, stream: trio.SocketStream, tls: DoorTls | None) -> None:
        try:
            secured = stream if tls is None else await tls.secure(stream, first=not number)
            async with open_link(secured, KEY, first=not number) as link, trio.open_nursery() as nursery:
                nursery.start_soon(link.keep_sending)
                link.send(Kind.DONE, 1, bytes(300_000))
                assert await link.receive() == (Kind.DONE, 1, bytes(300_000))
                said[number] = "met"
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        except StrangerError as error:
            said[number] = str(error)
        except trio.BrokenResourceError:
            said[number] = "broken"

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        stream = await trio.testing.open_stream_to_socket_listener(listener)
        nursery.start_soon(side, 0, stream, first)
        nursery.start_soon(side, 1, await listener.accept(), second)
    return said[0], said[1]


async def test_nodes_of_one_authority_meet(folder: Folder) -> None:
    authority = trustme.CA()
    one, two = (DoorTls(*folder.write(authority, name)) for name in ("one", "two"))
    assert await meet(one, two) == ("met", "met")


async def test_a_node_of_another_authority_is_a_stranger(folder: Folder) -> None:
    one, two = (DoorTls(*folder.write(trustme.CA(), name)) for name in ("one", "two"))
    said, _ = await meet(one, two)
    assert "TLS was not agreed on (" in said
    assert "unable to get local issuer certificate" in said or "self" in said
    assert "a certificate of the same authority" in said


async def test_all_nodes_encrypt_or_none(folder: Folder) -> None:
    tls = DoorTls(*folder.write(trustme.CA(), "one"))
    said, heard = await meet(tls, None)
    assert "TLS was not agreed on (WRONG_VERSION_NUMBER)" in said
    assert "one of both encrypts its door" in heard
    said, heard = await meet(None, tls)
    assert "TLS was not agreed on" in heard
    assert said == "broken" or "one of both encrypts its door" in said


async def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = trustme.CA(), trustme.CA()
    one, two = (DoorTls(*folder.write(old, name)) for name in ("one", "two"))
    folder.write(new, "one")
    said, _ = await meet(one, two)
    assert "TLS was not agreed on" in said
    folder.write(new, "two")
    assert await meet(one, two) == ("met", "met")
    (folder.path / "two-key.pem").write_text("half of a ke")
    assert await meet(one, two) == ("met", "met")
    assert "those before stay in use" in caplog.text


def missing(files: Files, folder: Folder) -> Files:
    return "/nowhere/certificate.pem", files[1], files[2]


def no_certificate(files: Files, folder: Folder) -> Files:
    Path(files[0]).write_text("a letter")
    return files


def no_authority(files: Files, folder: Folder) -> Files:
    Path(files[2]).write_text("a letter")
    return files


def another_key(files: Files, folder: Folder) -> Files:
    return files[0], folder.write(trustme.CA(), "other")[1], files[2]


def another_authority(files: Files, folder: Folder) -> Files:
    return files[0], files[1], folder.write(trustme.CA(), "other")[2]


def over(files: Files, folder: Folder) -> Files:
    now = datetime.now(UTC)
    return folder.write(
        trustme.CA(), "over", not_before=now - timedelta(days=9), not_after=now - timedelta(days=1)
    )


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (missing, ["/nowhere/certificate.pem", "No such file"]),
        (no_certificate, ["one-certificate.pem", "can't be used for the door"]),
        (no_authority, ["the authority's certificate", "one-ca.pem", "can't be used"]),
        (another_key, ["other-key.pem", "can't be used for the door"]),
        (another_authority, ["the other nodes would refuse", "one-certificate.pem", "other-ca.pem"]),
        (over, ["the other nodes would refuse", "certificate has expired"]),
    ],
)
def test_files_that_can_not_be_used_are_named(
    folder: Folder, spoil: Callable[[Files, Folder], Files], words: list[str]
) -> None:
    files = spoil(folder.write(trustme.CA(), "one"), folder)
    with pytest.raises(ConfigError) as caught:
        DoorTls(*files)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def test_all_three_files_are_given_or_none() -> None:
    assert read_door_tls(Settings()) is None
    with pytest.raises(ConfigError, match="set TRIOBOT_DOOR_KEY, TRIOBOT_DOOR_CA too"):
        read_door_tls(Settings(door_certificate="one.pem"))
    with pytest.raises(ConfigError, match="set SHOP_DOOR_CERTIFICATE too"):
        read_door_tls(Settings(door_key="key.pem", door_ca="ca.pem", env="SHOP_"))


def test_a_stranger_s_first_words_are_no_tls() -> None:
    # Else neither side would notice that only one encrypts.
    assert VERSION[:1] not in (b"\x16", b"\x15")
