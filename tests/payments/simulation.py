"""Thousands of payments in virtual time, with everything that can go wrong, checked to the rial.

    python -m tests.payments.simulation --seeds 10000     many seeds, and what was seen
    python -m tests.payments.simulation --seed 1234       one again, as it was

Each seed is a world: a platform, people who pay, a shop that crashes at any write, callbacks that are lost,
doubled, reordered and forged, outages, restored backups, and operators. What decides is the real code. After
a day everything goes well for another, and then the books must be right.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import attrs

from tests.payments.planted_faults import FAULTS, Fault, planted
from tests.payments.simulated_platform import HOUR, MINUTE, Platform
from tests.payments.simulated_shop import Shop
from tests.payments.simulated_store import Second, Store
from tests.payments.simulated_time import Pause, Simulator
from triobot.emulator.bills import Bill
from triobot.payments.entry import Entry
from triobot.payments.facts import ClockSet, Fact, Plain
from triobot.payments.table import INDEX, TABLE

START = 1_700_000_000_000
TROUBLE = 10 * HOUR
SHARED = ("sweep_blind", "unwatched", "token_or_chat_refused", "foreign_payment")


@attrs.define
class Seen:
    """What a run showed; `outages` are those that last longer than the platform waits for a verify."""

    payments: int = 0
    granted: int = 0
    captured: int = 0
    refunded: int = 0
    crashes: int = 0
    restored: int = 0
    outages: int = 0
    asked: int = 0
    reached: Counter[tuple[str, str]] = attrs.field(factory=lambda: Counter[tuple[str, str]]())
    wrong: list[str] = attrs.field(factory=list[str])

    def add(self, other: Seen) -> None:
        for name in (
            "payments",
            "granted",
            "captured",
            "refunded",
            "crashes",
            "restored",
            "outages",
            "asked",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reached += other.reached
        self.wrong += other.wrong


def run(
    seed: int, *, history: bool = False, plant: Fault | None = None, second: Second | None = None
) -> Seen:
    """One world; with a fault planted in the code, to see that it is found; or beside a second store."""
    with planted(plant):
        return _run(seed, history=history, second=second)


def _run(seed: int, *, history: bool, second: Second | None) -> Seen:
    chance = random.Random(seed)
    simulator = Simulator(chance, START)
    platform = Platform(simulator, chance, START + TROUBLE)
    store = Store(simulator, chance)
    store.second = second
    shop = Shop(simulator, chance, platform, store)
    seen = Seen()
    for _ in range(chance.choice((0, 0, 1, 2))):
        since = START + chance.randrange(5 * HOUR)
        platform.outages.append((since, since + chance.choice((2 * MINUTE, 70 * MINUTE))))
    for _ in range(chance.choice((0, 0, 1, 3))):
        store.crash_at[chance.randrange(1, 120)] = chance.choice(("before", "after"))
    seen.crashes = len(store.crash_at)
    shop.boot()
    simulator.spawn(_people(simulator, chance, platform, shop), platform)
    simulator.spawn(platform.forges(lambda: shop.last_refs, START + TROUBLE), platform)
    if chance.random() < 0.2:
        simulator.spawn(shop.operates(START + TROUBLE), platform)
    if chance.random() < 0.15:
        after = chance.randrange(TROUBLE)
        said = (ClockSet(-1), ClockSet(0), Plain("stood_still"), Plain("parked"))[after % 4]
        simulator.spawn(_believes(shop, after, said), platform)
    if chance.random() < 0.15:
        simulator.spawn(_restores(simulator, chance, shop, seen), platform)
    simulator.run(START + TROUBLE + 48 * HOUR)
    if second is not None:
        second.check_all(store.money)
    seen.payments = len(shop.last_refs)
    seen.asked = platform.asked
    seen.outages = sum(until - since > HOUR for since, until in platform.outages)
    seen.reached = store.reached
    seen.wrong = [f"seed {seed}: {what}" for what in _wrong(simulator, platform, shop, seen)]
    if history:
        _tell(shop, platform)
    return seen


def _tell(shop: Shop, platform: Platform) -> None:
    """What happened to each payment, for whoever looks at one seed."""
    print(platform.world.switches)
    for entry in shop.entries():
        print(entry)
        for move in shop.store.money.history(entry.id):
            print(f"  {(move.at - START) / 60_000:9.3f}  {move.fact:20} {move.state}")
    for bill in platform.world.bills:
        print(bill)
    for grant in shop.grants:
        print(grant, (grant.at - START) / 60_000)


async def _people(simulator: Simulator, chance: random.Random, platform: Platform, shop: Shop) -> None:
    users = [platform.person(number) for number in range(2)]
    for number in range(chance.randrange(1, 5)):
        user = chance.choice(users)
        while not shop.ready:
            await Pause(MINUTE / 10)
        simulator.spawn(shop.sells(user, number), shop.process)
        simulator.spawn(platform.pays_now_and_then(user, chance.randrange(0, 4)), platform)
        await Pause(chance.choice((1, 5 * MINUTE, 90 * MINUTE)))


async def _restores(simulator: Simulator, chance: random.Random, shop: Shop, seen: Seen) -> None:
    if chance.random() < 0.5:
        await Pause(chance.randrange(1, 2 * HOUR))
        backup = shop.store.backup()
    else:
        # Between two writes, when everything is in the middle of something.
        shop.store.backup_at = shop.store.commits + chance.choice((1, 2, 3, 5, 8, 13, 21, 40))
        await Pause(HOUR)
        backup = shop.store.backup_made or shop.store.backup()
    await Pause(chance.randrange(1, 3 * HOUR))
    while not shop.ready:
        await Pause(MINUTE)
    shop.alive = shop.ready = False
    simulator.stop(shop.process)
    shop.store.restore(backup)
    shop.restored_at = simulator.time
    seen.restored += 1
    await Pause(MINUTE)
    shop.boot(restored=True)


async def _believes(shop: Shop, after: int, fact: Fact) -> None:
    """What follows when something is said of all payments, as often as that is believed."""
    await Pause(after)
    while not shop.ready:
        await Pause(MINUTE)
    for entry in shop.entries():
        await shop.books.move(entry.id, fact, may_fail=True)


# --- the checks


def _wrong(simulator: Simulator, platform: Platform, shop: Shop, seen: Seen) -> Iterator[str]:
    now = simulator.time
    platform.world.catch_up(now)
    entries: dict[str, Entry] = {}
    for entry in shop.entries():
        entries[entry.invoice_id or entry.id] = entry
    opened = {(alarm.kind, alarm.key) for alarm in shop.store.money.open_alarms(limit=10**6)}
    granted = Counter(grant.key for grant in shop.grants)
    seen.granted += len(granted)
    if shop.impossible:
        yield f"impossible: {shop.impossible}"
    impossible = [alarm.text for alarm in shop.store.alarms if alarm.kind == "impossible_transition"]
    if impossible:
        yield f"impossible: {impossible}"
    yield from _settled(shop, seen)
    yield from _given(shop, entries.values(), seen)
    known: set[str] = set()
    for bill in platform.world.bills:
        lost = (one for one in entries.values() if one.kind == bill.kind and one.invoice_id is None)
        entry = entries.get(bill.id) or next((one for one in lost if one.amount == bill.amount), None)
        taken = sum(taking.amount for taking in bill.takings if taking.captured_at is not None)
        key = entry.id if entry is not None else bill.id
        known.add(key)
        if granted[key] and not any(
            taking.captured_at is not None and taking.amount == bill.amount for taking in bill.takings
        ):
            yield f"{key}: goods for {bill.takings}"
        if taken:
            seen.captured += 1
            yield from _unwanted(shop, entry, bill)
            captured_at = [one.captured_at for one in bill.takings if one.captured_at is not None]
            yield from _captured(shop, entry, bill.id, captured_at, taken, granted[key], opened, seen)
        yield from _refunded(shop, entry, bill, seen)
    for key in granted:
        entry = next((one for one in entries.values() if one.id == key), None)
        if key not in known and not (entry is None and seen.restored):
            yield f"{key}: goods for nothing"
    yield from _wallets(platform)


def _settled(shop: Shop, seen: Seen) -> Iterator[str]:
    for id_, times in shop.store.settled.items():
        if times > 1 and not seen.restored:
            yield f"{id_}: settled {times} times"
    first: dict[str, int] = {}
    for grant in shop.grants:
        again = grant.key in first and grant.at > shop.restored_at > first[grant.key]
        if again and seen.restored and not (grant.marked and grant.key in shop.wanted_by_hand):
            yield f"{grant.key}: granted again, unasked or without a mark"
        first.setdefault(grant.key, grant.at)
    for id_, order, at in shop.taken_away:
        for grant in shop.grants:
            # What a backup forgets, an operator has to say again.
            known = grant.key == id_ and grant.at > at and not at < shop.restored_at < grant.at
            asked = id_ in shop.wanted_by_hand
            if known and not (asked and order == "operator_redeliver"):
                yield f"{id_}: granted after {order}"


def _given(shop: Shop, entries: Iterable[Entry], seen: Seen) -> Iterator[str]:
    """What is the bot's own is given once, and its charge comes to one end, which is true."""
    store = shop.store
    for entry in entries:
        own, told = store.own[entry.id], store.told.get(entry.id, [])
        if own > 1 and entry.id not in shop.wanted_by_hand:
            yield f"{entry.id}: the bot's own data were changed {own} times"
        if own and entry.captured is None:
            yield f"{entry.id}: the bot's own data were changed for nothing"
        if entry.ending == "given" and not own:
            yield f"{entry.id}: settled, and never given"
        if entry.state == "delivered" and entry.id not in store.givers and not seen.restored:
            yield f"{entry.id}: delivered, and no aside has it"
        settled = entry.ending == "given" or entry.id in shop.by_hand or seen.restored
        if len(told) > 1 or ("given" in told and not (own and settled)):
            yield f"{entry.id}: given {own} times, and its charge came to {told}"
    for id_ in shop.waiting:
        ending = next((entry.ending for entry in shop.entries() if entry.id == id_), None)
        if ending is not None:
            yield f"{id_}: {ending}, and its charge still waits"
    if not seen.restored:
        both = {grant.key for grant in shop.grants} ^ {id_ for id_, own in store.own.items() if own}
        # Killed between its step and the record, and parked since: its step runs again once it is mended.
        both -= {id_ for id_, giver in shop.stuck.items() if giver.there and not giver.given}
        # Taken away by an operator meanwhile: nothing more of it is given.
        both -= {id_ for id_, _, _ in shop.taken_away if not store.own[id_]}
        if both:
            yield f"{both}: given by a step or by what is recorded, and not by both"


