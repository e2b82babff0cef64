"""The page in a real browser: all contents of messages, and all acts of a person."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import PIL.Image
import pytest
import trio
from chrome import Browser
from quart import websocket
from window import Window, needs_browser, window

from tests.loopback import PATIENCE
from triobot.emulator import follower
from triobot.wire.content import Contact, Descriptor, File, Image, Location, MediaKind
from triobot.wire.events import Message, Press, Submission
from triobot.wire.forms import Checkbox, Form, Inbuilt, Radio, Select, Submit, TextArea, TextField
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, LinkButton, PayButton, ReplyKeyboard
from triobot.wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    SendAction,
    VerifyPayment,
)

pytestmark = [needs_browser, pytest.mark.processes]


def picture() -> bytes:
    written = io.BytesIO()
    PIL.Image.new("RGB", (300, 200), (200, 60, 40)).save(written, "PNG")
    return written.getvalue()


async def upload(shown: Window, kind: MediaKind, name: str, data: bytes) -> Descriptor:
    return await shown.exchange.upload(kind, name, io.BytesIO(data))


def said(shown: Window) -> list[object]:
    """Return the people's messages in Sara's chat."""
    entries = shown.platform.world.chat(shown.sara.chat_id).entries.values()
    return [entry.content for entry in entries if entry.author is not None]


async def test_people_talk_in_both_directions(browser: Browser) -> None:
    """Joins, texts in both writing directions, edits, deletions, the typing sign, another chat."""
    async with window(browser, joined=False) as shown:
        page = shown.page
        await page.click(".join", "Start")
        await page.has(".composer:not([hidden]) .compose")  # hidden until Sara has joined
        await page.has(".compose:focus")
        await page.type("half a word", selector=".compose")
        await page.reload()
        await page.wait("document.querySelector('.compose')?.value === 'half a word'")
        await page.run("document.querySelector('.compose').value = ''")
        first = shown.sends("سلام! ۲۵۰٬۰۰۰ ریال\nand (some) English")
        await page.sees("سلام!", within=".bubble")
        assert await page.run("getComputedStyle(document.querySelector('.text')).direction") == "rtl"

        await page.type("two\nlines", selector=".compose")
        await page.press("Enter")
        await page.sees("two", within=".mine .bubble")
        assert said(shown) == ["two\nlines"]
        assert await page.run("document.querySelector('.compose').value") == ""

        shown.exchange.perform(SendAction(shown.sara.chat_id))
        await page.sees("typing…", within=".thread-header")
        shown.exchange.perform(EditMessage(shown.sara.chat_id, first, "changed"))
        await page.sees("changed", within=f"[data-id='{first}']")
        await page.sees("edited", within=f"[data-id='{first}']")
        shown.exchange.perform(DeleteMessage(shown.sara.chat_id, first))
        await page.sees("Message deleted", within=f"[data-id='{first}']")
        assert await page.run("document.querySelectorAll('.row').length") == 2

        ali = shown.platform.world.add_user("علی")
        shown.joins(ali)
        shown.sends("for Ali", chat=ali.chat_id)
        await page.sees("1", within=f"[data-chat='{ali.chat_id}'] .badge")
        await page.click(".chat-item", "علی")
        await page.sees("for Ali", within=".bubble")
        await page.lacks(f"[data-chat='{ali.chat_id}'] .badge")


async def arrives(events: Sequence[object], count: int) -> None:
    """Wait until `events` has `count` events: the platform gets an act a moment after the click."""
    with trio.fail_after(PATIENCE):
        while len(events) < count:
            await trio.sleep(0.01)


@pytest.mark.slow
async def test_a_chat_is_followed_through_a_thousand_messages(browser: Browser) -> None:
    """The page stays at the end: a removal of old messages moves the rest, but isn't a reader's scroll."""
    async with window(browser) as shown:
        await shown.page.has(".compose")
        for burst in range(6):
            for number in range(200):
                shown.sends(f"message {burst} {number} {'x' * (number % 60)}")
            await shown.page.sees(f"message {burst} 199", within=".row.theirs:nth-last-child(1) .bubble")
            await shown.page.wait(
                "((one) => one.scrollHeight - one.scrollTop - one.clientHeight < 5)"
                "(document.querySelector('.scroller'))"
            )
            assert await shown.page.run("document.querySelector('.jump').hidden")


@pytest.mark.slow
async def test_a_reader_who_scrolled_up_stays_there(browser: Browser) -> None:
    """A badge counts the new messages. A reader at the end stays there, even if a picture loads late."""
    async with window(browser) as shown:
        page = shown.page
        at_end = (
            "((one) => one.scrollHeight - one.scrollTop - one.clientHeight < 5)"
            "(document.querySelector('.scroller'))"
        )
        for number in range(40):
            shown.sends(f"message {number}")
        stored = await upload(shown, "image", "red.png", picture())
        shown.sends(Image(stored, "late"))
        await page.wait("document.querySelector('.picture img')?.naturalWidth > 0")
        await page.wait(at_end)

        await page.run("document.querySelector('.scroller').scrollTop = 200")
        await page.wait("!document.querySelector('.jump').hidden")
        shown.sends("one more")
        await page.sees("1", within=".jump .badge")
        assert await page.run("document.querySelector('.scroller').scrollTop") == 200
        await page.click(".jump")
        await page.wait(at_end)
        await page.wait("document.querySelector('.jump').hidden")
        shown.sends("and another")
        await page.sees("and another", within=".bubble")
        await page.wait(at_end)


@pytest.mark.slow
async def test_a_line_that_is_answered_late_is_not_given_up(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page closes a silent connection after some seconds, but waits longer for an unanswered one."""
    late = LateLine()
    async with window(browser) as shown:
        page = shown.page
        await page.keep_time()
        monkeypatch.setattr(follower, "websocket", late)
        await page.reload()
        with trio.fail_after(PATIENCE):
            await late.asked.wait()
        await page.pass_time(10)
        late.answers.set()
        shown.sends("at last")
        await page.sees("at last", within=".bubble")
        assert late.lines == 1


