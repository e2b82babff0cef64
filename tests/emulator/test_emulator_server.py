"""The emulator on real loopback sockets: the client of this package and the bot's address agree with it."""

from __future__ import annotations

import io
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from tests.loopback import PATIENCE
from triobot.client import PlatformClient
from triobot.emulator.acts import Acting
from triobot.emulator.faults import Switches
from triobot.emulator.person import connect
from triobot.emulator.pusher import PushSettings
from triobot.emulator.server import Emulator, serve_emulator
from triobot.errors import (
    BadRequestError,
    DeliveryUnknownError,
    ForbiddenError,
    NotDeliveredError,
    RefusedError,
)
from triobot.wire.content import MEDIA, Blob, Contact, Content, Image, LocalFile, Location, MediaKind
from triobot.wire.decode import decode_event
from triobot.wire.events import Event, Join, Leave, Message, PayCallback, Press, Submission
from triobot.wire.forms import Checkbox, Form, Inbuilt, Radio, Select, Submit, TextArea, TextField
from triobot.wire.ids import ChatId, MessageId, RefId
from triobot.wire.markup import (
    CallbackButton,
    InlineKeyboard,
    Key,
    LinkButton,
    PayButton,
    ReplyKeyboard,
)
from triobot.wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    SendAction,
    SendMessage,
    Upload,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.results import PaymentState
from triobot.wire.undocumented import (
    Answer,
    GetGameConfig,
    GetGameData,
    GetLeaderBoard,
    PutGameData,
    RequestWalletCharge,
    SendGameEvent,
)

TOKEN = "t" * 64
FORM = Form(
    (
        TextField("name", "نام", "Ali"),
        TextArea("more", "More & more"),
        Radio("size", "Size", (("s", "Small"), ("l", "Large"))),
        Select("city", "City", (("t", "تهران"),)),
        Checkbox("agree", "I agree"),
        Inbuilt("code", "Code", "qrcode"),
        Submit("Send"),
    )
)
PAY = PayButton("Pay + go", 700, RefId("1234567890123456"), "IRR", "Pizza")
YES = CallbackButton("Yes?", '{"a":"1"}')
BUTTONS = InlineKeyboard(((YES, LinkButton("Site", "https://example.org/?a=1&b=2", "webview")), (PAY,)))
KEYS = ReplyKeyboard(((Key("s", "Small"), Key("$contact", "Number")), (Key("l", "بزرگ"),)), once=False)


@asynccontextmanager
async def running(
    *, bot_url: str | None = None, switches: Switches | None = None, push: PushSettings | None = None
) -> AsyncIterator[tuple[Emulator, PlatformClient]]:
    async with trio.open_nursery() as nursery:
        start = partial(
            serve_emulator,
            port=0,
            bot_url=bot_url,
            token=TOKEN,
            control_token="c",
            switches=switches,
            push=push,
            chance=random.Random(1),
        )
        emulator: Emulator = await nursery.start(start)
        async with PlatformClient(emulator.base_url, TOKEN) as client:
            yield emulator, client
        nursery.cancel_scope.cancel()


