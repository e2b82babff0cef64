"""Time travel under ``triobot dev``: what really happened, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from chrome import Browser, Page
from test_browser_dev import developing, says, sees
from test_browser_order import kill
from test_browser_travel import AXE, complaints
from window import needs_browser

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

TRAVEL = "Go through what happened in this chat"
LIT = "(document.querySelector('.line.lit .line-text')?.textContent ?? '')"
WORDS = "(document.querySelector('.notch-words b')?.textContent.replace(/[\\u2068\\u2069]/g, '') ?? '')"
LINES = (
    "[...document.querySelectorAll('.thread .line')]"
    ".map((one) => one.textContent.replace(/[\\u2068\\u2069]/g, '').trim())"
)
RAN = "[...document.querySelectorAll('.line.ran')].map((one) => one.dataset.line).join()"
FLOOR = "[...document.querySelectorAll('.native-form')].at(-1).querySelector('input[name=floor]')"


async def fills(page: Page, floor: str, *, forms: int) -> None:
    """Wait for `forms` forms, fill in the newest one, and send this form."""
    await page.has(".native-form", times=forms)
    await page.click(".native-form input[name=floor]", nth=-1)
    await page.run(f"{FLOOR}.select()")
    if floor:
        await page.type(floor)
    await page.click(".submit")


async def orders(page: Page, name: str) -> None:
    """Make an order, up to the form."""
    await sees(page, "Your name?")
    await says(page, name)
    await sees(page, "Size?")
    await page.click(".inline-button", "Large")
    await sees(page, "Where to?")
    await page.click(".composer .icon-button", nth=0)
    await page.click(".menu button", "Location")
    await page.click(".sheet .primary")
    await page.sees("How do we find you?")


async def story(page: Page) -> list[str]:
    """Return each notch's description, from the first notch to the last, by the arrow key."""
    await page.press("Home")
    last = int(await page.run("document.querySelector('.travel input[type=range]').max"))
    told: list[str] = []
    for n in range(last + 1):
        await page.wait(
            "document.querySelector('.travel input[type=range]').getAttribute('aria-valuetext')"
            f".startsWith('Notch {n} of {last},')"
        )
        told.append(await page.run(WORDS))
        await page.press("ArrowRight")
    return told


@pytest.mark.slow
async def test_an_order_with_failed_forms_a_kill_a_timeout_and_a_payment(
    browser: Browser, tmp_path: Path
) -> None:
    """Read each notch while the conversation waits; then the conversation continues as usual."""
    source = tmp_path / "pizza.py"
    async with developing(browser, tmp_path, "pizza", join=False) as page:
        # Change the bot: after a timeout the order restarts, and after a payment the bot asks again.
        text = source.read_text()
        late = '        await chat.send("Too slow, come back any time.")\n'
        paid = '            await chat.charge(size.value, title, item=order, late="refund")\n'
        size = "    size = await chat.choose("
        hello = '    said = await chat.send("Hello")\n    await chat.edit(said, f"Hello, {name}")\n'
        assert late in text and paid in text and size in text
        text = text.replace(late, f"{late}        await pizza(chat)\n").replace(size, f"{hello}{size}")
        source.write_text(text.replace(paid, f'{paid}            await chat.ask("Anything else?")\n'))
        await page.run("void (window.world = load('world.js').world)")
        await page.wait("window.world.bot?.starts === 2 && window.world.bot.phase === 'running'")
        await page.click(".join")
        await orders(page, "Sara")
        await page.type("Ahmadi", selector=".native-form input[name=doorbell]")
        await fills(page, "", forms=1)
        await page.sees("Floor: please fill this in.")
        await fills(page, "second", forms=2)
        await page.sees("Floor: please enter a whole number.")
        await kill(page)
        await page.push("button", "+10 minutes")
        await page.sees("Too slow, come back any time.", within=".bubble")
        await orders(page, "Sara again")
        await page.has(".native-form", times=4)
        await page.click(".native-form input[name=doorbell]", nth=-1)
        await page.type("Ahmadi")
        await fills(page, "3", forms=4)
        await page.click(".inline-button.pay", "Pay")
        await page.click(".payment [type=submit]")
        await page.sees("Anything else?", within=".bubble")
        await page.has(".line:has-text('The bot took')")
        done = await page.run(LINES)
        await page.reload()
        await page.has(".thread .line", times=len(done))
        assert await page.run(LINES) == done

        await page.push("button", TRAVEL)
        # The aside that delivered the pizza has ended: the page opens the conversation without asking.
        await page.finds("slider", "Time line")
        await page.finds("combobox", "Which conversation?")
        await page.wait(f"{LIT}.includes('Anything else?')")
        told = await story(page)
        assert [line for line in told if line.startswith(("Sara", "The conv", "The time"))] == [
            "The conversation begins: Sara joined",
            "Sara wrote “Sara”",
            "Sara pressed “Large”",
            "Sara sent: Location, Tehran",
            "Sara sent the form: Ahmadi · empty",
            "Sara sent the form: Ahmadi · second",
            "The time was up",
            "Sara wrote “Sara again”",
            "Sara pressed “Large”",
            "Sara sent: Location, Tehran",
            "Sara sent the form: Ahmadi · 3",
            "Sara paid 250,000 rials",
        ]
        assert "The bot took 250,000 rials" in told
        assert told[-1] == "Sent: “Anything else?”"
        await page.has(".mark.kill")
        await page.has(".notch.time")
        await page.has(".notch.money")
        # The second round is a call within the first: each frame has its own variables.
        await page.click(".code-stack button", nth=0)
        await page.sees("'Sara'", within=".variables")
        # The variables are the same before and after the kill.
        await page.push("button", "Floor: please enter a whole number.")
        await page.wait(f"{LIT}.includes('chat.fill(')")
        await page.sees("Size.LARGE", within=".variables")
        await page.sees("left", within=".value-card")
        # Lines between messages have the same words in the time travel and in the chat, with links both ways.
        then = await page.run(f"{LINES}.concat({LINES.replace('.thread .line', '.then-act')})")
        assert [line for line in then[len(done) :] if line in done] == done
        await page.press("Escape")
        await page.click(".thread .line:has-text(' paid ')")
        await page.wait(f"{WORDS} === 'Sara paid 250,000 rials'")
        await page.push("button", "The event’s request")
        await page.sees("payCallback", within=".call.unfolded")
        await page.click(".call.unfolded .chip:has(.icon-travel)")
        await page.wait(f"{WORDS} === 'Sara paid 250,000 rials'")
        await page.press("Escape")
        # The request of an edit leads to the time travel, too.
        edit = ":has-text('editMessage'):has-text('Hello, Sara again')"
        await page.click(f".call-head{edit}")
        await page.click(f".call.unfolded{edit} .chip:has(.icon-travel)")
        await page.wait(f"{LIT}.includes('chat.edit(')")
        await page.click("#travel-values .chip:has-text('Its request')")
        await page.wait("document.activeElement.textContent.includes('editMessage')")
        await says(page, "No")
        await page.sees("No", within=".mine .bubble")