class LateLine:
    """Quart's WebSocket; accepts the page's connection only once `answers` is set."""

    def __init__(self) -> None:
        self.lines = 0
        self.asked = trio.Event()
        self.answers = trio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(websocket, name)

    async def accept(self, subprotocol: str) -> None:
        self.lines += 1
        self.asked.set()
        await self.answers.wait()
        await websocket.accept(subprotocol=subprotocol)


async def test_buttons_keys_and_forms(browser: Browser) -> None:
    """A button waits for the press's answer; keys that share data ask first; a form sends its values."""
    async with window(browser) as shown:
        page, chat, exchange = shown.page, shown.sara.chat_id, shown.exchange
        pressed: list[Press | Message | Submission] = []
        exchange.pusher.push = lambda *events: pressed.extend(events)  # type: ignore[method-assign, arg-type]
        rows = (
            (CallbackButton("Same", "one"), CallbackButton("Same", "two")),
            (LinkButton("Web", "https://example.org/a"), LinkButton("Trap", "javascript:hacked=1")),
        )
        shown.sends("Which?", buttons=InlineKeyboard(rows))
        await page.click(".inline-button", "Same", nth=1)
        await page.has(".inline-button.waiting")
        await arrives(pressed, 1)
        assert isinstance(pressed[-1], Press) and pressed[-1].value == "two"
        exchange.perform(AnswerCallback(chat, pressed[-1].callback_id, "Well chosen", False))
        await page.sees("Well chosen", within=".toast")
        await page.lacks(".inline-button.waiting")
        await page.click(".inline-button", "Same", nth=0)
        await arrives(pressed, 2)
        assert isinstance(pressed[-1], Press) and pressed[-1].value == "one"
        exchange.perform(AnswerCallback(chat, pressed[-1].callback_id, "Look here", True))
        await page.sees("Look here", within=".sheet")
        await page.press("Escape")
        await page.lacks(".sheet")

        assert await page.run("document.querySelector('a.inline-button').href") == "https://example.org/a"
        assert await page.run("document.querySelectorAll('a.inline-button').length") == 1
        await page.click(".inline-button.dead", "Trap")
        assert await page.run("'hacked' in window") is False

        keys = ReplyKeyboard(((Key("$contact", "My number"), Key("$location", "Here")), (Key("n", "No"),)))
        shown.sends("Your number?", keys=keys)
        await page.click(".reply-key", "My number")
        await page.sees(shown.sara.phone, within=".sheet")
        assert said(shown) == []
        await page.click(".sheet .primary")
        await page.sees(shown.sara.phone, within=".mine .bubble")
        await page.click(".reply-key", "Here")
        await page.click(".sheet .chip", "Berlin")
        await page.click(".sheet .primary")
        await page.sees("Berlin", within=".mine .bubble")
        await page.click(".reply-key", "No")
        await page.sees("No", within=".mine .bubble")
        assert said(shown)[:2] == [
            Contact(shown.sara.phone, "Sara"),
            Location("52.5200", "13.4050", "Berlin"),
        ]
        await arrives(pressed, 5)
        assert isinstance(pressed[-1], Message) and pressed[-1].content == "n"

        form = Form(
            (
                TextField("name", "نام"),
                TextArea("note", "Note", "as before"),
                Select("floor", "Floor", (("1", "First"), ("2", "Second"))),
                Radio("how", "How", (("c", "Cash"), ("w", "Wallet"))),
                Checkbox("spoon", "Spoon"),
                Inbuilt("code", "Code", "qrcode"),
                Submit("Go"),
            )
        )
        shown.sends("Fill in", form=form)
        await page.type("سارا", selector=".native-form input[name=name]")
        await page.run(
            "(() => { const select = document.querySelector('.native-form select'); select.value = '2';"
            " select.dispatchEvent(new Event('change')); })()"
        )
        await page.click(".native-form .check", "Wallet")
        await page.click(".native-form .check", "Spoon")
        await page.click(".native-form .icon-button")
        await page.type("QR-7", selector=".sheet input.digits")
        await page.click(".sheet .primary")
        await page.click(".submit", "Go")
        await page.sees("Sent (1)", within=".native-form")
        grey = "getComputedStyle(document.querySelector('.native-form')).filter"
        assert await page.run(grey) == "grayscale(1)"
        assert isinstance(pressed[-1], Submission)
        assert dict(pressed[-1].values) == {
            "name": "سارا",
            "note": "as before",
            "floor": "2",
            "how": "w",
            "spoon": "true",
            "code": "QR-7",
        }

        # After a reload, the form has the sent values, and sends them again.
        await page.reload()
        await page.has(".native-form .sent")
        await page.click(".submit", "Go")
        await page.sees("Sent (2)", within=".native-form")
        first, again = pressed[-2:]
        assert isinstance(first, Submission) and isinstance(again, Submission)
        assert again.values == first.values


