"""A bot whose buttons are in another order in each process, and one whose are not."""

from __future__ import annotations

from triobot import Bot, Chat

SIZES = ["small", "medium", "large", "huge"]

unordered = Bot()


@unordered.conversation
async def order(chat: Chat) -> None:
    sizes = {size for size in SIZES if size}
    size = await chat.choose("Size?", {size: size.title() for size in sizes})  # in any order
    await chat.send(f"{size}, thank you.")


ordered = Bot()


@ordered.conversation
async def sort(chat: Chat) -> None:
    sizes = {size for size in SIZES if size}
    size = await chat.choose("Size?", {size: size.title() for size in sorted(sizes)})
    await chat.send(f"{size}, thank you.")