@pytest.mark.slow
async def test_bubble_request_record_and_line_lead_to_one_another(browser: Browser, tmp_path: Path) -> None:
    async with developing(browser, tmp_path, "pizza") as page:
        await orders(page, "Sara")
        # From a bubble to the record and the code line,
        await page.click(".row.theirs:has-text('Size?') .where-sent")
        await page.wait(f"{LIT}.includes('chat.choose(')")
        await page.sees("receive · #2 · message", within=".value-card")
        # from the record to the request,
        await page.push("button", "Its request")
        await page.lacks(".travel:not([hidden])")
        await page.has(".call.unfolded", times=1)
        await page.sees("Size?", within=".call.unfolded")
        # and from the request to the code line.
        await page.click(".call.unfolded .chip:has(.icon-travel)")
        await page.wait(f"{LIT}.includes('chat.choose(')")
        await page.press("Escape")
        # A person's message leads to the code line that received the message, and to the request.
        await page.click(".row.mine .where-sent", nth=0)
        await page.wait(f"{WORDS} === 'Sara wrote “Sara”'")
        # The lines that ran when the name came, and in the turn before.
        await page.press("p")
        lines = (tmp_path / "pizza.py").read_text().splitlines()
        first, second = (
            1 + lines.index(line) for line in lines if 'chat.ask("Your' in line or "choose(" in line
        )
        await page.wait(f"{RAN} === '{first},{second}'")
        await page.sees(f"Ran in this turn: {first}–{second}", within=".path-words")
        await page.press("ArrowLeft")
        await page.wait(f"{RAN} === '{first}'")
        await page.push("button", "Path of the turn", exact=True)
        await page.wait(f"{RAN} === ''")
        await page.press("Escape")
        await page.click(".thread .line:has-text('pressed')")
        await page.wait(f"{WORDS} === 'Sara pressed “Large”'")
        await page.push("button", "The event’s request")
        await page.sees("triggerButton", within=".call.unfolded")
        # The panel "Inside" shows the current code line, and opens the time travel.
        await page.click(".rail .tab[data-panel=inside]")
        await page.sees("chat.fill(", within=".inside-conversation .innermost")
        await page.click(".inside-conversation .icon-button:has(.icon-travel)")
        await page.finds("slider", "Time line")