@pytest.mark.slow
async def test_files_of_every_kind(browser: Browser, tmp_path: Path) -> None:
    async with window(browser) as shown:
        page = shown.page
        png = tmp_path / "red.png"
        png.write_bytes(picture())
        await page.choose_files(".composer input[type=file]", png)
        await page.has(".sheet img.preview")
        await page.type("look", selector=".sheet input")
        await page.press("Enter")
        await page.wait("document.querySelector('.picture img')?.complete")
        await page.wait("document.querySelector('.picture img').naturalWidth > 0")
        [sent] = said(shown)
        assert isinstance(sent, Image) and (sent.caption, sent.filename) == ("look", "red.png")
        assert await page.run("document.querySelector('.picture img').srcset.split(',').length") == 5
        await page.click(".picture")
        await page.has(".sheet .versions a", times=5)
        await page.press("Escape")

        for kind in ("video", "audio", "voice", "file"):
            await page.choose_files(".composer input[type=file]", png)
            await page.has(".sheet select")
            await page.run(f"document.querySelector('.sheet select').value = '{kind}'")
            await page.click(".sheet .primary")
            await page.has(f".media-{kind}")
        assert await page.run("[...document.querySelectorAll('a[download]')].at(-1).download") == "red.png"

        elsewhere = Descriptor.from_object(
            {"type": "file", "path": "https://example.org/x.png", "filesize": 3, "filename": "x.png"}
        )
        shown.sends(Image(elsewhere, "not ours"))
        await page.sees("is on another server", within=".bubble")
        # The browser logs that a file wasn't a picture; the page handled this.
        page.errors[:] = [error for error in page.errors if "Failed to load resource" not in error]


HOSTILE = "<img src=x onerror='hacked=1'><script>hacked=1</script>\"'`${hacked=1}{{hacked}}</textarea>\u202e"


