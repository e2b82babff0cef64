"""Files on their way out: whole, bounded in memory, and cleanly given up when they change."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path

import httpx
import pytest
import trio
from loopback_http import Peer, Received, serving
from trio.testing import MockClock

from tests.loopback import PATIENCE
from triobot.client import PlatformClient, Uploaded
from triobot.client.upload import PIECE
from triobot.errors import DeliveryUnknownError, LocalProtocolError, NotDeliveredError, RefusedError
from triobot.wire.content import Blob, Descriptor, File, Image, LocalFile, MediaKind
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, ReplyKeyboard
from triobot.wire.operations import SendMessage, Upload

TOKEN = "0123456789abcdef" * 4
DESCRIPTOR = b'{"type":"image","path":"https://cdn.test/1.jpg","desc":"x","SID":"s1"}'


def parts(request: Received) -> list[tuple[str | None, str | None, str, bytes]]:
    whole = f"Content-Type: {request.header('content-type')}\r\n\r\n".encode() + request.body
    message = BytesParser(policy=HTTP.clone(utf8=True)).parsebytes(whole)
    return [
        (
            part.get_param("name", header="content-disposition"),
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    ]


async def keep(peer: Peer) -> None:
    while await peer.read_request() is not None:
        await peer.answer(DESCRIPTOR)


@pytest.mark.parametrize("kind", ["image", "video", "audio", "voice", "file"])
@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
async def test_a_file_arrives_as_it_is(tmp_path: Path, kind: MediaKind, size: int) -> None:
    data = os.urandom(size)
    place = tmp_path / "on-disk.bin"
    place.write_bytes(data)

    async with serving(keep) as server, PlatformClient(server.url, TOKEN) as platform:
        for source in (LocalFile(place, "cat.png"), Blob(data, "cat.png")):
            descriptor: Descriptor = await platform.perform(Upload(kind, source))
            assert descriptor == Descriptor.from_object(
                {"type": "image", "path": "https://cdn.test/1.jpg", "SID": "s1"}
            )

    for request in server.received:
        assert request.path == "/upload"
        assert request.header("token") == TOKEN
        assert request.header("transfer-encoding") is None
        assert parts(request) == [(kind, "cat.png", "image/png", data)]
    assert len(server.peers) == 1


async def test_keyboards_go_with_the_file() -> None:
    reply = ReplyKeyboard(((Key("y", "بله"),),))
    inline = InlineKeyboard(((CallbackButton("Yes", "y"),),))
    async with serving(keep) as server, PlatformClient(server.url, TOKEN) as platform:
        await platform.upload(Upload.of(Image(Blob(b"x", "x.png")), reply, inline))
    assert [(name, data.decode()) for name, _, _, data in parts(server.received[0])] == [
        ("reply_keyboard", '{"keyboard":[[{"y":"بله"}]]}'),
        ("inline_keyboard", '[[{"text":"Yes","cb_data":"y"}]]'),
        ("image", "x"),
    ]


async def test_an_upload_tells_what_was_sent_and_how_far_it_is(tmp_path: Path) -> None:
    data = os.urandom(2 * PIECE + 5)
    place = tmp_path / "cat.png"
    place.write_bytes(data)
    seen: list[tuple[int, int]] = []

    async with serving(keep) as server, PlatformClient(server.url, TOKEN) as platform:
        uploaded = await platform.upload(
            Upload.of(Image.open(place)), lambda done, size: seen.append((done, size))
        )

    assert isinstance(uploaded, Uploaded)
    assert uploaded.digest == hashlib.sha256(data).hexdigest()
    assert uploaded.size == len(data)
    assert uploaded.descriptor.fields["SID"] == "s1"
    assert seen == [(n, len(data)) for n in (0, PIECE, 2 * PIECE, len(data))]


@pytest.mark.parametrize("name", ['a"b.png', "a\r\nX-Evil: 1.png", "گربهٔ من.png", "../../x.png", "a;b=c.png"])
async def test_any_filename_stays_inside_its_header(name: str) -> None:
    async with serving(keep) as server, PlatformClient(server.url, TOKEN) as platform:
        await platform.perform(Upload("image", Blob(b"x", name)))

    ((field, _, kind, data),) = parts(server.received[0])
    assert (field, kind, data) == ("image", "image/png", b"x")
    escaped = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    assert f'filename="{escaped}"'.encode() in server.received[0].body


async def test_memory_stays_small_whatever_the_files_size(tmp_path: Path) -> None:
    place = tmp_path / "film.mp4"
    with place.open("wb") as file:
        file.truncate(20 * 1024 * 1024)
    received = 0

    async def swallow(peer: Peer) -> None:
        nonlocal received
        assert await peer.read_head() is not None
        received = len(peer.buffer)
        while not peer.buffer.endswith(b"--\r\n"):
            peer.buffer[:] = peer.buffer[-8:]
            piece = await peer.stream.receive_some(65536)
            received += len(piece)
            peer.buffer += piece
        await peer.answer(DESCRIPTOR)

    async with serving(swallow) as server, PlatformClient(server.url, TOKEN) as platform:
        await platform.perform(Upload("video", LocalFile(place, "film.mp4")))
        received = 0
        tracemalloc.start()
        try:
            uploaded = await platform.upload(Upload("video", LocalFile(place, "film.mp4")))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert received > uploaded.size == 20 * 1024 * 1024
    assert most < 2 * 1024 * 1024


def shrink(place: Path) -> None:
    os.truncate(place, PIECE + 1)


def grow(place: Path) -> None:
    with place.open("ab") as file:
        file.write(b"more")


def overwrite(place: Path) -> None:
    with place.open("r+b") as file:
        file.write(b"other")
    os.utime(place, ns=(1, 1))


@pytest.mark.parametrize("change", [shrink, grow, overwrite], ids=lambda change: change.__name__)
async def test_a_file_that_changes_while_it_is_sent_is_given_up(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    place = tmp_path / "log.txt"
    place.write_bytes(bytes(4 * PIECE))

    def on_progress(done: int, size: int) -> None:
        if done == PIECE:
            change(place)

    async with serving(keep) as server, PlatformClient(server.url, TOKEN, connections=1) as platform:
        with pytest.raises(LocalProtocolError, match="changed while it was being sent"):
            await platform.upload(Upload("file", LocalFile(place, "log.txt")), on_progress)
        assert server.received == [], "the platform never saw a whole request"
        await platform.perform(Upload("file", LocalFile(place, "log.txt")))


async def test_a_transport_that_wraps_errors_does_not_hide_the_reason(tmp_path: Path) -> None:
    place = tmp_path / "log.txt"
    place.write_bytes(bytes(4 * PIECE))

    class Wrapping(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            try:
                await request.aread()
            except LocalProtocolError as error:
                raise ExceptionGroup("several", [error]) from None
            return httpx.Response(200, content=DESCRIPTOR)

    def on_progress(done: int, size: int) -> None:
        if done == PIECE:
            shrink(place)

    async with PlatformClient("https://api.test", TOKEN, transport=Wrapping()) as platform:
        with pytest.raises(LocalProtocolError, match="changed"):
            await platform.upload(Upload("file", LocalFile(place, "log.txt")), on_progress)


@contextmanager
def not_as_root() -> Generator[None]:
    """Root can read everything."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