async def test_client_and_emulator_agree_on_every_operation() -> None:
    async with running() as (emulator, client):
        world, now = emulator.world, emulator.exchange.clock.now()
        ali = world.add_user("Ali", irr=10_000)
        Acting(world, ali, now).join()
        chat = world.chat(ali.chat_id)

        sent = await client.perform(SendMessage(ali.chat_id, "سلام + hi\n", KEYS, BUTTONS, FORM))
        entry = chat.entries[sent.id]
        assert (entry.content, entry.reply_keyboard, entry.inline_keyboard, entry.form) == (
            "سلام + hi\n",
            KEYS,
            BUTTONS,
            FORM,
        )
        by_phone = await client.perform(SendMessage(ali.phone, Contact("+989120000000", "Sara")))
        assert chat.entries[by_phone.id].content == Contact("+989120000000", "Sara")
        place = await client.perform(SendMessage(ali.chat_id, Location("35.7", "51.4", "here")))
        assert chat.entries[place.id].content == Location("35.7", "51.4", "here")

        await client.perform(SendAction(ali.chat_id))
        assert chat.is_typing(emulator.exchange.clock.now())
        [press] = Acting(world, ali, now).press(sent.id, YES)
        assert isinstance(press, Press)
        await client.perform(AnswerCallback(ali.chat_id, press.callback_id, "noted", show_alert=True))
        reply = chat.pressed[press.callback_id].reply
        assert reply is not None and (reply.text, reply.alert) == ("noted", True)

        assert await client.perform(VerifyPayment(ali.chat_id, PAY.ref_id)) == PaymentState(False, 700)
        Acting(world, ali, now).pay(sent.id, PAY)
        assert await client.perform(InquirePayment(ali.chat_id, PAY.ref_id)) == PaymentState(False, 700)
        assert await client.perform(VerifyPayment(ali.chat_id, PAY.ref_id)) == PaymentState(True, 700)
        assert await client.perform(InquirePayment(ali.chat_id, PAY.ref_id)) == PaymentState(True, 700)
        invoice = await client.perform(
            CreateInvoice(ali.chat_id, 500, "Tea", currency="IRR", expire_time=300)
        )
        Acting(world, ali, now).pay_invoice(invoice.id)
        assert await client.perform(VerifyInvoice(ali.chat_id, invoice.id)) == PaymentState(True, 500)
        assert await client.perform(InquireInvoice(ali.chat_id, invoice.id)) == PaymentState(True, 500)

        await client.perform(EditMessage(ali.chat_id, sent.id, "bye", InlineKeyboard(((YES,),))))
        assert chat.entries[sent.id].content == "bye"
        await client.perform(EditMessage(ali.chat_id, place.id, Location("1", "2")))
        assert chat.entries[place.id].content == Location("1", "2")
        await client.perform(DeleteMessage(ali.chat_id, sent.id))
        assert chat.entries[sent.id].deleted
        await client.perform(DeleteMessage(ali.chat_id, MessageId(999)))

        await client.perform(PutGameData(ali.chat_id, "meta", "blue", force=True))
        assert await client.perform(GetGameData(ali.chat_id, "meta")) == Answer({"data": "blue"})
        for operation in (
            RequestWalletCharge(ali.chat_id, "please"),
            GetGameConfig(ali.chat_id, "a"),
            SendGameEvent(ali.chat_id, "a", "b"),
            GetLeaderBoard(ali.chat_id, "week"),
        ):
            assert isinstance(await client.perform(operation), Answer)


async def test_refusals_are_the_clients_errors() -> None:
    async with running() as (emulator, client):
        with pytest.raises(ForbiddenError, match="chat_id is not valid"):
            await client.perform(SendMessage(99, "hi"))
        with pytest.raises(BadRequestError, match="chat_id is not valid") as caught:
            await client.perform(VerifyPayment(ChatId(99), RefId("1")))
        assert caught.value.trace_id
        async with PlatformClient(emulator.base_url, "u" * 64) as stranger:
            with pytest.raises(ForbiddenError, match="token is not valid"):
                await stranger.perform(SendAction(99))