@pytest.mark.slow
async def test_a_crash_is_looked_at_from_its_chat(browser: Browser, tmp_path: Path) -> None:
    """After the file is mended, the next run succeeds."""
    source = tmp_path / "pizza.py"
    async with developing(browser, tmp_path, "pizza") as page:
        good = source.read_text()
        bad = good.replace("title, order = f", "title, order = [] + f")
        await orders(page, "Sara")
        source.write_text(bad)
        await page.run("void (window.world = load('world.js').world)")
        await page.wait("window.world.bot?.starts === 2 && window.world.bot.phase === 'running'")
        await page.type("Ahmadi", selector=".native-form input[name=doorbell]")
        await fills(page, "3", forms=1)
        await page.sees("failed here.", within=".standing")
        await page.push("button", "Look at it")
        await page.sees("TypeError: can only concatenate list", within=".crash-card")
        await page.wait(f"{LIT}.includes('title, order = [] + f')")
        await page.sees("Details(floor=3, doorbell='Ahmadi', cutlery=False)", within=".variables")
        # While the file can't be imported, the time travel shows the code that ran.
        source.write_text(bad.replace("class Size(Enum):", "class Size(Enum)"))
        await page.sees("SyntaxError", within=".travel-banner")
        await page.wait(f"{LIT}.includes('title, order = [] + f')")
        await page.press("Escape")


@pytest.mark.slow
async def test_where_new_code_parts_from_a_chat(browser: Browser, tmp_path: Path) -> None:
    """A line is added before a question: the page marks the last fitting notch, and shows both lines."""
    source = tmp_path / "pizza.py"
    async with developing(browser, tmp_path, "pizza") as page:
        await orders(page, "Sara")
        line = '    where = await chat.ask("Where to?", Location)'
        source.write_text(source.read_text().replace(line, f"    await chat.sleep(1)\n{line}"))
        await page.run("void (window.world = load('world.js').world)")
        await page.wait("window.world.lines.some((line) => line.includes('the reload is held'))")
        # First while the bot runs the old code, then with the new code and a parked chat.
        await page.push("button", TRAVEL)
        await page.sees("The code parts from this chat here", within=".parting")
        await page.sees("chat.sleep(1)", within=".parting pre")
        # The time travel has all notches: the build of that time runs again.
        await page.sees("Ran under the code of", within=".travel-head")
        told = await story(page)
        assert told[0] == "The conversation begins: Sara joined"
        await page.press("Escape")
        await page.run("void load('link.js').act('bot/restart')")
        await page.wait("window.world.bot?.starts === 2 && window.world.bot.phase === 'running'")
        await page.type("Ahmadi", selector=".native-form input[name=doorbell]")
        await fills(page, "3", forms=1)
        await page.sees("is parked", within=".standing")
        await page.push("button", "Look at it")
        await page.sees("The code parts from this chat here", within=".parting")
        await page.press("Escape")


LANES = """\
from triobot import Bot, Chat, Paid
from triobot.filters import command, paid, text

bot = Bot()


@bot.conversation(command("start"))
async def order(chat: Chat) -> None:
    size = await chat.ask("Size?")
    await chat.charge(5_000, "Tea", item=1, late="refund")
    await chat.ask(f"Well, {size}?")


@bot.aside(text("help"))
async def tell(chat: Chat) -> None:
    await chat.send("Ask.")


@bot.aside(paid(int))
async def give(chat: Chat[Paid[int]]) -> None:
    pass


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Cancelled.")
"""
AT_NOTCH = "document.querySelector('.notch-words b')?.textContent.replace(/[\\u2068\\u2069]/g, '') ?? ''"