@pytest.mark.parametrize("what", ["missing", "directory", "pipe", "unreadable"])
async def test_what_is_no_readable_file_is_the_programs_fault(tmp_path: Path, what: str) -> None:
    place = tmp_path / "swordfish"
    if what == "directory":
        place.mkdir()
    elif what == "pipe":
        os.mkfifo(place)
    elif what == "unreadable":
        place.touch(mode=0)

    async with serving(keep) as server, PlatformClient(server.url, TOKEN) as platform:
        with (
            not_as_root() if what == "unreadable" else nullcontext(),
            pytest.raises(LocalProtocolError) as caught,
            trio.fail_after(PATIENCE),
        ):
            await platform.perform(Upload("file", LocalFile(place, "x")))

    assert "swordfish" not in str(caught.value)
    assert server.peers == []


async def test_an_answer_before_the_end_of_the_file_is_heard() -> None:
    async def too_big(peer: Peer) -> None:
        await peer.read_head()
        await peer.answer(b'{"error": "too big"}', "500 Oops", "Connection: close")
        while await peer.stream.receive_some(65536):
            pass

    async with serving(too_big) as server, PlatformClient(server.url, TOKEN) as platform:
        with pytest.raises(RefusedError) as caught:
            await platform.perform(Upload("file", Blob(bytes(4 * PIECE), "x")))

    assert (caught.value.status, caught.value.reason) == (500, "too big")