@pytest.mark.parametrize("kind", list(MEDIA))
async def test_every_kind_of_upload_is_sent_and_served(kind: MediaKind, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    async with running() as (emulator, client):
        ali = emulator.world.add_user("Ali")
        Acting(emulator.world, ali, 0).join()

        for source in (LocalFile(path, "نام & name.bin"), Blob(data, "نام & name.bin")):
            media = MEDIA[kind](await client.perform(Upload(kind, source)), "caption")
            sent = await client.perform(SendMessage(ali.chat_id, media))

            shown = emulator.world.chat(ali.chat_id).entries[sent.id].content
            assert shown == media
            assert (media.filename, media.filesize) == ("نام & name.bin", len(data))
            assert (await client.download(media, tmp_path / "got")).read_bytes() == data


async def test_a_real_picture_has_a_size_over_the_wire() -> None:
    pillow = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    pillow.new("RGB", (300, 200)).save(buffer, "JPEG")
    async with running() as (_, client):
        image = Image(await client.perform(Upload("image", Blob(buffer.getvalue(), "a.jpg"))))

        assert (image.width, image.height) == (300, 200)
        async with httpx.AsyncClient(trust_env=False) as browser:
            small = await browser.get(image.screenshots["128"])
        with pillow.open(io.BytesIO(small.content)) as shrunk:
            assert shrunk.size == (128, 85)


async def test_a_lost_answer_is_an_effect_that_nobody_knows_of() -> None:
    async with running() as (emulator, client), connect(emulator.control_url, "c") as app:
        ali = await app.user("Ali")
        await ali.joins()
        for drop, shown in (("before", 0), ("after", 1)):
            await app.post("faults", {"operation": "sendMessage", "drop": drop, "times": 1})
            with pytest.raises(RefusedError) as lost:
                await client.perform(SendMessage(ali.chat_id, "hi"))
            assert lost.value.status == 502
            assert len(await ali.history()) == shown
        await app.post("faults", {"operation": "*", "status": 503, "times": 1})
        with pytest.raises(RefusedError) as caught:
            await client.perform(SendMessage(ali.chat_id, "hi"))
        assert caught.value.status == 503
        await client.perform(SendMessage(ali.chat_id, "hi"))


@pytest.mark.virtual_time
async def test_connections_are_refused_for_a_while() -> None:
    async with running() as (emulator, client), connect(emulator.control_url, "c") as app:
        await app.post("outage", {"seconds": 0.4})
        refused = False
        with trio.fail_after(PATIENCE):
            while not refused:
                try:
                    await client.perform(DeleteMessage(1, MessageId(1)))
                except ForbiddenError:
                    await trio.sleep(0.01)
                except (NotDeliveredError, DeliveryUnknownError) as error:
                    refused = isinstance(error, NotDeliveredError)
            while refused:
                try:
                    await client.perform(DeleteMessage(1, MessageId(1)))
                except ForbiddenError:
                    refused = False
                except NotDeliveredError:
                    await trio.sleep(0.02)


async def test_uploads_are_gone_when_it_stops() -> None:
    async with running() as (emulator, client):
        await client.perform(Upload("file", Blob(b"x", "a")))
        [stored] = emulator.exchange.blobs._stored.values()
        assert stored.path.exists()
    assert not stored.path.parent.exists()


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[str, trio.MemoryReceiveChannel[Event]]]:
    """A bot that decodes what it gets, and does nothing else."""
    send, receive = trio.open_memory_channel[Event](100)

    async def app(
        scope: dict[str, Any], get: Callable[[], Any], put: Callable[[dict[str, Any]], Any]
    ) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                await put({"type": (await get())["type"] + ".complete"})
            return
        body, more = b"", True
        while more:
            message = await get()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        kind = dict(scope["headers"])[b"content-type"].decode()
        await send.send(decode_event(kind, body))
        await put({"type": "http.response.start", "status": 200, "headers": []})
        await put({"type": "http.response.body", "body": b""})

    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.loglevel = "ERROR"
    config.graceful_timeout = 0.1
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve, cast("Any", app), config, mode="asgi"))
        yield bound[0], receive
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("lower_case", [False, True])
@pytest.mark.parametrize("senders", [False, True])
async def test_every_event_is_decoded_to_itself(as_json: bool, lower_case: bool, senders: bool) -> None:
    switches = Switches(json_events=as_json, lower_case_callbacks=lower_case, senders=senders)
    async with receiving() as (url, received), running(bot_url=url, switches=switches) as (emulator, client):
        world, exchange = emulator.world, emulator.exchange
        ali = world.add_user("Ali & Sara", irr=1_000)
        posted = [*exchange.act(ali, lambda acting: acting.join())]
        sent = await client.perform(SendMessage(ali.chat_id, "?", KEYS, BUTTONS, FORM))
        invoice = await client.perform(CreateInvoice(ali.chat_id, 100, "Tea"))
        contents: list[Content] = [
            "123",
            "null",
            "سلام\n+&=",
            Contact("+98912", "ب"),
            Location("1", "2", "x"),
        ]
        for kind, media in MEDIA.items():
            contents.append(media(await client.perform(Upload(kind, Blob(b"x", "a b.png"))), "caption"))
        for content in contents:
            posted += exchange.act(ali, partial(Acting.say, content=content))
        posted += exchange.act(ali, lambda acting: acting.press(sent.id, YES))
        posted += exchange.act(ali, lambda acting: acting.submit({"name": "a=b&c ب", "agree": "true"}))
        posted += exchange.act(ali, lambda acting: acting.pay(sent.id, PAY))
        posted += exchange.act(ali, lambda acting: acting.pay(sent.id, PAY, code=1000))
        posted += exchange.act(ali, lambda acting: acting.pay_invoice(invoice.id))
        posted += exchange.act(ali, lambda acting: acting.leave())

        with trio.fail_after(PATIENCE):
            got = [await received.receive() for _ in posted]

        assert got == posted
        assert {type(event) for event in got} >= {Join, Leave, Message, Press, Submission, PayCallback}
        assert all((event.sender is not None) is senders for event in got)


@pytest.mark.virtual_time
async def test_a_bot_that_is_away_for_a_moment_misses_nothing() -> None:
    quick = PushSettings(attempts=100, interval=0.01)
    async with receiving() as (url, received), running(push=quick) as (emulator, _):
        world, exchange = emulator.world, emulator.exchange
        ali = world.add_user("Ali")
        post = cast("Any", exchange.pusher)._post
        post.url = "http://127.0.0.1:1/"
        exchange.act(ali, lambda acting: acting.join())
        await trio.sleep(0.05)
        assert exchange.pusher.waiting == 0 and not exchange.pusher.deliveries.settled()
        post.url = url
        with trio.fail_after(PATIENCE):
            assert isinstance(await received.receive(), Join)