@pytest.mark.slow
async def test_hostile_texts_stay_texts(browser: Browser) -> None:
    """The page shows markup in texts of bots and people as text, everywhere."""
    async with window(browser) as shown:
        page, exchange, world = shown.page, shown.exchange, shown.platform.world
        eve = world.add_user(HOSTILE)
        shown.joins(eve)
        team = world.add_group("team" + HOSTILE.replace("@", ""))
        shown.joins(eve, team.id)
        shown.joins(shown.sara, team.id)
        exchange.act(eve, lambda acting: acting.say(HOSTILE), team.id)

        stored = await upload(shown, "file", HOSTILE, b"x")
        drawing = await upload(shown, "image", "a.svg", b"<svg onload='parent.hacked=1'>")
        rows = (
            (
                CallbackButton(HOSTILE, HOSTILE),
                LinkButton(HOSTILE, "data:text/html,<script>hacked=1</script>"),
            ),
            (PayButton(HOSTILE, 5, "1234567890123456", desc=HOSTILE),),  # type: ignore[arg-type]
        )
        field = Form(
            (
                TextField("a", HOSTILE, HOSTILE),
                TextArea("b", HOSTILE, HOSTILE),
                Select("c", HOSTILE, ((HOSTILE, HOSTILE),)),
                Radio("d", HOSTILE, ((HOSTILE, HOSTILE),)),
                Checkbox("e", HOSTILE),
                Submit(HOSTILE),
            )
        )
        shown.sends(HOSTILE, buttons=InlineKeyboard(rows), keys=ReplyKeyboard(((Key(HOSTILE, HOSTILE),),)))
        shown.sends(HOSTILE, form=field)
        shown.sends(File(stored, HOSTILE))
        shown.sends(Image(drawing, HOSTILE))
        shown.sends(Contact("+989100000000", HOSTILE))
        shown.sends(Location("1", "2", HOSTILE))
        exchange.perform(CreateInvoice(shown.sara.chat_id, 10, HOSTILE))
        number = shown.sends("x", buttons=InlineKeyboard(rows))
        callback = exchange.act(shown.sara, lambda acting: acting.press(number, rows[0][0]))
        assert isinstance(callback[0], Press)
        exchange.perform(AnswerCallback(shown.sara.chat_id, callback[0].callback_id, HOSTILE, True))

        await page.sees(HOSTILE[:20], within=".sheet")
        await page.press("Escape")
        for panel in ("Wallet", "Requests", "Mischief"):
            await page.click(".rail .tab", panel)
        await page.click(".rail .tab", "Requests")
        await page.click(".call-head", "text")
        await page.click(".inline-button.pay")
        await page.sees(HOSTILE[:20], within=".sheet")
        await page.press("Escape")
        await page.click(".chat-item", "@team")
        await page.sees(HOSTILE[:20], within=".bubble")
        await page.click(".chat-item", "Sara")
        await trio.sleep(0.3)

        assert await page.run("'hacked' in window") is False
        found = (
            "document.querySelectorAll('script:not([src]), img[src=x], [onerror], [onload], iframe').length"
        )
        assert await page.run(found) == 0
        # The SVG drawing isn't drawn: the server's content type is no picture.
        page.errors[:] = [error for error in page.errors if "/files/" not in error]


@pytest.mark.slow
async def test_a_wallet_pays_fails_and_gets_back(browser: Browser) -> None:
    async with window(browser) as shown:
        page, sara, exchange = shown.page, shown.sara, shown.exchange
        ref_ids = ("1000000000000001", "1000000000000002", "1000000000000003")
        for ref_id in ref_ids:
            button = PayButton(f"Buy {ref_id[-1]}", 200_000, ref_id, desc="A pizza")  # type: ignore[arg-type]
            shown.sends("Pizza", buttons=InlineKeyboard(((button,),)))
        exchange.perform(CreateInvoice(sara.chat_id, 50_000, "چای"))
        await page.click(".rail .tab", "Wallet")
        await page.sees("1,000,000 rials", within=".balance")

        await page.click(".inline-button.pay", "Buy 1")
        await page.sees("200,000 rials", within=".sheet")
        await page.click(".payment [type=submit]")
        await page.sees("800,000 rials", within=".balance")
        await page.sees("not verified yet", within=".bill")
        exchange.perform(VerifyPayment(sara.chat_id, ref_ids[0]))  # type: ignore[arg-type]
        await page.has(".bill.captured")

        await page.click(".inline-button.pay", "Buy 2")
        await page.click(".more-options summary")
        await page.run("document.querySelector('.sheet select').value = '1004'")
        await page.click(".payment [type=submit]")
        await page.lacks(".sheet")
        assert sara.wallet["IRR"] == 800_000

        await page.click(".inline-button.pay", "Buy 3")
        await page.click(".payment [type=submit]")
        await page.sees("600,000 rials", within=".balance")
        await page.wait("/^(59|60):/.test(document.querySelector('.countdown').textContent)")
        await page.click(".wide-button", "Let an hour pass")
        await page.sees("800,000 rials", within=".balance")
        await page.has(".bill.refunded")

        await page.click(".bill .button", "Pay")
        await page.click(".payment [type=submit]")
        await page.sees("750,000 rials", within=".balance")
        await page.click(".balance.IRR .chip", "+100,000")
        await page.sees("850,000 rials", within=".balance")


