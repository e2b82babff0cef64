"""Widgets for fixed choices: yes or no, stars, a long list, several of a list, a tree."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Generic, TypeVar, final

import attrs

from triobot import Buttons, Chat, Sent, recorded
from triobot.errors import ConfigError, LocalProtocolError

from ..base.frozen import guarded

K = TypeVar("K", bound=Hashable)
K_co = TypeVar("K_co", covariant=True, bound=Hashable)


async def confirm(
    chat: Chat,
    question: str,
    *,
    yes: str = "Yes",
    no: str = "No",
    into: Sent | None = None,
    by: int | None = None,
) -> bool:
    """Ask for yes or no, with two buttons side by side.

    Args:
        into, by: as for `Chat.choose`.

    Examples:
        >>> async def leave(chat: Chat) -> None:
        ...     if await confirm(chat, "Delete everything?", yes="Delete", no="Keep"):
        ...         await chat.send("Deleted.")
    """
    return await chat.choose(question, Buttons({True: yes, False: no}, columns=2), into=into, by=by)


async def rating(
    chat: Chat,
    question: str,
    *,
    most: int = 5,
    symbol: str = "★",
    into: Sent | None = None,
    by: int | None = None,
) -> int:
    """Ask for a number of stars, from 1 to `most`, in one row.

    Args:
        into, by: as for `Chat.choose`.

    Examples:
        >>> async def judge(chat: Chat) -> None:
        ...     stars = await rating(chat, "How was the pizza?")
        ...     await chat.send("★" * stars)
    """
    if most < 1:
        raise LocalProtocolError("most", "must be at least 1")
    stars = Buttons({number: f"{number} {symbol}" for number in range(1, most + 1)}, columns=most)
    return await chat.choose(question, stars, into=into, by=by)


@final
@recorded(name="triobot.widgets.page")
@guarded
class OtherPage:
    """Key of a button that shows the page `by` pages later."""

    by: int


async def pager(
    chat: Chat,
    question: str,
    options: Mapping[K, str],
    *,
    size: int = 8,
    columns: int = 1,
    into: Sent | None = None,
    by: int | None = None,
) -> K:
    """Ask for one of many options: `size` options at a time, with buttons to turn the page.

    Args:
        options: labels by key, in order; must be the same after a restart, like all values between
            operations.
        columns: number of options in a row.
        into, by: as for `Chat.choose`.

    Examples:
        >>> async def ask_town(chat: Chat) -> None:
        ...     town = await pager(chat, "Where do you live?", {"thr": "Tehran", "ifn": "Isfahan"})
        ...     await chat.send(town)
    """
    if size < 1:
        raise LocalProtocolError("size", "must be at least 1")
    if not options:
        raise LocalProtocolError("options", "a choice needs at least one option")
    keys, first = list(options), 0
    with chat.board(into=into, by=by) as board:
        while True:
            page = Buttons({key: options[key] for key in keys[first : first + size]}, columns)
            turns = {OtherPage(-1): "«"} if first else {}
            if first + size < len(keys):
                turns[OtherPage(1)] = "»"
            rows = page + Buttons(turns, columns=2)
            match await board.choose(question, rows):
                case OtherPage(by=pages):
                    # Two quick taps may lead beyond the last page.
                    first = max(0, min(first + pages * size, (len(keys) - 1) // size * size))
                case key:
                    return key


@final
@recorded(name="triobot.widgets.done")
@guarded
class Done:
    """Key of the button that ends the selection."""


async def multi_select(
    chat: Chat,
    question: str,
    options: Mapping[K, str],
    *,
    chosen: Collection[K] = (),
    least: int = 0,
    most: int | None = None,
    done: str = "Done",
    columns: int = 1,
    into: Sent | None = None,
    by: int | None = None,
) -> Sequence[K]:
    """Ask for any number of options: each press ticks or unticks an option, until the last button is pressed.

    If fewer than `least` options are ticked, a press of the last button is answered, for example with ``≥
    2``, and the question stays open. If `most` options are ticked, a press of a further option is answered,
    for example with ``≤ 3``, and ticks nothing.

    Args:
        options: labels by key.
        chosen: options that are ticked at first.
        done: label of the last button.
        columns: number of options in a row.
        into, by: as for `Chat.choose`.

    Returns: the ticked options, in the order of `options`.

    Examples:
        >>> async def ask_toppings(chat: Chat) -> None:
        ...     toppings = await multi_select(chat, "On top?", {"c": "Cheese", "o": "Olives"}, most=2)
        ...     await chat.send(f"{len(toppings)} toppings.")
    """
    ticked = {key for key in options if key in chosen}
    highest = len(options) if most is None else most
    if not least <= min(highest, len(options)):
        raise LocalProtocolError("least", "must not be more than `most`, nor than there are options")
    with chat.board(into=into, by=by) as board:
        while True:
            labels = {key: f"{'☑' if key in ticked else '☐'} {label}" for key, label in options.items()}
            rows = Buttons(labels, columns) + Buttons({Done(): done})
            match await board.choose(question, rows):
                case Done():
                    if len(ticked) >= least:
                        return [key for key in options if key in ticked]
                    await chat.answer(f"≥ {least}")
                case key if key not in ticked and len(ticked) >= highest:
                    await chat.answer(f"≤ {highest}")
                case key:
                    ticked ^= {key}


@final
@guarded
class Menu(Generic[K_co]):
    """A menu in a tree of menus, for the function `menu`.

    Attributes:
        title: text of the message while the menu is open, and label of the button that opens the menu.
        options: options of this menu: labels by key. A key occurs only once in the whole tree.
        menus: submenus of this menu, with different titles.

    Raises:
        ConfigError: two of the menus have the same title.

    Examples:
        >>> drinks = Menu("Drinks", {"tea": "Tea", "dough": "Dough"})
        >>> card = Menu("What would you like?", {"bread": "Bread"}, [drinks])
    """

    title: str
    options: Mapping[K_co, str] = attrs.field(factory=dict[K_co, str])
    menus: Sequence[Menu[K_co]] = ()

    def __attrs_post_init__(self) -> None:
        if len({below.title for below in self.menus}) < len(self.menus):
            raise ConfigError(f"the Menu {self.title!r} has two menus of the same title; give each its own")


@final
@recorded(name="triobot.widgets.menu")
@guarded
class OtherMenu:
    """Key of a button that opens another menu.

    Attributes:
        path: titles from the root to the menu; empty for the menu above the open menu.
    """

    path: tuple[str, ...] = ()


async def menu(
    chat: Chat, root: Menu[K], *, back: str = "« Back", into: Sent | None = None, by: int | None = None
) -> K:
    """Ask for one option of a tree of menus, all in one message.

    Args:
        root: the menu that is open first. In every menu, the buttons of submenus come before the buttons of
            options.
        back: label of the button that leads back to the menu above.
        into, by: as for `Chat.choose`.

    Examples:
        >>> async def order(chat: Chat) -> None:
        ...     await chat.send(f"One {await menu(chat, card)}, please wait.")
    """
    if not (root.options or root.menus):
        raise LocalProtocolError("root", "needs options, or menus to open")
    path: tuple[str, ...] = ()
    with chat.board(into=into, by=by) as board:
        while True:
            here = root
            for title in path:
                here = next(one for one in here.menus if one.title == title)
            rows = Buttons({OtherMenu((*path, one.title)): one.title for one in here.menus})
            above = Buttons({OtherMenu(): back} if path else {})
            match await board.choose(here.title, rows + Buttons(here.options) + above):
                case OtherMenu(path=opened):
                    path = opened or path[:-1]
                case key:
                    return key
