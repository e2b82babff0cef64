"""Time travel on the page: each notch of a conversation with chat, code line and values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio
from chrome import Browser, Page
from travels import Told, pizza, travel
from window import SCREEN, needs_browser, window

from tests.loopback import PATIENCE
from tests.passing import SCHEMA
from tests.samples import sample
from tests.schema import wrong

pytestmark = [needs_browser, pytest.mark.processes]

WIDE = (1440, 900)
LIT = "document.querySelector('.line.lit .line-text')?.textContent ?? ''"
SLIDER = "document.querySelector('.travel input[type=range]')"
CHANGED = "[...document.querySelectorAll('.variables .changed')].map((one) => one.textContent.trim())"
LOOKS = [
    (1440, 900, "light"),
    (1024, 768, "light"),
    (390, 844, "light"),
    (390, 844, "dark"),
    (1024, 768, "dark"),
    (1440, 900, "dark"),
]
AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"


async def at(page: Page, n: int) -> None:
    """Wait until notch `n` is shown."""
    await page.wait(f"{SLIDER}?.getAttribute('aria-valuetext')?.startsWith('Notch {n} of ')")


def long(notches: int) -> Told:
    """Return the pass of a long conversation: a loop of two lines, and a child task."""
    told = pizza()
    lines = [
        "async def talk(chat):",
        "    while True:",
        "        text = await chat.ask('More?')",
        "        count += 1",
    ]
    every: list[dict[str, Any]] = []
    for n in range(notches):
        notch: dict[str, Any] = {"n": n, "t": 1_798_880_400_000 + 1_000 * n, "r": n, "id": str(n)}
        if n % 2:
            notch |= {"k": "receive", "dot": "person"}
            notch["in"] = {"what": "message", "from": 1, "name": "Sara", "text": f"answer {n}"}
            notch["out"] = [{"id": str(n + 1), "kind": "send", "text": f"More? {n}", "line": [0, 3]}]
            notch["v"] = {"": [{"text": repr(f"answer {n}"), "count": str(n // 2)}]}
        else:
            notch |= {"k": "send" if n else "begin", "dot": "bot" if n else "begin", "done": [[str(n), n]]}
            notch["f"] = {"": [[0, 3 + n % 4 // 2, "talk"]]}
        every.append(notch)
    every[0] |= {"whole": True, "v": {"": [{"count": "0"}]}, "parked": [], "blocks": [], "data": {}}
    every[5] |= {"f": {"1/1.": [[0, 1, "beside"]]}, "v": {"1/1.": [{"inner": "1"}]}}
    head = told.head | {"notches": notches, "records": notches, "state": "waits", "marks": []}
    return Told(head, every, "\n".join(lines) + "\n")


def test_the_kept_order_is_one_that_a_pass_could_tell() -> None:
    told = pizza()
    assert wrong(told.head, SCHEMA["$defs"]["head"], SCHEMA) is None
    for notch in told.notches:
        assert wrong(notch, SCHEMA["$defs"]["notch"], SCHEMA) is None


@pytest.mark.parametrize("others", [0, 1])
async def test_a_phone_shows_title_and_state(browser: Browser, others: int) -> None:
    async with window(browser, size=(390, 844)) as shown:
        told = pizza(shown.sara.chat_id)
        told.beside = [{**told.listed(), "conversation": 2}] * others
        await travel(shown, told)
        await at(shown.page, 18)
        await shown.page.has(".travel-head .switcher", times=others)
        for what in ("h1", ".tag"):
            box = f"document.querySelector('.travel-head {what}').getBoundingClientRect()"
            seen = (
                "(({left, right, top, bottom}) => left >= 0 && right <= 390 && right - left > 40"
                " && !!document.elementFromPoint(left + 9, (top + bottom) / 2)"
                f"?.closest('.travel-head {what}'))({box})"
            )
            assert await shown.page.run(seen), what


async def test_on_a_phone_no_two_pictures_of_the_head_are_the_same(browser: Browser) -> None:
    async with window(browser, size=(390, 844)) as shown:
        told = pizza(shown.sara.chat_id)
        told.can = ("branch", "test")
        await travel(shown, told)
        await at(shown.page, 18)
        await shown.page.has(".travel-head .primary")
        pictures = "[...document.querySelectorAll('.travel-head .button svg')].map((one) => one.innerHTML)"
        assert len(drawn := await shown.page.run(pictures)) == len(set(drawn)) == 5


async def test_of_a_kept_test_that_did_not_end_nothing_is_claimed(browser: Browser) -> None:
    kept = {"text": "TEXT", "passed": None, "output": "it did not end within 60 s", "took": 60.2}
    async with window(browser) as shown:
        page = shown.page
        await page.answers("**/control/kept", lambda *_: (200, "application/json", json.dumps(kept)))
        keep = "Promise.resolve(load('travel/kept.js')).then(({keepAsTest}) => keepAsTest('kept', {}))"
        await page.run(f"void {keep}")
        await page.sees("TEXT", within=".kept-test")
        told = await page.run("document.querySelector('.kept-test [role=alert]').textContent")
        assert told == (
            "Not saved as a test: it did not end within 60 s, so it isn\N{RIGHT SINGLE QUOTATION MARK}t known"
            " whether it passes."
        )
        assert "fails" not in await page.run("document.querySelector('.kept-test').textContent")


async def test_whatever_the_head_has_to_say_its_buttons_are_on_the_screen(browser: Browser) -> None:
    async with window(browser, size=(1100, 800)) as shown:
        await travel(shown, pizza(shown.sara.chat_id))
        await at(shown.page, 18)
        tag = "document.querySelector('.travel-head .tag')"
        await shown.page.run(f"{tag}.textContent = 'Ran under the code of another day'.repeat(3)")
        outside = (
            "[...document.querySelectorAll('.travel-head .button')]"
            ".filter(one => one.getBoundingClientRect().right > 1100).length"
        )
        assert await shown.page.run("document.querySelectorAll('.travel-head .button').length") > 2
        assert await shown.page.run(outside) == 0


async def test_a_slider_goes_through_an_order(browser: Browser) -> None:
    """By keys, by clicks on bubbles and lines, and by an address."""
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, pizza(shown.sara.chat_id))
        await page.finds("slider", "Time line")
        await at(page, 18)
        await page.sees("It came to its end", within=".notch-words")
        await page.sees("conversation 1 of", within=".travel-head")
        await page.press("Home")
        await at(page, 0)
        assert "Your name?" in await page.run(LIT)
        await page.press("Shift+ArrowRight")
        await at(page, 2)
        assert "chat.choose" in await page.run(LIT)
        assert await page.run(CHANGED) == ["name'Sara'"]
        # The notch's messages have a ring; later messages are shown, too, with a mark.
        ringed = "[...document.querySelectorAll('.then .now')].map((one) => one.textContent.trim())"
        assert [text[:5] for text in await page.run(ringed)] == ["Sara0", "Size?"]
        await page.finds("region", "The chat then")
        await page.sees("Where to?", within=".then-bubble.later")
        await page.sees("Size?", within=".value-card:nth-of-type(3)")
        await page.press("ArrowRight")
        await at(page, 3)
        await page.sees("nothing", within=".value-card:nth-of-type(3)")

        # A bubble leads to the notch, the code line and the record.
        await page.push("button", "Floor: please enter a whole number.")
        await at(page, 10)
        assert "chat.fill" in await page.run(LIT)
        await page.sees("9:30 left", within=".value-card")
        await page.sees("receive · #12 · form", within=".value-card")
        assert await page.run("[...document.querySelectorAll('.mark')].length") == 1
        # A number beside a line leads to a notch with this current line.
        await page.push("button", "Notch 4", exact=True)
        await at(page, 4)
        await page.wait(f"location.hash === '#c/{shown.sara.chat_id}/1/n/4'")

        await page.press("/")
        await page.type("cutlery=True")
        await at(page, 12)
        await page.press("Escape")
        await page.press("Escape")
        await page.lacks(".travel:not([hidden])")
        assert await page.run("location.hash") == ""
        await page.finds("textbox", "Write a message")

        await page.run(f"void (location.hash = '#c/{shown.sara.chat_id}/1/n/6')")
        await at(page, 6)


@pytest.mark.slow
async def test_it_is_opened_from_a_chat_of_a_bot_that_is_in_hand(browser: Browser) -> None:
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        told = pizza(shown.sara.chat_id)
        await page.answers("**/control/travel/**", told.answer)
        await page.lacks(".thread-header .icon-travel")
        process = {
            "phase": "running",
            "target": "pizza.py:bot",
            "since": 0,
            "starts": 1,
            "pid": 1,
            "problem": "",
        }
        await page.run(
            "Promise.resolve(load('world.js')).then((one) =>"
            f" one.merge({{now: Date.now(), bot: {json.dumps(process)}}}))"
        )
        await page.push("button", "Go through what happened in this chat")
        await page.finds("slider", "Time line")
        assert told.asked[:2] == [
            f"GET /control/travel/{shown.sara.chat_id}",
            f"POST /control/travel/{shown.sara.chat_id}/1/open",
        ]
        await page.push("button", "Back to now")
        await page.has(".compose:focus")

        # The page opens the only conversation that hasn't ended; a menu offers the others.
        over = ("ended", "interrupted")
        told.beside = [{**told.listed(), "conversation": n, "state": one} for n, one in enumerate(over, 2)]
        told.head["state"] = "waits"
        await page.push("button", "Go through what happened in this chat")
        await page.finds("slider", "Time line")
        labels = await page.run("[...document.querySelectorAll('.switcher option')].map((one) => one.text)")
        assert [re.sub("[\u2068\u2069]", "", label).split(" · ")[::2] for label in labels] == [
            ["pizza 1", "waits"],
            ["pizza 2", "ended"],
            ["pizza 3", "ended by an interrupt"],
        ]
        await page.choose("Which conversation?", labels[1])
        await page.wait(f"location.hash.startsWith('#c/{shown.sara.chat_id}/2')")
        await page.push("button", "Back to now")
        # If two conversations haven't ended, or all have, the page asks.
        told.beside[0]["state"] = "parked"
        await page.push("button", "Go through what happened in this chat")
        await page.finds("dialog", "Which conversation?")
        await page.click(".conversation-choice", "parked")
        await page.wait(f"location.hash.startsWith('#c/{shown.sara.chat_id}/2')")


@pytest.mark.slow
async def test_from_right_to_left_everything_mirrors(browser: Browser) -> None:
    """The arrow keys, too; code keeps its direction."""
    async with window(browser, size=WIDE, dark=True) as shown:
        page = shown.page
        await page.run("localStorage.setItem('triobot-language', 'fa')")
        await page.reload()
        await page.has(".thread")
        await travel(shown, pizza(shown.sara.chat_id), notch=6)
        valued = f"{SLIDER}?.getAttribute('aria-valuetext') ?? ''"
        await page.wait(f"({valued}).startsWith('شکاف ۶ از ۱۸')")
        await page.press("ArrowLeft")
        await page.wait(f"({valued}).startsWith('شکاف ۷ ')")
        await page.press("ArrowRight")
        await page.press("ArrowRight")
        await page.wait(f"({valued}).startsWith('شکاف ۵ ')")
        directions = (
            "['.travel', '.code', '.variables']"
            ".map((one) => getComputedStyle(document.querySelector(one)).direction)"
        )
        assert await page.run(directions) == ["rtl", "ltr", "ltr"]
        at_start = "document.querySelector('.notch').getBoundingClientRect().left > innerWidth / 2"
        assert await page.run(at_start) is True


@pytest.mark.slow
async def test_thousands_of_notches_come_in_windows(browser: Browser) -> None:
    """The shown notch's window is loaded first; the computed states equal the server's."""
    told = long(1_000)
    # A waiting conversation would be read again with each news of its chat.
    told.head["state"] = "ended"
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, told, notch=600)
        await at(page, 600)
        await page.has(".strip")
        await page.wait(f"{SLIDER}.max - {SLIDER}.min === 120")
        # Wait for all windows: a step to another notch would change the order.
        with trio.fail_after(PATIENCE):
            while len(asked := [one.partition("?")[2] for one in told.asked if "notches" in one]) < 4:
                await trio.sleep(0.05)
        assert asked == ["from=512&to=768", "from=768&to=1000", "from=256&to=512", "from=0&to=256"]
        await page.press("End")
        await at(page, 999)
        await page.press("Home")
        await at(page, 0)
        found = await page.run(
            "Promise.resolve(load('travel/state.js')).then(async ({Journal, fold}) => {"
            " const {look} = load('link.js');"
            " const pass = await look('travel/pass/p1'), all = new Journal(pass);"
            " for (const [from, to] of [[768, 1000], [0, 256], [512, 768], [256, 512]])"
            " all.take((await look(`travel/pass/p1/notches?from=${from}&to=${to}`)).notches);"
            " return [0, 5, 6, 255, 256, 300, 777, 999].map((n) => all.state(n)) })"
        )
        for n, state in zip([0, 5, 6, 255, 256, 300, 777, 999], found, strict=True):
            whole = told.whole_at(n)
            assert (state["frames"], state["vars"]) == (whole["f"], whole["v"])
        # The nursery's child task has its own tab.
        await page.press("End")
        await page.push("tab", "beside")
        await page.wait("document.querySelector('.line.lit').dataset.line === '1'")
        await page.sees("inner", within=".variables")


def crashed() -> Told:
    """Return the pizza order, failed at the last notch."""
    told = pizza()
    frames = [[0, 60, "pizza"], [0, 46, "submit"]]
    cause = {
        "error": "KeyError",
        "text": "'oven'",
        "frames": [[0, 45, "submit"]],
        "v": [{}],
        "because": "cause",
    }
    failure = {
        "error": "ValueError",
        "text": "ValueError: no oven is free",
        "frames": frames,
        "v": [{"name": "'Sara'"}, {"order": "Order(…)"}],
        "causes": [cause],
    }
    told.head |= {"state": "crashed", "failures": [failure]}
    told.notches[-1] |= {"dot": "crash", "f": {"": frames}, "v": {"": failure["v"]}}
    return told


@pytest.mark.slow
async def test_a_crash_has_a_card_with_its_frames(browser: Browser) -> None:
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, crashed())
        await at(page, 18)
        await page.finds("article", "ValueError")
        await page.sees("ValueError: no oven is free", within=".crash-card")
        await page.sees("KeyError: 'oven'", within=".crash-card")
        await page.sees("caused by", within=".crash-card")
        await page.push("button", "pizza.py:60 · pizza")
        await page.wait("document.querySelector('.line.lit').dataset.line === '60'")
        await page.sees("'Sara'", within=".variables")
        await page.push("button", "pizza.py:46 · submit")
        await page.wait("document.querySelector('.line.lit').dataset.line === '46'")


@pytest.mark.slow
async def test_where_the_code_parts_both_sides_are_shown(browser: Browser) -> None:
    told = pizza()
    told.notches = told.notches[:7]
    parts = {"notch": 6, "operation": "9", "what": "recorded: send 9; now: sleep", "line": [0, 56]}
    told.head |= {"state": "diverged", "notches": 7, "divergence": parts, "because": "the code differs"}
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, told)
        await at(page, 6)
        await page.finds("note", "")
        await page.sees("recorded: send 9; now: sleep", within=".parting")
        await page.sees("with chat.fail_after(10 * 60):", within=".parting pre")
        await page.has(".gap")
        await page.press("ArrowLeft")
        await at(page, 5)
        await page.lacks(".parting")


@pytest.mark.slow
async def test_what_failed_and_was_mended_is_no_parting(browser: Browser) -> None:
    """For mended code, the page reports that the failure is gone, not that the code differs."""
    told = pizza()
    told.notches = told.notches[:7]
    parts = {"notch": 6, "operation": "0", "what": "the run ended here", "line": [0, 56]}
    told.head |= {"state": "diverged", "notches": 7, "divergence": parts, "because": "failed"}
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, told)
        await at(page, 6)
        await page.sees("with the present code it goes on", within=".parting.mended")
        await page.sees("fails no more", within=".travel-head .tag.good")
        assert "the run ended here" not in await page.run("document.body.innerText")


@pytest.mark.slow
async def test_while_it_is_read_there_is_a_bar_and_a_failure_has_its_words(browser: Browser) -> None:
    told = pizza()
    told.ready = False
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, told)
        await page.has(".travel-waits progress")
        told.failed = "it came to no rest"
        await page.sees("it came to no rest", within=".travel-waits")
        # The browser logs the refusal as an error; the page has shown the refusal.
        page.errors.clear()
        told.failed, told.ready = "", True
        await page.push("button", "Try again")
        await at(page, 18)


@pytest.mark.slow
async def test_what_goes_on_is_read_again_and_the_slider_stays(browser: Browser) -> None:
    told = pizza()
    whole = list(told.notches)
    told.notches = whole[:12]
    told.head |= {"state": "waits", "notches": 12}
    async with window(browser, size=WIDE) as shown:
        page = shown.page
        await travel(shown, told, notch=9)
        await at(page, 9)
        told.notches, told.head = whole[:16], told.head | {"notches": 16, "id": "p2"}
        shown.sends("something new")
        shown.exchange.tell()
        await page.sees("4 new", within=".time-line")
        await page.wait(f"{SLIDER}.getAttribute('aria-valuetext').startsWith('Notch 9 of 15')")
        assert "DELETE /control/travel/pass/p1" in told.asked


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci --prefix tests/browser)")
@pytest.mark.parametrize("look", sample(LOOKS, every=3), ids=str)
async def test_axe_finds_nothing(browser: Browser, look: tuple[int, int, str]) -> None:
    """In both languages, at notches of an order, of a crash and of a long conversation."""
    size = look[:2]
    async with window(browser, size=size, dark=look[2] == "dark") as shown:
        for language in ("en", "fa"):
            await shown.page.run(f"localStorage.setItem('triobot-language', '{language}')")
            await shown.page.reload()
            await shown.page.has(".thread" if size == SCREEN else ".chat-item")
            for told, notch in ((pizza(), 6), (pizza(), 12), (crashed(), 18), (long(300), 200)):
                await travel(shown, told, notch=notch)
                await shown.page.has(".line.lit" if size[0] > 700 else ".then .now, .crash-card")
                assert await complaints(shown.page) == []
                await shown.page.press("Escape")
                await shown.page.lacks(".travel:not([hidden])")


async def complaints(page: Page, within: str = ".travel") -> list[str]:
    """Return the faults that axe finds in `within`."""
    await page.run(f"void ((module) => {{ {AXE.read_text('utf-8')} }})()")
    found = await page.run(f"axe.run('{within}').then(({{violations}}) => violations)")
    return [
        f"{one['id']}: {node['html'][:120]} {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]
