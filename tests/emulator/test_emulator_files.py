"""Uploads as they are served: inert, with a type that lets pictures show and sounds play, in ranges."""

from __future__ import annotations

import io
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from emulated import Emulated, emulated

from triobot.emulator.blobs import PLAYED, type_of
from triobot.wire.content import MediaKind


async def uploaded(platform: Emulated, data: bytes, kind: MediaKind = "file") -> str:
    descriptor = await platform.exchange.upload(kind, "name.html", io.BytesIO(data), 2.5)
    return urlsplit(str(descriptor.fields["path"])).path


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x1aE\xdf\xa3....", "video/webm"),
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b"OggS....", "audio/ogg"),
        (b"RIFF....WAVEfmt ", "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"<html><script>", None),
        (b"", None),
    ],
)
def test_what_plays_is_known_by_its_first_bytes(head: bytes, kind: str | None) -> None:
    assert type_of(head, PLAYED) == kind


@pytest.mark.parametrize("data", [b"<script>alert(1)</script>", b"<svg onload='alert(1)'/>", b"OggS<script>"])
async def test_nothing_runs_as_ours(tmp_path: Path, data: bytes) -> None:
    async with emulated(tmp_path) as platform:
        answer = await platform.platform.get(await uploaded(platform, data))

        assert answer.content == data
        assert answer.headers["content-type"] in ("application/octet-stream", "audio/ogg")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == "attachment"
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=7-", 206, b"789"),
        ("bytes=0-99", 206, b"0123456789"),
        ("bytes=10-", 200, b"0123456789"),
        ("bytes=5-2", 200, b"0123456789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=0-1,3-4", 200, b"0123456789"),
        ("bytes=٠-٣", 200, b"0123456789"),
    ],
)
async def test_a_player_may_ask_for_a_part(tmp_path: Path, asked: str, status: int, expected: bytes) -> None:
    """And gets the whole when it asks for anything else."""
    async with emulated(tmp_path) as platform:
        path = await uploaded(platform, b"0123456789")
        answer = await platform.platform.get(path, headers={"range": asked.encode()})  # type: ignore[dict-item]

        assert (answer.status_code, answer.content) == (status, expected)
        assert answer.headers["content-length"] == str(len(expected))


async def test_how_long_it_plays_is_told_by_whoever_sends_it(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        voice = await platform.exchange.upload("voice", "v.ogg", io.BytesIO(b"OggS"), 2.5)

        assert voice.fields["duration"] == 2.5


@pytest.mark.parametrize(
    "name", ["two\r\nlines", "../../up", "a/b", '"><img src=x>', "\0", "x" * 300, "\u202egpj.exe"]
)
async def test_any_name_can_be_fetched(tmp_path: Path, name: str) -> None:
    """What a person calls a file is for people to read; its address leads to it all the same."""
    async with emulated(tmp_path) as platform:
        descriptor = await platform.exchange.upload("file", name, io.BytesIO(b"bytes"))
        assert descriptor.fields["filename"] == name
        answer = await platform.platform.get(urlsplit(str(descriptor.fields["path"])).path)

        assert (answer.status_code, answer.content) == (200, b"bytes")
