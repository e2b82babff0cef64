"""A change of a bot's modules, deployed under everybody who stands at a question: in the runtime itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs
import pytest
from doubles import FakeOutbox, FakeStore
from town import ALI, Town, open_town
from trio import sleep

from tests.exact.changes import Change
from tests.exact.small import Loaded
from triobot.conversations.inspection.rerun import dry_services, open_rerun
from triobot.conversations.revival import code as code_module
from triobot.conversations.revival.changed import Changed, comparison_with
from triobot.conversations.revival.code import Code
from triobot.conversations.revival.stored import read_stored, why_unfit
from triobot.conversations.routes.router import Router, Table, table_of
from triobot.exact.verdicts import Parting
from triobot.filters import paid, text
from triobot.seams.journals import ConversationRow
from triobot.wire.ids import ChatId
from triobot.wire.markup import CallbackButton, PayButton
from triobot.wire.operations import PaymentState, VerifyPayment


def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the deployed modules be all of the author's: the tests say the same words."""
    monkeypatch.setattr(code_module, "loaded_modules", lambda: iter(Loaded.newest))


PRELUDE = "from triobot.filters import text\nclass kept: pass\n"
TOGETHER = """async with {0}.open_nursery() as nursery:
        nursery.start_soon({1}, {0})
        nursery.start_soon({2}, {0})"""


@attrs.frozen
class Deployed:
    """What became of somebody: what a dry run says, how the two sides part, and whether they are parked.

    Attributes:
        said: what the bot said after the deploy.
    """

    verdict: str
    parting: Parting | str | None
    parked: bool
    said: Sequence[object]


def as_bot(files: Mapping[str, str]) -> Mapping[str, str]:
    """Write modules for the runtime: what the small one has is called otherwise here."""
    return {name: _as_module(source) for name, source in files.items()}


def _as_module(source: str) -> str:
    source = re.sub(r"\b(chat|c)\.(name|city|size|order) = ", r"kept.\2 = ", source)
    source = source.replace("chat.receive()", "chat.receive(text())")
    source = re.sub(r"await (\w+)\.together\((\w+), (\w+)\)", lambda m: TOGETHER.format(*m.groups()), source)
    return PRELUDE + source


def router_of(loaded: Loaded, change: Change, *, now: bool = False) -> Router:
    """Declare the route, as the present build does, with its former name."""
    router, former = Router(), change.route
    name = change.formerly.get(former, former) if now else former
    if (function := loaded.find(name)) is not None:
        formerly = (former,) if name != former else ()
        router.conversation(text(), name=name, formerly=formerly)(function)
    else:
        router.conversation(text(), name="nobody")(_nobody)
    if (hook := loaded.find("shop.around")) is not None:
        router.around(hook)
    if (give := loaded.find("shop.give")) is not None:
        router.aside(paid(int))(give)
    return router


async def _nobody(chat: object) -> None:
    raise AssertionError("nobody comes here")


async def deploy(change: Change) -> Sequence[Deployed]:
    """Have people stand at each question, deploy the change, and have each answer what is next."""
    store, outbox = FakeStore(), FakeOutbox()
    answers = change.answers
    people = [ChatId(10 + stand) for stand in range(len(change.expect))]
    old = Loaded(as_bot(change.old), with_source=change.with_source)
    async with _town(router_of(old, change), store, outbox) as town:
        for stand, chat in enumerate(people):
            await town.says("hi", chat)
            for answer in answers[:stand]:
                await _answer(town, chat, answer)
    if change.between is not None:
        source, more = change.between
        middle = Loaded(as_bot({"shop": source}))
        async with _town(router_of(middle, change), store, outbox) as town:
            for chat in people:
                for answer in more:
                    await _answer(town, chat, answer)
    for function, was, now in change.accepted:
        await accept(store, function, was, now)
    new = Loaded(as_bot(change.new), with_source=change.with_source)
    router = router_of(new, change, now=True)
    table = table_of(router)
    rows = [await store.conversations(chat) for chat in people]
    people = [
        chat for chat, found in zip(people, rows, strict=True) if found
    ]  # who stands at none is through
    told = [await verdict_of(store, table, found[0]) for found in rows if found]
    before = [len(town.sent(chat)) for chat in people]
    async with _town(router, store, outbox) as town:
        for stand, chat in enumerate(people):
            await _answer(town, chat, [*answers, "x", "x"][stand + len((change.between or ("", ()))[1])])
        await sleep(1)
        rows = [await store.conversations(chat) for chat in people]
        parked = [bool(found and found[0].parked_because) for found in rows]
        said = [town.sent(chat)[many:] for chat, many in zip(people, before, strict=True)]
    return [Deployed(*one, *rest) for one, *rest in zip(told, parked, said, strict=True)]


def _town(router: Router, store: FakeStore, outbox: FakeOutbox) -> object:
    return open_town(router, store=store, outbox=outbox, code=True)


async def accept(store: FakeStore, function: str, was: str, now: str) -> None:
    from triobot.seams.journals import AcceptedChange

    await store.commit(AcceptedChange(function, was, now))


async def _answer(town: Town, chat: ChatId, answer: str) -> None:
    """Press the button of this key, pay what is asked, or write it."""
    if not town.messages(chat):
        await town.says(answer, chat)
        return
    keyboard = town.newest(chat).inline_keyboard
    rows = keyboard.rows if keyboard is not None else ()
    if any(isinstance(one, PayButton) for row in rows for one in row):
        town.outbox.reply(PaymentState(True, 50_000), lambda one: isinstance(one, VerifyPayment))
        await town.pays(chat)
        return
    buttons = [one for row in rows for one in row if isinstance(one, CallbackButton)]
    meant = (one.text for one in buttons if answer == one.text or one.data.endswith(f".s{answer}"))
    label = next(meant, None)
    if town.newest(chat).form is not None:
        await town.submits({"name": answer}, chat)
    elif label is not None:
        await town.presses(label, chat)
    else:
        await town.says(answer, chat, sender=ALI)


async def verdict_of(
    store: FakeStore, table: Table, row: ConversationRow
) -> tuple[str, Parting | str | None]:
    """What `triobot journal check` would say."""
    if (unfit := why_unfit(row, table)) is not None:
        return "P", unfit
    journal, known = await store.journal(row.id), await store.code.all()
    assert journal is not None
    stored, code = read_stored(journal), Code(table)
    comparison = comparison_with(code.sites, code.formerly, known)
    changed = Changed(comparison, row, stored.records)
    services = dry_services(_texts(), {}, row.updated_at, ())
    async with open_rerun(services, table, stored, changed=changed) as rerun:
        found, failures = rerun.divergence, rerun.failures
    if found is not None:
        return "P", found.parting or found.what
    if failures:
        return "P", f"it fails: {failures}"
    return ("A" if changed.again else "R" if changed.judge.reworded else "S"), None


def _texts() -> object:
    from triobot.conversations.texts import Texts

    return Texts.english()