def _captured(
    shop: Shop,
    entry: Entry | None,
    number: str,
    captured_at: Sequence[int],
    taken: int,
    granted: int,
    opened: set[tuple[str, str]],
    seen: Seen,
) -> Iterator[str]:
    if entry is None or (seen.restored and entry.captured is None):
        # What a backup did not know, or knew as open: it was captured before, or somebody was told.
        told = any(alarm.kind == "unwatched" for alarm in shop.store.alarms)
        if not granted and not told and not any(key == number for _, key in opened):
            yield f"{number}: captured, and a restored backup forgot it"
        return
    # A platform that takes a second payment, and answers neither verify, can't be told from one that
    # takes one; it says that it doesn't (code 1003). Said to be paid twice, it is alarmed.
    more = taken > (entry.captured or 0)
    twice = more and entry.doubt_at is not None and entry.claims < 2
    after_end = entry.state == "resolved" and ("callback_after_end", entry.id) in opened
    said = more and (after_end or ("maybe_paid_again", entry.id) in opened)
    # What was captured after the backup was made, nobody knows; that it is so, everybody was told.
    unknown = more and entry.uncertain and any(at < shop.restored_at for at in captured_at)
    if entry.captured != taken and not (twice or said or unknown):
        yield f"{entry.id}: the books say {entry.captured}, the platform {taken} ({entry.state})"
    told = any(key == entry.id for _, key in opened)
    if not granted and not told and entry.id not in shop.by_hand:
        yield f"{entry.id}: captured without goods or an alarm ({entry.state})"
    if entry.state not in ("settled", "resolved") and not told:
        yield f"{entry.id}: captured, {entry.state} and nobody told"