async def test_a_yes_to_half_a_file_is_not_believed() -> None:
    class Hasty(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await anext(aiter(request.stream))
            return httpx.Response(200, content=DESCRIPTOR)

    async with PlatformClient("https://api.test", TOKEN, transport=Hasty()) as platform:
        with pytest.raises(DeliveryUnknownError):
            await platform.perform(Upload("file", Blob(bytes(4 * PIECE), "x")))


class Slow(httpx.AsyncBaseTransport):
    """Takes its time for every piece."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async for _ in request.stream:
            await trio.sleep(self.seconds)
        return httpx.Response(200, content=DESCRIPTOR)


async def test_patience_renews_itself_with_every_piece(autojump_clock: MockClock) -> None:
    started = trio.current_time()
    async with PlatformClient("https://api.test", TOKEN, transport=Slow(29)) as platform:
        await platform.perform(Upload("file", Blob(bytes(10 * PIECE), "x")))

    assert trio.current_time() - started > 300


async def test_the_disks_time_costs_no_patience(tmp_path: Path, autojump_clock: MockClock) -> None:
    # The clock jumps ahead while a thread reads: to the end of patience, if that ran on.
    place = tmp_path / "film.mp4"
    place.write_bytes(bytes(50 * PIECE))

    async with PlatformClient("https://api.test", TOKEN, transport=Slow(0)) as platform:
        await platform.perform(Upload("video", LocalFile(place, "film.mp4")))


async def test_an_upload_that_stands_still_is_given_up(autojump_clock: MockClock) -> None:
    started = trio.current_time()
    async with PlatformClient("https://api.test", TOKEN, transport=Slow(31)) as platform:
        with pytest.raises(DeliveryUnknownError, match="30 seconds"):
            await platform.perform(Upload("file", Blob(bytes(10 * PIECE), "x")))

    assert trio.current_time() - started == pytest.approx(30)


def open_files() -> int:
    listing = Path("/proc/self/fd")
    return sum(1 for _ in listing.iterdir()) if listing.is_dir() else 0


@pytest.mark.parametrize("pieces", range(4))
async def test_a_cancelled_upload_closes_its_file_and_frees_its_place(tmp_path: Path, pieces: int) -> None:
    place = tmp_path / "film.mp4"
    place.write_bytes(bytes(3 * PIECE))
    open_before = open_files()

    async with serving(keep) as server, PlatformClient(server.url, TOKEN, connections=1) as platform:
        with trio.CancelScope() as scope:

            def on_progress(done: int, size: int) -> None:
                if done == pieces * PIECE:
                    scope.cancel()

            await platform.upload(Upload("video", LocalFile(place, "film.mp4")), on_progress)
        assert scope.cancelled_caught
        with trio.fail_after(PATIENCE):
            await platform.perform(Upload("video", LocalFile(place, "film.mp4")))

    assert open_files() <= open_before


async def test_an_error_in_the_progress_callback_ends_the_upload() -> None:
    def on_progress(done: int, size: int) -> None:
        raise ZeroDivisionError

    async with serving(keep) as server, PlatformClient(server.url, TOKEN, connections=1) as platform:
        with pytest.raises(ZeroDivisionError):
            await platform.upload(Upload("file", Blob(b"x", "x")), on_progress)
        await platform.perform(Upload("file", Blob(b"x", "x")))


async def test_nobody_listens_so_the_file_was_not_delivered() -> None:
    async with serving() as server:
        pass
    async with PlatformClient(server.url, TOKEN) as platform:
        with pytest.raises(NotDeliveredError):
            await platform.perform(Upload("file", Blob(b"x", "x")))


async def test_media_is_uploaded_before_it_is_sent() -> None:
    async with serving() as server, PlatformClient(server.url, TOKEN) as platform:
        with pytest.raises(LocalProtocolError):
            await platform.perform(SendMessage(7, File.from_bytes(b"x", "x")))

    assert server.peers == []
