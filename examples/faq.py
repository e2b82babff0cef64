"""A menu-driven FAQ; its admins edit it from their chats. The pages are the bot's own data."""

import attrs

from triobot import Bot, Buttons, Chat, Command, Content, Key, Router
from triobot.filters import command, join, kept, message

bot = Bot()
PASSWORD = "let me in"
ADMIN = Key("admin", bool, default=False)  # a chat's


@attrs.frozen
class Page:
    title: str
    answer: Content
    children: tuple[str, ...] = ()


HOME = Page("Help", "What do you want to know?")
PAGES = Key("pages", dict[str, Page], default={"home": HOME})  # the bot's
admin = Router(when=kept(ADMIN))


def without(pages: dict[str, Page], name: str) -> dict[str, Page]:
    return {key: page for key, page in pages.items() if key != name}


def edited(pages: dict[str, Page], name: str, title: str | None, answer: Content | None) -> dict[str, Page]:
    page = pages.get(name, HOME)
    return {**pages, name: attrs.evolve(page, title=title or page.title, answer=answer or page.answer)}


def grown(pages: dict[str, Page], parent: str, name: str, page: Page) -> dict[str, Page]:
    above = pages.get(parent, HOME)
    return {**pages, name: page, parent: attrs.evolve(above, children=(*above.children, name))}


async def walk(chat: Chat, *, pick: bool = False) -> str:
    path, shown = ["home"], await chat.send("…")
    while True:
        pages = await chat.shared.get(PAGES)
        here = pages.get(path[-1], HOME)
        rows = Buttons({name: pages[name].title for name in here.children if name in pages})
        rows += Buttons({"/this": "This one"} if pick else {})
        rows += Buttons({"/back": "« Back"} if len(path) > 1 else {})
        if not rows:
            return path[-1]
        if not isinstance(here.answer, str):
            await chat.send(here.answer)
        match await chat.choose(
            here.answer if isinstance(here.answer, str) else here.title, rows, into=shown
        ):
            case "/back":
                path.pop()
            case "/this":
                return path[-1]
            case name:
                path.append(name)


@admin.conversation(command("edit"))
async def edit(chat: Chat) -> None:
    name = await walk(chat, pick=True)
    match await chat.choose(
        "And?", {"answer": "New answer", "title": "New title", "add": "Add below", "delete": "Delete"}
    ):
        case "answer":
            new = (await chat.receive(message(), otherwise="Send text, a picture, a file.")).content
            await chat.shared.update(PAGES, edited, name, None, new)
        case "title":
            await chat.shared.update(PAGES, edited, name, await chat.ask("The title?"), None)
        case "add":
            page = Page(await chat.ask("The title?"), await chat.ask("The answer?"))
            await chat.shared.update(PAGES, grown, name, str(chat.uuid()), page)
        case _:
            await chat.shared.update(PAGES, without, name)
    await chat.send("Saved.")


@bot.aside(command("admin"))
async def sign_in(chat: Chat[Command]) -> None:
    chat.data[ADMIN] = chat.event.rest == PASSWORD
    await chat.send("/edit edits." if chat.data[ADMIN] else "No.")


bot.include(admin)


@bot.conversation(join() | command("start", "help"))
async def help(chat: Chat) -> None:
    await walk(chat)


if __name__ == "__main__":
    bot.run()