def _goes_back(shop: Shop, entry: Entry) -> bool:
    """Whether its author wants no late money for it, whatever an operator has said since."""
    plan = shop.plans.get(entry.id)
    return (entry.late if plan is None else plan.late) == "nobody"


def _unwanted(shop: Shop, entry: Entry | None, bill: Bill) -> Iterator[str]:
    """What nobody wants any more is not captured, unless an operator says so."""
    if entry is None or not _goes_back(shop, entry) or entry.ended_at is None:
        return
    if entry.id in shop.wanted_by_hand:
        return
    for taking in bill.takings:
        if taking.captured_at is not None and taking.paid_at > entry.ended_at + MINUTE:
            yield f"{entry.id}: captured although nobody wanted it any more"


def _refunded(shop: Shop, entry: Entry | None, bill: Bill, seen: Seen) -> Iterator[str]:
    takings = bill.takings
    for taking in takings:
        if taking.refunded_at is None:
            if taking.captured_at is None:
                yield f"{bill.id}: neither captured nor refunded"
            continue
        seen.refunded += 1
        if any(other.captured_at is not None for other in takings):
            continue
        if entry and _goes_back(shop, entry) and entry.ended_at and entry.ended_at < taking.refunded_at:
            continue
        keys = {entry.id if entry is not None else ""}
        in_time = [
            alarm
            for alarm in shop.store.alarms
            if (alarm.key in keys or alarm.kind in SHARED)
            and (
                taking.paid_at <= alarm.at <= taking.refunded_at or alarm.kind in ("unwatched", "id_unknown")
            )
        ]
        if not in_time:
            yield f"{bill.id}: paid, wanted, refunded, and nobody was told in time"


