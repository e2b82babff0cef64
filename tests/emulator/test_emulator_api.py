"""The emulated platform over HTTP: bodies, errors, uploads, and files that can do no harm."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from emulated import TOKEN, emulated

from triobot.emulator import blobs
from triobot.emulator.faults import Switches
from triobot.wire.rules import JsonValue


async def test_a_message_is_sent_shown_and_edited(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await platform.app.user("Ali")
        await ali.joins()
        keyboard = json.dumps([[{"text": "Yes", "cb_data": "y"}]])
        answer = await platform.perform(
            "sendMessage", chat_id=ali.chat_id, type="text", data="Sure?", inline_keyboard=keyboard
        )
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        message_id = answer.json()["id"]
        assert (await ali.sees("Sure?")).buttons == (("Yes",),)

        edit = await platform.perform(
            "editMessage/", chat_id=ali.chat_id, message_id=message_id, data="Done."
        )
        assert (edit.status_code, edit.json()) == (200, {})
        assert (await ali.sees("Done.")).id == message_id


@pytest.mark.parametrize(
    ("path", "fields", "status", "error"),
    [
        ("sendMessage", {"chat_id": "x", "type": "text", "data": "a"}, 400, "chat_id is not valid"),
        ("sendMessage", {"chat_id": "99", "type": "text", "data": "a"}, 403, "chat_id is not valid"),
        ("sendMessage", {"chat_id": "13601", "type": "text", "data": ""}, 400, "data is not valid"),
        ("sendMessage", {"chat_id": "13601", "type": "text"}, 400, "data is not valid"),
        ("sendMessage", {"chat_id": "13601", "type": "image", "data": "{}"}, 400, "data is not valid"),
        (
            "sendMessage",
            {"chat_id": "13601", "type": "text", "data": "a", "inline_keyboard": "[[{}]]"},
            400,
            "inline_keyboard is not valid",
        ),
        (
            "sendMessage",
            {"chat_id": "13601", "type": "text", "data": "a", "reply_keyboard": "{"},
            400,
            "reply_keyboard is not valid",
        ),
        ("invoice", {"chat_id": "13601", "amount": "-1", "description": "a"}, 400, "amount is not valid"),
        ("payment/verify", {"chat_id": "13601", "ref_id": "7"}, 400, "ref_id is not valid"),
        ("sendMassage", {"chat_id": "13601"}, 404, "not found"),
    ],
)
async def test_what_is_wrong_is_named(
    tmp_path: Path, path: str, fields: dict[str, str], status: int, error: str
) -> None:
    async with emulated(tmp_path) as platform:
        ali = await platform.app.user("Ali")
        await ali.joins()

        answer = await platform.perform(path, **fields)

        assert (answer.status_code, answer.json()["error"]) == (status, error)
        assert answer.json()["trace_id"]


async def test_the_token_is_checked_first(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        for headers in ({"token": "b" * 64}, {"token": ""}, {"token": "ä".encode()}):
            answer = await platform.platform.post("/nonsense", headers=headers)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["error"]) == (403, "token is not valid")


async def test_json_bodies_are_taken_by_switch(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await platform.app.user("Ali")
        await ali.joins()
        body: dict[str, JsonValue] = {"chat_id": ali.chat_id, "type": "text", "data": "a", "form": None}

        assert (await platform.platform.post("/sendMessage", json=body)).status_code == 200
        platform.exchange.world.switches = Switches(json_operations=False)
        refused = await platform.platform.post("/sendMessage", json=body)
        assert (refused.status_code, refused.json()["error"]) == (400, "body is not valid")


async def test_bodies_that_are_no_form_or_too_long_are_refused(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        form = {"content-type": "application/x-www-form-urlencoded"}
        for content, headers in (
            (b"\xff", form),
            (b"[" * 100_000, {"content-type": "application/json"}),
            (b"[]", {"content-type": "application/json"}),
            (b"a", {"content-type": "text/plain"}),
            (b"a=" + b"a" * 2**20, form),
        ):
            answer = await platform.platform.post("/sendMessage", content=content, headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (400, "body is not valid")


async def test_media_is_edited_with_a_descriptor(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await platform.app.user("Ali")
        await ali.joins()
        uploaded = await platform.platform.post("/upload", files={"file": ("a.txt", b"abc")})
        sent = await platform.perform("sendMessage", chat_id=ali.chat_id, type="file", data=uploaded.text)
        assert sent.status_code == 200
        edited = json.dumps({**uploaded.json(), "desc": "new words"})
        fields = {"chat_id": ali.chat_id, "message_id": sent.json()["id"]}

        assert (await platform.perform("editMessage", **fields, data=edited)).status_code == 200
        assert (await ali.history())[-1].text == "new words"
        assert (await platform.perform("editMessage", **fields, data="no json")).status_code == 400


def png(width: int, height: int) -> bytes:
    pillow = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    pillow.new("RGB", (width, height), "red").save(buffer, "PNG")
    return buffer.getvalue()


async def test_an_image_gets_four_real_thumbnails(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    async with emulated(tmp_path) as platform:
        data = png(800, 400)

        answer = await platform.platform.post("/upload", files={"image": ("a b.png", data, "image/png")})

        descriptor = answer.json()
        assert (descriptor["type"], descriptor["width"], descriptor["height"]) == ("image", 800, 400)
        assert (descriptor["filesize"], descriptor["filename"]) == (len(data), "a b.png")
        original = await platform.platform.get(descriptor["path"])
        assert (original.content, original.headers["content-type"]) == (data, "image/png")
        for edge in (64, 128, 256, 512):
            small = await platform.platform.get(descriptor["screenshots"][str(edge)])
            with pillow.open(io.BytesIO(small.content)) as image:
                assert image.size == (edge, edge // 2)


async def test_a_broken_image_is_taken_without_thumbnails(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        answer = await platform.platform.post("/upload", files={"image": ("a.png", png(9, 9)[:40])})

        descriptor = answer.json()
        assert (descriptor["width"], descriptor["screenshots"]["64"]) == (0, descriptor["path"])


async def test_a_camera_that_lay_on_its_side_is_set_upright(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    exif = pillow.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    pillow.new("RGB", (60, 30)).save(buffer, "JPEG", exif=exif)
    (tmp_path / "x").write_bytes(buffer.getvalue())

    measured = blobs.measure(tmp_path / "x", tmp_path)

    assert measured is not None and measured.size == (30, 60)


async def test_without_pillow_the_original_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = png(70, 70)
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    async with emulated(tmp_path) as platform:
        descriptor = (await platform.platform.post("/upload", files={"image": ("a.png", data)})).json()

        assert set(descriptor["screenshots"].values()) == {descriptor["path"]}


async def test_uploaded_pages_are_served_inert(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        for name, data in (
            ("a.html", b"<script>alert(1)</script>"),
            ("a.svg", b"<svg onload='alert(1)'/>"),
            ("a.png", b"<script>alert(1)</script>"),
        ):
            kind = "image" if name.endswith("png") else "file"
            path = (await platform.platform.post("/upload", files={kind: (name, data)})).json()["path"]
            answer = await platform.platform.get(path)
            assert answer.content == data
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["content-disposition"] == "attachment"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-security-policy"].startswith("sandbox")
        assert (await platform.platform.get("/files/../../etc/passwd")).status_code in (404, 405)
        assert (await platform.platform.get("/files/nothing/x")).status_code == 404


@pytest.mark.parametrize("kind", ["image", "video", "audio", "voice", "file"])
async def test_descriptors_have_their_kinds_keys(tmp_path: Path, kind: str) -> None:
    keys = {
        "image": {"screenshots", "width", "height"},
        "video": {"screenshots", "width", "height", "duration"},
        "audio": {"tags", "duration"},
        "voice": {"duration"},
        "file": set[str](),
    }
    async with emulated(tmp_path) as platform:
        answer = await platform.platform.post("/upload", files={kind: ("a.bin", b"12")}, data={"desc": "x"})

        assert answer.json().keys() == {"type", "path", "filesize", "filename"} | keys[kind]


async def test_uploads_that_are_too_large_or_no_file_are_refused_and_not_kept(tmp_path: Path) -> None:
    async with emulated(tmp_path, largest_upload=10) as platform:
        large = await platform.platform.post("/upload", files={"file": ("a", b"x" * 11)})
        assert (large.status_code, large.json()["error"]) == (500, "the file is too large")
        huge = await platform.platform.post(
            "/upload",
            content=b"x",
            headers={"content-type": "multipart/form-data; boundary=b", "content-length": "99999999"},
        )
        assert (huge.status_code, huge.json()["error"]) == (500, "the file is too large")
        assert list(tmp_path.iterdir()) == []
        assert (await platform.platform.post("/upload", files={"film": ("a", b"x")})).status_code == 400
        two = [("file", ("a", b"x")), ("image", ("b", b"x"))]
        assert (await platform.platform.post("/upload", files=two)).status_code == 400


@pytest.mark.parametrize("keyboard", ["reply_keyboard", "inline_keyboard"])
@pytest.mark.parametrize("strict", [False, True])
async def test_a_file_is_no_keyboard_of_an_upload(tmp_path: Path, strict: bool, keyboard: str) -> None:
    async with emulated(tmp_path, Switches(strict=strict)) as platform:
        files = {"file": ("a.txt", b"abc"), keyboard: ("k.json", b"[]")}
        answer = await platform.platform.post("/upload", files=files)

        assert (answer.status_code, answer.json()["error"]) == (400, f"{keyboard} is not valid")
        assert list(tmp_path.iterdir()) == []


async def test_the_place_to_top_up_exists_and_changes_nothing(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await platform.app.user("Ali")
        answer = await platform.platform.get(f"/charge/{ali.id}")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
        assert await ali.wallet() == {"IRR": 0, "coin": 0}


async def test_requests_are_remembered_without_the_token(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        await platform.perform("sendMessage", chat_id=99, type="text", data="a")

        text = (await platform.control.get("calls")).text

        assert json.loads(text)["calls"][-1]["body"] == "chat_id=99&type=text&data=a"
        assert TOKEN not in text
