"""Files on their way in: one test a rule, since their addresses may come from anybody."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import trio
from loopback_http import Peer, Server, serving
from trio.testing import MockClock

from triobot.client import PlatformClient
from triobot.client.media import harmless_suffix
from triobot.errors import LocalProtocolError, NotDeliveredError, RefusedError, RemoteProtocolError
from triobot.wire.content import Descriptor, File, Image

TOKEN = "0123456789abcdef" * 4
CAT = b"\x89PNG a cat"


def received(url: str, filename: str = "cat.png") -> Image:
    return Image(Descriptor.from_object({"path": url, "filename": filename}))


async def cat(peer: Peer) -> None:
    while await peer.read_request() is not None:
        await peer.answer(CAT)


def fake(
    answer: Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]],
) -> PlatformClient:
    return PlatformClient(
        "https://api.example.com",
        TOKEN,
        transport=httpx.MockTransport(lambda _: httpx.Response(500)),
        media_transport=httpx.MockTransport(answer),
    )


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


class Names(trio.abc.HostnameResolver):
    """A name server of our own."""

    def __init__(self, **hosts: list[str]) -> None:
        self.hosts = {name.replace("_", "."): addresses for name, addresses in hosts.items()}
        self.asked: list[str] = []

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        if name not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [
            (socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port))
            for a in self.hosts[name]
        ]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise NotImplementedError


async def test_a_file_lands_whole_private_and_without_the_token(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    place = tmp_path / "mine.png"

    async with serving(cat) as server, PlatformClient(server.url, TOKEN) as platform:
        where = await platform.download(
            received(server.url + "/1.jpg"), place, on_progress=lambda *at: seen.append(at)
        )

    assert where == place
    assert place.read_bytes() == CAT
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["mine.png"]
    assert seen == [(len(CAT), len(CAT))]
    (request,) = server.received
    assert request.head.startswith("GET /1.jpg HTTP/1.1")
    assert request.header("token") is None
    assert TOKEN not in request.head


async def test_what_was_at_the_place_is_replaced_and_a_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(precious)

    async with serving(cat) as server, PlatformClient(server.url, TOKEN) as platform:
        await platform.download(received(server.url), link)

    assert precious.read_text() == "old"
    assert not link.is_symlink()
    assert link.read_bytes() == CAT


@pytest.mark.parametrize(
    ("filename", "suffix"),
    [
        ("../../.ssh/authorized_keys", ""),
        ("/etc/passwd", ""),
        ("cat.PNG", ".png"),
        ("cat.png/../../x", ""),
        ("virus.exe", ""),
        ("page.html", ""),
        ("a.png\x00.sh", ""),
        ("", ""),
    ],
)
async def test_in_a_directory_the_name_is_ours(tmp_path: Path, filename: str, suffix: str) -> None:
    async with serving(cat) as server, PlatformClient(server.url, TOKEN) as platform:
        where = await platform.download(received(server.url, filename), tmp_path)
        again = await platform.download(received(server.url, filename), tmp_path)

    assert where.parent == tmp_path
    assert where != again
    assert where.suffix == suffix == harmless_suffix(filename)
    assert len(where.stem) == 32


async def test_a_screenshot_is_fetched_by_its_address(tmp_path: Path) -> None:
    async with serving(cat) as server, PlatformClient(server.url, TOKEN) as platform:
        where = await platform.download(f"{server.url}/64.jpg?x=../../y.sh", tmp_path)

    assert where.suffix == ".jpg"
    assert server.received[0].path == "/64.jpg?x=../../y.sh"


async def test_media_that_was_never_uploaded_has_no_address(tmp_path: Path) -> None:
    async with fake(lambda _: httpx.Response(200)) as platform:
        with pytest.raises(LocalProtocolError):
            await platform.download(File.from_bytes(b"x", "x"), tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "http://cdn.example.com/1",
        "https://evil.test/1",
        "https://169.254.169.254/1",
        "https://localhost/1",
        "file:///etc/passwd",
        "https://cdn.example.com@evil.test/1",
        "nonsense",
    ],
)
async def test_an_address_that_breaks_the_rules_is_not_followed(tmp_path: Path, url: str) -> None:
    asked = []
    async with fake(lambda request: asked.append(request) or httpx.Response(200)) as platform:
        with pytest.raises(RemoteProtocolError) as caught:
            await platform.download(received(url), tmp_path)

    assert asked == []
    assert "evil" not in str(caught.value)


# --- addresses behind names


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
)
async def test_a_name_that_leads_inside_is_not_followed(tmp_path: Path, addresses: list[str]) -> None:
    async with serving(cat) as server, PlatformClient("https://api.example.com", TOKEN) as platform:
        trio.socket.set_custom_hostname_resolver(Names(cdn_example_com=addresses))
        with pytest.raises(RemoteProtocolError, match="public"):
            await platform.download(received(f"https://cdn.example.com:{server.port}/1"), tmp_path)

    assert server.peers == []


async def test_the_checked_address_is_the_one_connected_to(tmp_path: Path) -> None:
    # The name leads to this machine at first, and nowhere if anybody asks again.
    class Once(Names):
        async def getaddrinfo(self, host, *args, **kwargs):  # type: ignore[no-untyped-def]
            found = await super().getaddrinfo(host, *args, **kwargs)
            self.hosts.clear()
            return found

    names = Once(files_test=["127.0.0.1"])
    async with (
        serving(cat) as server,
        PlatformClient(server.url, TOKEN, media_hosts=["files.test"]) as platform,
    ):
        trio.socket.set_custom_hostname_resolver(names)
        where = await platform.download(received(f"http://files.test:{server.port}/1"), tmp_path)

    assert where.read_bytes() == CAT
    assert names.asked == ["files.test"]
    assert server.received[0].header("host") == f"files.test:{server.port}"


async def test_the_certificate_is_checked_for_the_name_and_not_the_address() -> None:
    async with PlatformClient("https://api.example.com", TOKEN) as platform:
        url = httpx.URL("https://cdn.example.com/1")
        for address in ("93.184.216.34", "2606:2800::1"):
            request = platform._carried().media._pinned(url, address)
            assert request.url.host == address
            assert request.headers["host"] == "cdn.example.com"
            assert request.extensions["sni_hostname"] == "cdn.example.com"


async def test_an_address_that_refuses_leaves_the_next_one(tmp_path: Path) -> None:
    async with (
        serving(cat) as server,
        PlatformClient(server.url, TOKEN, media_hosts=["files.test"]) as platform,
    ):
        # Only the last of these has a listener on this port.
        trio.socket.set_custom_hostname_resolver(Names(files_test=["127.0.0.2", "127.0.0.3", "127.0.0.1"]))
        where = await platform.download(received(f"http://files.test:{server.port}/1"), tmp_path)

    assert where.read_bytes() == CAT


async def test_a_name_that_nobody_knows_is_worth_another_try(tmp_path: Path) -> None:
    async with PlatformClient("https://api.example.com", TOKEN) as platform:
        trio.socket.set_custom_hostname_resolver(Names())
        with pytest.raises(NotDeliveredError):
            await platform.download(received("https://cdn.example.com/1"), tmp_path)


# --- answers


@pytest.mark.parametrize("status", [204, 206, 301, 302, 307, 308, 401, 403, 404, 500])
async def test_only_a_200_is_a_file(tmp_path: Path, status: int) -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, headers={"Location": "https://cdn.example.com/2"}, content=CAT)

    async with fake(answer) as platform:
        with pytest.raises(RefusedError) as caught:
            await platform.download(received("https://cdn.example.com/1"), tmp_path)

    assert caught.value.status == status
    assert len(asked) == 1
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("announced", [True, False])
async def test_a_file_over_the_limit_leaves_nothing_behind(tmp_path: Path, announced: bool) -> None:
    async def answer(peer: Peer) -> None:
        await peer.read_request()
        length = b"Content-Length: 101" if announced else b"Connection: close"
        await peer.stream.send_all(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + bytes(101))

    place = tmp_path / "x"
    async with serving(answer) as server, PlatformClient(server.url, TOKEN) as platform:
        with pytest.raises(RemoteProtocolError, match="at most 100 bytes"):
            await platform.download(received(server.url), place, limit=100)
        assert names_in(tmp_path) == []
        await platform.download(received(server.url), place, limit=101)

    assert place.read_bytes() == bytes(101)


async def test_a_compressed_file_says_nothing_of_its_size(tmp_path: Path) -> None:
    async with fake(lambda _: httpx.Response(200, headers={"Content-Encoding": "br"})) as platform:
        with pytest.raises(RemoteProtocolError, match="compressed"):
            await platform.download(received("https://cdn.example.com/1"), tmp_path)


async def test_half_a_file_is_none(tmp_path: Path) -> None:
    async def half(peer: Peer) -> None:
        await peer.read_request()
        await peer.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + bytes(50))

    (tmp_path / "x").write_text("old")
    async with serving(half) as server, PlatformClient(server.url, TOKEN) as platform:
        with pytest.raises(NotDeliveredError):
            await platform.download(received(server.url), tmp_path / "x")

    assert names_in(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "old"


class Slow(httpx.AsyncByteStream):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        for _ in range(10):
            yield b"x"
            await trio.sleep(self.seconds)


async def test_patience_renews_itself_with_every_piece(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with fake(lambda _: httpx.Response(200, stream=Slow(29))) as platform:
        where = await platform.download(received("https://cdn.example.com/1"), tmp_path)

    assert where.read_bytes() == b"x" * 10


async def test_a_download_that_stands_still_is_given_up(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with fake(lambda _: httpx.Response(200, stream=Slow(31))) as platform:
        with pytest.raises(NotDeliveredError, match="30 seconds"):
            await platform.download(received("https://cdn.example.com/1"), tmp_path)

    assert names_in(tmp_path) == []


class Drip(httpx.AsyncByteStream):
    def __init__(self, size: int) -> None:
        self.size = size
        self.sent = 0

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        while self.sent < 76 * 1024 * 1024:
            await trio.sleep(20)
            self.sent += self.size
            yield b"x" * self.size


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_download_that_drips_ends_after_an_hour(
    size: int, tmp_path: Path, autojump_clock: MockClock
) -> None:
    drip = Drip(size)
    began = trio.current_time()
    async with fake(lambda _: httpx.Response(200, stream=drip)) as platform:
        with pytest.raises(NotDeliveredError, match=f"{179 * size} bytes in 3600 seconds, which is too slow"):
            await platform.download(received("https://cdn.example.com/1"), tmp_path)

    assert trio.current_time() - began == 3600
    assert names_in(tmp_path) == []


async def test_a_large_file_on_a_slow_line_may_take_longer(tmp_path: Path, autojump_clock: MockClock) -> None:
    began = trio.current_time()
    async with fake(lambda _: httpx.Response(200, stream=Drip(400 * 1024))) as platform:
        where = await platform.download(received("https://cdn.example.com/1"), tmp_path)

    assert trio.current_time() - began > 3600
    assert where.stat().st_size >= 76 * 1024 * 1024


async def test_a_cancelled_download_leaves_nothing_behind(tmp_path: Path) -> None:
    async def endless(peer: Peer) -> None:
        await peer.read_request()
        await peer.stream.send_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            await peer.stream.send_all(bytes(65536))

    async with serving(endless) as server, PlatformClient(server.url, TOKEN) as platform:
        for _ in range(5):
            with trio.CancelScope() as scope:
                await platform.download(received(server.url), tmp_path, on_progress=lambda *_: scope.cancel())
            assert scope.cancelled_caught

    assert names_in(tmp_path) == []


async def test_the_disks_own_errors_stay_the_disks(tmp_path: Path) -> None:
    async with serving(cat) as server, PlatformClient(server.url, TOKEN) as platform:
        with pytest.raises(FileNotFoundError):
            await platform.download(received(server.url), tmp_path / "missing" / "x")
        if Path("/dev/full").exists():
            await fill_the_disk(platform, server, tmp_path)


async def fill_the_disk(platform: PlatformClient, server: Server, tmp_path: Path) -> None:
    def on_progress(done: int, total: int | None) -> None:
        # The only file there is the one being written: send its bytes to where there is no room.
        (entry,) = tmp_path.iterdir()
        for link in Path("/proc/self/fd").iterdir():
            if link.is_symlink() and link.readlink() == entry:
                full = os.open("/dev/full", os.O_WRONLY)
                os.dup2(full, int(link.name))
                os.close(full)

    with pytest.raises(OSError, match="No space left"):
        await platform.download(received(server.url), tmp_path, on_progress=on_progress)
    assert names_in(tmp_path) == []


async def test_downloads_are_over_before_the_client_is(tmp_path: Path) -> None:
    async with fake(lambda _: httpx.Response(200)) as platform:
        pass
    with pytest.raises(trio.ClosedResourceError):
        await platform.download(received("https://cdn.example.com/1"), tmp_path)