def _wallets(platform: Platform) -> Iterator[str]:
    for user in platform.world.people:
        for currency in ("IRR", "coin"):
            spent = sum(
                taking.amount
                for bill in platform.world.bills
                for taking in bill.takings
                if taking.payer == user.id and taking.currency == currency and taking.captured_at is not None
            )
            if user.wallet[currency] != 10**9 - spent:
                yield f"wallet of {user.id}: {user.wallet[currency]} {currency}, spent {spent}"


def unreached(reached: Counter[tuple[str, str]]) -> list[str]:
    """The rows of the table that no payment came through."""
    return [
        f"{'/'.join(row.states)} + {'/'.join(row.facts)}"
        for row in TABLE
        if not any(reached[state, fact] for state in row.states for fact in row.facts)
    ]


def run_all(seeds: Iterable[int], plant: Fault | None = None) -> Seen:
    """Many worlds."""
    total = Seen()
    for seed in seeds:
        total.add(run(seed, plant=plant))
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--history", action="store_true", help="with what happened to each payment")
    parser.add_argument("--plant", choices=FAULTS, help="with a fault in the code")
    asked = parser.parse_args()
    if asked.seed is not None:
        seeds = range(asked.seed, asked.seed + 1)
    else:
        seeds = range(asked.first, asked.first + asked.seeds)
    if asked.history:
        for seed in seeds:
            run(seed, history=True, plant=asked.plant)
    began = time.perf_counter()
    total = run_all(seeds, asked.plant)
    print(
        f"{len(seeds)} worlds, {total.payments} payments, {total.captured} captured, "
        f"{total.granted} granted, {total.refunded} refunded, {total.crashes} crashes, "
        f"{total.restored} restored backups, "
        f"{total.outages} outages of 70 minutes, "
        f"{total.asked} requests, {time.perf_counter() - began:.0f} s"
    )
    pairs = sum(1 for pair in INDEX if total.reached[pair])
    rows = len(TABLE) - len(unreached(total.reached))
    print(f"{rows} of {len(TABLE)} rows reached, {pairs} of {len(INDEX)} pairs")
    for row in unreached(total.reached):
        print("  never:", row)
    for what in total.wrong:
        print(what)
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