@pytest.mark.slow
async def test_the_whole_chat_on_one_time_line(browser: Browser, tmp_path: Path) -> None:
    """A lane for each conversation, aside and interrupt; a lane for unreceived acts and payments."""
    async with developing(browser, tmp_path, "echo", source=LANES) as page:
        await says(page, "Hello?")  # like the join: received by no conversation
        await says(page, "/start")
        await sees(page, "Size?")
        await says(page, "help")
        await sees(page, "Ask.")
        await says(page, "Large")
        await page.click(".inline-button.pay")
        await page.click(".payment [type=submit]")
        await page.sees("Well, Large?", within=".bubble")
        await says(page, "/cancel")
        await sees(page, "Cancelled.")
        await page.click(".row.mine .where-sent")
        await page.has(".lanes li", times=5)
        names = "[...document.querySelectorAll('.lanes li > :first-child')].map((one) => one.innerText)"
        told = [name.replace("\u2068", "").replace("\u2069", "") for name in await page.run(names)]
        assert [name.split()[0] for name in told] == ["order", "tell", "give", "cancel", "besides"]
        await page.has(".lane-dot.loose", times=2)
        await page.has(".lane-dot.money", times=1)
        await page.has(".lanes li:nth-child(1) .lane-dot", times=2)  # /start, and its size
        assert "Hello?" in await page.run("[...document.querySelectorAll('.loose')].at(-1).title")
        if AXE.exists():
            assert await complaints(page, "body") == []
        # From an event to the conversation that received the event,
        await page.click(".lanes li:nth-child(2) .lane-dot")
        await page.sees("Ask.", within=".line.lit")
        await page.click(".lane-dot.money")
        await page.wait(f"({AT_NOTCH}).includes('paid 5,000 rials')")
        await page.sees("chat.charge(", within=".line.lit")
        # and within the shown conversation to the event's notch.
        await page.click(".lanes li:nth-child(1) .lane-dot", nth=1)
        await page.wait(f"({AT_NOTCH}).includes('Large')")
        # Before the payment, a charge is only a button.
        await page.press("ArrowRight")
        await page.wait(f"({AT_NOTCH}) === 'The charge was written down, and its button was sent'")
        # The project's own terms have a hint.
        for place, hint in (
            (".notch-words .faint[title]", "A notch is one turn"),
            (".lanes li:nth-child(2) button", "An aside runs beside"),
            (".lanes li:nth-child(4) button", "An interrupt ends the conversation"),
        ):
            assert (await page.run(f"document.querySelector('{place}').title")).startswith(hint)
        await page.push("button", "cancel")
        await page.sees("Cancelled.", within=".line.lit")


FILES = """\
from triobot import Bot, Chat
from triobot.filters import command

import prices

bot = Bot()


@bot.conversation(command("buy"))
async def buy(chat: Chat) -> None:
    name = await prices.asked(chat)
    cost = prices.of(name)
    await chat.ask(f"{name} costs {cost}. Here?")
    await chat.step(prices.booked, name)
"""
PRICES = """\
from triobot import Chat

TABLE = {"tea": 5}


async def asked(chat: Chat) -> str:
    return await chat.ask("What?")


def of(name: str) -> int:
    found = TABLE[name]
    return found


async def booked(name: str) -> None:
    raise LookupError(name)
"""
SHOWN = "(document.querySelector('.code')?.getAttribute('aria-label') ?? '')"
EDITOR = "(document.querySelector('.editor a')?.getAttribute('href') ?? '')"


@pytest.mark.slow
async def test_a_line_of_a_second_file_is_reached(browser: Browser, tmp_path: Path) -> None:
    """From a notch that ran the line, from a crash, from a mended crash, and from a step."""
    helper = tmp_path / "prices.py"
    helper.write_text(PRICES)

    async def shows(page: Page, line: str) -> None:
        await page.wait(f"{LIT}.includes('{line}') && {SHOWN}.includes('prices.py')")
        await page.wait(f"{EDITOR}.startsWith('vscode://file{helper}:')")

    async with developing(browser, tmp_path, "echo", source=FILES) as page:
        await page.run("localStorage.setItem('triobot-editor', 'vscode')")
        await page.run("void (window.world = load('world.js').world)")
        await says(page, "/buy")
        await sees(page, "What?")
        await says(page, "tea")
        await sees(page, "tea costs 5. Here?")
        await page.push("button", TRAVEL)
        await page.wait(f"{LIT}.includes('Here?')")
        await page.press("Shift+ArrowLeft")
        await page.press("p")
        await page.click(".path-words .chip:has-text('prices.py: 7')")
        await shows(page, 'return await chat.ask("What?")')
        await page.press("End")
        await page.press("Shift+ArrowLeft")
        await page.press("Shift+ArrowRight")
        await page.click(".path-words .chip:has-text('prices.py: 7, 11–12')")
        await shows(page, 'return await chat.ask("What?")')
        await page.click(".code-stack button", nth=0)
        await page.wait(f"{SHOWN}.includes('echo.py')")
        await page.press("Escape")

        await says(page, "yes")
        await page.sees("failed here.", within=".standing")
        await page.push("button", "Look at it")
        await page.push("button", "prices.py:16 · booked")
        await shows(page, "raise LookupError(name)")
        await page.press("Escape")

        await says(page, "/buy")
        await page.has(".theirs:has-text('What?')", times=2)
        await says(page, "coffee")
        await page.has(".theirs:has-text('Something went wrong here.')", times=2)
        await page.run("void (location.hash = '#c/13601/3')")
        await page.sees("KeyError: 'coffee'", within=".crash-card")
        await shows(page, "found = TABLE[name]")
        helper.write_text(PRICES.replace('"tea": 5', '"tea": 5, "coffee": 6'))
        await page.sees("fails no more", within=".travel-head")
        await page.press("ArrowLeft")
        await page.sees("with the present code it goes on", within=".parting.mended")
        await page.wait(f"{SHOWN}.includes('echo.py')")
        await page.push("button", "of()")
        await shows(page, "found = TABLE[name]")
