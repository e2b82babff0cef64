"""A chat as a test: what its person did, and what the bot showed, as a program for `triobot.testing`.

Everything that somebody wrote goes through `repr`: a text can't become code. Pure.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, final

import attrs

from ..base.frozen import guarded
from ..wire.content import Contact, Content, Location, Media
from ..wire.events import BESIDE
from ..wire.ids import SenderId
from ..wire.markup import SHARE_CONTACT, SHARE_LOCATION
from .chats import Edited, PlatformChat, PressAnswered, Shown
from .world import ImpossibleActError, User, World

KEPT: Final = 2_000
_TAKEN: Final = frozenset({"world", "drive", "bot", "autojump_clock", "test"})
# What a payment's end is told with.
ENDS: Final = ("code", "taken", "amount")


@final
@guarded
class PersonAct:
    """What a person did through the control API.

    Attributes:
        after: the number of the newest change before it.
        wallet: what was in the wallet before it.
    """

    after: int
    user_id: SenderId
    name: str
    given: Mapping[str, object] = attrs.field(repr=False)
    wallet: Mapping[str, int] = attrs.field(repr=False)


def write_test(world: World, diary: Sequence[PersonAct], chat: PlatformChat, target: str) -> str:
    """Write the program; `target` is the bot's ``MODULE:BOT``, or empty if it isn't known.

    Raises:
        ImpossibleActError: the chat is a group, or no act in it is still known.
    """
    user = next((user for user in world.people if user.chat_id == chat.id), None)
    if user is None:
        raise ImpossibleActError("only a private chat can be written down as a test")
    mine = [done for done in diary if done.user_id == user.id and done.given.get("chat", chat.id) == chat.id]
    if not mine:
        raise ImpossibleActError("nothing was done in this chat yet that could be written down")
    who = variable_of(user.name)
    steps: list[tuple[int, int, str]] = []
    for done in mine:
        steps += ((done.after, 1, f"{who}.{act}") for act in _acts(done))
    for change in world.changes(mine[0].after):
        if change.what.chat_id == chat.id and (seen := _seen(change.what, user)) is not None:
            steps.append((change.seq, 0, f"{who}.{seen}"))
    lines = [step for _, _, step in sorted(steps, key=lambda step: step[:2])]
    start = mine[0].wallet
    wallet = f", wallet={start['IRR']}" if start["IRR"] else ""
    coin = f", coin={start['coin']}" if start["coin"] else ""
    body = [f"{who} = world.user({user.name!r}{wallet}{coin})", *(f"await {line}" for line in lines)]
    return "\n".join((*_head(lines, target, who), *(f"        {line}" for line in body), ""))


def _head(lines: Sequence[str], target: str, who: str) -> Iterator[str]:
    module, name = module_of(target)
    kinds = ("Audio", "Contact", "File", "Image", "Location", "Video", "Voice")
    used = [kind for kind in kinds if any(f"({kind}" in line for line in lines)]
    yield '"""Written down from a chat under triobot dev."""'
    yield ""
    if used:
        yield f"from triobot import {', '.join(used)}"
    yield "from triobot.testing import drive"
    yield ""
    yield f"from {module} import {name}"
    yield ""
    yield ""
    yield f"async def test_{who}(autojump_clock: object) -> None:"
    yield f"    async with drive({name}) as world:"


def module_of(target: str) -> tuple[str, str]:
    """Return from which module what is to be imported, by ``MODULE:BOT``."""
    place, _, name = target.rpartition(":")
    module = PurePath(place).stem if place.endswith(".py") else place
    known = module and all(part.isidentifier() for part in module.split("."))
    return (module if known else "bot"), (name if name.isidentifier() else "bot")


def variable_of(name: str) -> str:
    """Return a name for a person's variable."""
    lowered = name.casefold()
    # Names of other letters would be identifiers, too, but not ones that everybody can type.
    usable = lowered.isidentifier() and lowered.isascii() and not keyword.iskeyword(lowered)
    return lowered if usable and lowered not in _TAKEN else "person"


def _acts(done: PersonAct) -> Iterator[str]:
    given = done.given
    match done.name:
        case "join":
            yield "joins()"
        case "leave":
            yield "leaves()"
        case "say":
            more = "".join(f", {name}={given[name]!r}" for name in BESIDE if name in given)
            yield f"says({given['text']!r}{more})"
        case "press":
            times = f", times={given['times']!r}" if given.get("times", 1) != 1 else ""
            yield f"presses({given['label']!r}{times})"
        case "tap" if given["value"] == SHARE_CONTACT:
            yield "shares_contact()"
        case "tap" if given["value"] == SHARE_LOCATION:
            yield _place(given)
        case "tap":
            yield f"presses({given['label']!r})"
        case "share-contact":
            yield (
                f"says(Contact({given['phone']!r}, {given.get('name') or ''!r}))"
                if given.get("phone")
                else "shares_contact()"
            )
        case "share-location":
            yield _place(given)
        case "submit":
            yield f"submits({given.get('values', {})!r})"
        case "media":
            kind = str(given["kind"]).capitalize()
            data = f"the bytes of {given['filename']}".encode()
            yield f"says({kind}.from_bytes({data!r}, {given['filename']!r}, {given.get('caption') or ''!r}))"
        case "pay":
            ends = [f"{end}={given[end]!r}" for end in ENDS if given.get(end)]
            by_invoice = "invoice" in given or "newest_invoice" in given
            first = ["invoice=True"] if by_invoice else [repr(given["label"])] if given.get("label") else []
            yield f"pays({', '.join((*first, *ends))})"
        case "top-up":
            amounts = (("irr", given.get("IRR")), ("coin", given.get("coin")))
            yield f"tops_up({', '.join(f'{name}={amount!r}' for name, amount in amounts if amount)})"
        case _:
            pass


def _place(given: Mapping[str, object]) -> str:
    if given.get("lat") is None:
        return "shares_location()"
    return f"says(Location({given['lat']!r}, {given['long']!r}, {given.get('desc') or ''!r}))"


def _seen(what: object, user: User) -> str | None:
    match what:
        case Shown(entry=entry) | Edited(entry=entry, anew=True) if entry.author is None:
            return f"sees({expected_of(entry.content)})"
        case PressAnswered(user_id=user.id, reply=reply) if reply.text:
            return f"sees_answer({reply.text!r})"
        case _:
            return None


def expected_of(content: Content) -> str:
    """Return what `Person.sees` is given for this content."""
    match content:
        case str():
            return repr(content)
        case Contact() | Location():
            return type(content).__name__
        case Media(caption=caption):
            return repr(caption) if caption else type(content).__name__