@pytest.mark.slow
async def test_mischief_is_planned_and_taken_back(browser: Browser) -> None:
    async with window(browser) as shown:
        page, exchange = shown.page, shown.exchange
        await page.click(".rail .tab", "Mischief")
        await page.click(".fault-error502")
        await page.click(".fault-eventTwice")
        await page.sees("Posted twice", within=".planned")
        assert len(exchange.plan.pending()) == 2
        await page.click(".all-well")
        await page.lacks(".planned")
        assert exchange.plan.pending() == ()
        await page.click(".chip", "+10 minutes")
        await page.sees("10 minutes ahead", within=".mischief")
        assert exchange.clock.ahead == 600_000


@pytest.mark.slow
async def test_groups_and_people_are_made_side_by_side(browser: Browser) -> None:
    async with window(browser) as shown:
        page, world = shown.page, shown.platform.world
        await page.click(".list-heading .icon-button", nth=0)
        await page.type("Reza", selector=".sheet input")
        await page.press("Enter")
        await page.sees("Reza", within=".thread .persona")
        await page.click(".list-heading .icon-button", nth=-1)
        await page.type("team", selector=".sheet input")
        await page.press("Enter")
        await page.sees("@team", within=".thread-header")
        [_, _, team] = world.chats()
        assert len(team.members) == 2
        await page.click(".thread-header .persona")
        await page.click(".menu button", "Reza")
        await page.type("hello all", selector=".compose")
        await page.press("Enter")
        await page.sees("hello all", within=".mine .bubble")
        reza = next(user for user in world.people if user.name == "Reza")
        assert [entry.author for entry in team.entries.values()] == [reza.id]

        await page.click(".thread-header .icon-button", nth=-1)
        await page.click(".menu button", "beside")
        await page.has(".thread", times=2)
        await page.click(".thread-header .icon-button", nth=-1)
        await page.click(".menu button", "Leave")
        await page.sees("Start", within=".thread-foot")


@pytest.mark.slow
async def test_the_token_is_needed_and_leaves_the_address(browser: Browser) -> None:
    async with window(browser) as shown:
        page = shown.page
        assert await page.run("location.hash") == ""
        await page.reload()
        await page.has(".thread")
        await page.run("sessionStorage.clear()")
        await page.reload()
        await page.sees("Open the address", within=".gate")
        # Also a token that a browser can't send is wrong.
        for wrong in ("", "سلام", "wrong"):
            await page.run("document.querySelector('.gate').old = true")
            await page.type(wrong, selector=".gate input")
            await page.press("Enter")
            await page.wait("document.querySelector('.gate')?.old === undefined")
            await page.sees("Open the address", within=".gate")
        await page.type(f"{shown.platform.page_url}/#%63ontrol", selector=".gate input")
        await page.press("Enter")
        await page.has(".thread")
        page.errors[:] = [error for error in page.errors if "403" not in error]


@pytest.mark.slow
async def test_persian_on_a_phone_in_the_dark(browser: Browser) -> None:
    async with window(browser, size=(390, 780), dark=True) as shown:
        page = shown.page
        await page.run("localStorage.setItem('triobot-language', 'fa')")
        await page.reload()
        await page.wait("document.dir === 'rtl' && document.querySelector('.chat-item')")
        assert await page.run("document.documentElement.dataset.theme") == "dark"
        assert await page.run("Boolean(document.querySelector('.panes')?.offsetParent)") is False
        await page.click(".chat-item", "Sara")
        button = PayButton("پرداخت", 250_000, "1000000000000001")  # type: ignore[arg-type]
        shown.sends("سلام", buttons=InlineKeyboard(((button,),)))
        await page.sees("۲۵۰٬۰۰۰ ریال", within=".inline-button.pay")
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert await page.run(wide)
        await page.click(".thread .only-narrow")
        await page.click(".tabs .tab", "کیف پول")
        await page.sees("۱٬۰۰۰٬۰۰۰ ریال", within=".balance")
        assert await page.run(wide)
