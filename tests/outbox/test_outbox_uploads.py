"""Files: uploaded within the lane, once a file, remembered by what they are, refreshed once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from scripted_platform import Alarms, ScriptedPlatform, bad_request, broken, unreachable

from triobot.errors import BadRequestError
from triobot.outbox import OutboxRules, open_outbox
from triobot.wire.content import Descriptor, File, Image
from triobot.wire.operations import EditMessage, SendMessage, Upload


def opened(platform: ScriptedPlatform, rules: OutboxRules | None = None) -> Any:
    return open_outbox(platform, raise_alarm=Alarms(), rules=rules, random=random.Random(7).random)


def picture(data: bytes = b"picture", name: str = "a.jpg", caption: str = "") -> Image:
    return Image.from_bytes(data, name, caption)


async def test_a_file_is_uploaded_first_within_the_lane(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=1.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for content in ("before", picture(caption="look"), "after"):
            nursery.start_soon(outbox.perform, SendMessage(1, content))
            await trio.testing.wait_all_tasks_blocked()
    assert [type(operation) for operation in platform.took_effect] == [
        SendMessage,
        Upload,
        SendMessage,
        SendMessage,
    ]
    sent = platform.texts()[1]
    assert isinstance(sent.source, Descriptor) and sent.caption == "look"


async def test_a_file_that_takes_minutes_is_no_backlog(autojump_clock: Any) -> None:
    """Neither it nor what is behind it waits for anything but its size; what fails afterwards does."""
    failing = True

    async def script(operation: Any) -> None:
        if isinstance(operation, Upload):
            await trio.sleep(300)
        elif failing and operation.content == "after":
            raise broken(operation)

    async with opened(ScriptedPlatform(script)) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, SendMessage(1, picture()))
        await trio.sleep(10)
        nursery.start_soon(outbox.perform, SendMessage(1, "after"))
        ages = [0.0]
        for _ in range(3_000):
            await trio.sleep(0.1)
            ages.append(outbox.oldest)
        assert max(ages) < 11
        await trio.sleep(90)
        assert 80 < outbox.oldest < 105
        failing = False
    assert outbox.oldest == 0


async def test_a_file_that_fails_is_a_backlog(autojump_clock: Any) -> None:
    async def script(operation: Any) -> None:
        if isinstance(operation, Upload):
            await trio.sleep(20)
            raise broken(operation)

    async with opened(ScriptedPlatform(script)) as outbox, trio.open_nursery() as nursery:
        nursery.start_soon(outbox.perform, SendMessage(1, picture()))
        await trio.sleep(20)
        assert outbox.oldest == 0
        await trio.sleep(80)
        assert 99 < outbox.oldest < 101
        nursery.cancel_scope.cancel()


async def test_equal_bytes_and_an_unchanged_file_are_uploaded_once(
    autojump_clock: Any, tmp_path: Path
) -> None:
    platform = ScriptedPlatform()
    path = tmp_path / "a.jpg"
    path.write_bytes(b"picture")
    async with opened(platform) as outbox:
        await outbox.perform(SendMessage(1, picture()))
        await outbox.perform(SendMessage(2, picture(caption="another caption")))
        assert platform.count(Upload) == 1
        await outbox.perform(SendMessage(3, Image.open(path)))
        await outbox.perform(EditMessage(3, 1, Image.open(path)))
        assert platform.count(Upload) == 2

        await outbox.perform(SendMessage(1, picture(name="b.jpg")))
        await outbox.perform(SendMessage(1, picture(b"other")))
        await outbox.perform(SendMessage(1, File.from_bytes(b"picture", "a.jpg")))
        assert platform.count(Upload) == 5
        path.write_bytes(b"changed!")
        await outbox.perform(SendMessage(3, Image.open(path)))
        assert platform.count(Upload) == 6


async def test_many_chats_at_once_share_one_upload(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=5.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        for chat in range(20):
            nursery.start_soon(outbox.perform, SendMessage(chat, picture()))
    assert platform.count(Upload) == 1
    assert len(platform.texts()) == 20
    assert trio.current_time() == pytest.approx(10.0)


async def test_when_the_one_who_uploads_is_cancelled_another_goes_on(autojump_clock: Any) -> None:
    platform = ScriptedPlatform(delay=5.0)
    async with opened(platform) as outbox, trio.open_nursery() as nursery:
        with trio.move_on_after(2):
            nursery.start_soon(outbox.perform, SendMessage(2, picture()))
            await outbox.perform(SendMessage(1, picture()))
    assert platform.texts(1) == [] and len(platform.texts(2)) == 1


async def test_a_file_that_changed_meanwhile_is_uploaded_again(autojump_clock: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"picture")

    async def script(operation: Any) -> None:
        if isinstance(operation, Upload) and path.read_bytes() == b"picture":
            path.write_bytes(b"a longer picture")

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        await outbox.perform(SendMessage(1, Image.open(path)))
        await outbox.perform(SendMessage(2, Image.open(path)))
        await outbox.perform(SendMessage(3, Image.open(path)))
    assert platform.count(Upload) == 2


async def test_a_descriptor_that_the_platform_forgot_is_refreshed_once(autojump_clock: Any) -> None:
    forgotten: set[str] = set()

    async def script(operation: Any) -> None:
        if isinstance(operation, SendMessage) and operation.content.descriptor.json in forgotten:
            raise bad_request(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        await outbox.perform(SendMessage(1, picture()))
        forgotten.add(platform.texts()[0].descriptor.json)
        await outbox.perform(SendMessage(1, picture()))
        assert (platform.count(Upload), len(platform.texts())) == (2, 2)

        # A refusal of what was uploaded just now is the author's business.
        platform.script = lambda operation: _refuse_sends(operation)
        with pytest.raises(BadRequestError):
            await outbox.perform(SendMessage(1, picture(b"new")))
        assert platform.count(Upload) == 3
        with pytest.raises(BadRequestError):
            await outbox.perform(SendMessage(1, picture()))
        assert platform.count(Upload) == 4, "once"


async def _refuse_sends(operation: Any) -> None:
    if isinstance(operation, SendMessage):
        raise bad_request(operation)


async def test_a_failed_upload_is_tried_again_and_a_missing_file_is_told(
    autojump_clock: Any, tmp_path: Path
) -> None:
    failures = 3

    async def script(operation: Any) -> None:
        nonlocal failures
        if isinstance(operation, Upload) and failures:
            failures -= 1
            raise unreachable(operation)

    platform = ScriptedPlatform(script)
    async with opened(platform) as outbox:
        await outbox.perform(SendMessage(1, picture()))
        assert (platform.count(Upload), platform.count(SendMessage)) == (4, 1)
        with pytest.raises(FileNotFoundError):
            await outbox.perform(SendMessage(1, Image.open(tmp_path / "none.jpg")))
        await outbox.perform(SendMessage(1, "on"))


async def test_the_least_recently_used_descriptor_goes_first(autojump_clock: Any) -> None:
    platform = ScriptedPlatform()
    async with opened(platform, OutboxRules(descriptors=2)) as outbox:
        for data in (b"a", b"b", b"a", b"c", b"a", b"b"):
            await outbox.perform(SendMessage(1, picture(data)))
    uploads = [operation.source.data for operation in platform.took_effect if isinstance(operation, Upload)]
    assert uploads == [b"a", b"b", b"c", b"b"]
