"""Which node is to have which shard: rules, and histories of nodes that come, die, stop and are drained."""

from __future__ import annotations

import random
from collections import Counter

import attrs
import pytest

from tests.samples import sample
from triobot.nodes.placement import HOLD_SECONDS, TURN_SECONDS, Candidate, Placement, ShardStanding

LONG = HOLD_SECONDS + 1


def members(
    *ids: int, drained: tuple[int, ...] = (), seconds: float = LONG, build: int = 0, failing: bool = False
) -> list[Candidate]:
    return [Candidate(one, seconds, one in drained, build, failing) for one in ids]


def held(*owners: int | None, seconds: float = LONG) -> list[ShardStanding]:
    return [ShardStanding(shard, owner, seconds) for shard, owner in enumerate(owners)]


def test_a_node_by_itself_takes_all_shards() -> None:
    place = Placement(members(1), held(None, None, 1, seconds=0))
    assert place.to_take(1) == 0
    assert place.to_give(1) is None


def test_free_shards_are_shared_by_all() -> None:
    place = Placement(members(1, 2), held(None, None, None, None, seconds=0))
    assert (place.to_take(1), place.to_take(2)) == (0, 1)


def test_those_with_the_fewest_take_what_a_dead_node_had() -> None:
    place = Placement(members(1, 2, 3), held(1, 1, 2, None, None, None, seconds=0))
    assert (place.to_take(3), place.to_take(1)) == (3, None)
    assert place.to_take(2) == 4


def test_a_shard_that_nobody_comes_for_is_the_next_one_s() -> None:
    for turn, taker in ((0, 1), (1, 2), (2, 1)):
        place = Placement(members(1, 2), held(1, 2, None, seconds=turn * TURN_SECONDS + 0.1))
        assert [one for one in (1, 2) if place.to_take(one) == 2] == [taker]


def test_one_shard_moves_at_a_time_to_a_node_that_came() -> None:
    place = Placement(members(1, 2), held(1, 1, 1, 1))
    assert (place.to_give(1), place.to_give(2)) == (0, None)
    opening = [*held(1, 1, 1), ShardStanding(3, 2, 0.1, works=False)]
    assert Placement(members(1, 2), opening).to_give(1) is None
    assert Placement(members(1, 2), [*held(1, 1, 1), ShardStanding(3, None, 0.1)]).to_give(1) is None


def test_shares_that_differ_by_one_stay() -> None:
    assert Placement(members(1, 2), held(1, 1, 2)).to_give(1) is None
    assert Placement(members(1, 2, 3), held(1, 1, 2, 2)).to_give(2) == 2


def test_neither_a_new_node_nor_a_new_owner_moves_anything() -> None:
    new = [*members(1), *members(2, seconds=HOLD_SECONDS - 1)]
    assert Placement(new, held(1, 1, 1, 1)).to_give(1) is None
    assert Placement(members(1, 2), held(1, 1, 1, 1, seconds=HOLD_SECONDS - 1)).to_give(1) is None


def test_a_drained_node_gives_at_once_and_takes_nothing() -> None:
    drained = members(1, 2, drained=(1,))
    place = Placement(drained, held(1, 1, 2, 2, seconds=0.5))
    assert (place.to_give(1), place.to_give(2)) == (0, None)
    assert Placement(drained, held(None, 1, 2, 2, seconds=0.5)).to_take(1) is None
    assert Placement(drained, held(None, 1, 2, 2, seconds=0.5)).to_take(2) == 0


def test_if_all_are_drained_no_shard_is_left_alone() -> None:
    place = Placement(members(1, 2, drained=(1, 2)), held(1, None, seconds=0))
    assert place.to_give(1) is None
    assert place.to_take(2) == 1


def test_what_an_operator_s_tool_has_open_is_left_alone() -> None:
    place = Placement(members(1), [ShardStanding(0, 99, 0.1, works=False), *held(1, 1)[1:]])
    assert (place.to_take(1), place.to_give(1)) == (None, None)


def test_only_the_newest_build_is_given_shards() -> None:
    both = [*members(1, 2, build=1), *members(3, 4, build=2)]
    place = Placement(both, held(1, 1, None, None, None, seconds=TURN_SECONDS * 8 + 0.1))
    assert [place.to_take(one) for one in (1, 2, 3, 4)] == [None, None, 2, 3]


def test_shards_move_to_a_newer_build_one_at_a_time_once_it_has_stood() -> None:
    older = members(1, 2, build=1)
    new = [*older, *members(3, build=2, seconds=HOLD_SECONDS - 1)]
    assert [Placement(new, held(1, 1, 2, 2)).to_give(one) for one in (1, 2)] == [None, None]
    settled = [*older, *members(3, build=2)]
    assert [Placement(settled, held(1, 1, 2, 2)).to_give(one) for one in (1, 2, 3)] == [None, 2, None]
    assert [Placement(settled, held(1, 1, 2, 3)).to_give(one) for one in (1, 2, 3)] == [0, None, None]
    moving = [*held(1, 1, 2), ShardStanding(3, None, 0.1)]
    assert [Placement(settled, moving).to_give(one) for one in (1, 2, 3)] == [None, None, None]
    assert Placement(settled, moving).to_take(3) == 3


def test_shards_do_not_go_back_while_the_newer_build_lives() -> None:
    drained = [*members(1, build=1), *members(2, build=2, drained=(2,))]
    place = Placement(drained, held(2, 2, None, seconds=60))
    assert (place.to_take(1), place.to_take(2), place.to_give(2)) == (None, 2, None)
    assert Placement(members(1, build=1), held(None, None)).to_take(1) == 0


def test_a_node_that_takes_no_part_is_given_nothing_and_counts_for_no_build() -> None:
    aside = attrs.evolve(*members(2, build=2), aside=True)
    place = Placement([*members(1, build=1), aside], held(2, 1, None, seconds=0))
    assert (place.to_take(1), place.to_take(2), place.to_give(2)) == (2, None, None)
    place = Placement([*members(1, build=1), aside], held(2, 1, 1, seconds=0))
    assert (place.to_give(2), place.to_give(1)) == (0, None)
    # If nobody else may have them it keeps what it has, and takes nothing more.
    place = Placement([aside], held(2, None, 2, seconds=60))
    assert (place.to_take(2), place.to_give(2)) == (None, None)
    assert Placement([aside], held(2, 2)).to_give(2) is None


def test_shares_stay_fair_within_the_newest_build() -> None:
    place = Placement([*members(1, build=1), *members(2, 3, build=2)], held(2, 2, 2, 3))
    assert [place.to_give(one) for one in (1, 2, 3)] == [None, 0, None]


def test_a_build_whose_work_fails_is_given_no_more_and_keeps_what_it_has() -> None:
    stopped = [*members(1, 2, build=1), *members(3, build=2, failing=True)]
    place = Placement(stopped, held(1, 1, 2, 3))
    assert [place.to_give(one) for one in (1, 2, 3)] == [None, None, None]
    place = Placement(stopped, held(1, 1, 2, None, seconds=0))
    assert [place.to_take(one) for one in (1, 2, 3)] == [None, 3, None]
    # If it fails everywhere it is nobody's fault.
    place = Placement(members(1, 2, failing=True), held(1, None, seconds=0))
    assert place.to_take(2) == 1


@attrs.define
class World:
    """Nodes and shards, a tenth of a second at a time; every node acts on what it sees."""

    shards: int
    chance: random.Random
    now: float = 0.0
    came: dict[int, float] = attrs.field(factory=dict)
    drained: set[int] = attrs.field(factory=set)
    builds: dict[int, int] = attrs.field(factory=dict)
    owners: dict[int, tuple[int | None, float, bool]] = attrs.field(factory=dict)
    moves: list[tuple[float, int]] = attrs.field(factory=list)

    def seen(self) -> Placement:
        return Placement(
            [
                Candidate(one, self.now - at, one in self.drained, self.builds.get(one, 0))
                for one, at in sorted(self.came.items())
            ],
            [
                ShardStanding(shard, owner, self.now - since, works)
                for shard, (owner, since, works) in sorted(self.owners.items())
            ],
        )

    def die(self, node: int) -> None:
        del self.came[node]
        self.drained.discard(node)
        for shard, (owner, _, _) in self.owners.items():
            if owner == node:
                self.owners[shard] = (None, self.now, False)

    def pass_by(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now += 0.1
            for shard, (owner, since, works) in self.owners.items():
                if owner is not None and not works and self.now - since > 0.3:
                    self.owners[shard] = (owner, since, True)
            for node in self.chance.sample(sorted(self.came), len(self.came)):
                place = self.seen()
                opening = any(owner == node and not works for owner, _, works in self.owners.values())
                if not opening and (shard := place.to_take(node)) is not None:
                    assert self.owners[shard][0] is None
                    assert self.builds.get(node, 0) == max(self.builds.get(one, 0) for one in self.came)
                    self.owners[shard] = (node, self.now, False)
                elif (shard := place.to_give(node)) is not None:
                    owner, since, works = self.owners[shard]
                    assert (owner, works) == (node, True)
                    assert node in self.drained or self.now - since >= HOLD_SECONDS
                    self.owners[shard] = (None, self.now, False)
                    self.moves.append((self.now, shard))
            # One at a time: what moves is taken before another one is given up.
            assert [at for at, _ in self.moves].count(self.now) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("builds", [1, 3])
@pytest.mark.parametrize("seed", sample(range(30)))
def test_every_history_ends_in_fair_shares_of_the_newest_build(seed: int, builds: int) -> None:
    chance = random.Random(seed)
    world = World(chance.randint(1, 16), chance)
    world.owners = dict.fromkeys(range(world.shards), (None, 0.0, False))
    for step in range(30):
        match chance.randrange(4 if builds == 1 else 5):
            case 0 if len(world.came) < 5:
                node = 1000 * chance.randint(1, 9) + step
                world.came[node], world.builds[node] = world.now, chance.randrange(builds)
            case 1 if world.came:
                world.die(chance.choice(sorted(world.came)))
            case 2 if world.came:
                world.drained.add(chance.choice(sorted(world.came)))
            case 4 if world.came:
                # An operator goes back: that build is the newest from now on.
                chosen = world.builds[chance.choice(sorted(world.came))]
                highest = max(world.builds.values()) + 1
                world.builds = {one: highest if at == chosen else at for one, at in world.builds.items()}
            case _:
                pass
        world.pass_by(chance.randint(1, 40))
    world.came[7], world.builds[7] = world.now, chance.choice([0, *world.builds.values()])
    world.pass_by(10 * (world.shards + 2) * int(HOLD_SECONDS + 2))
    newest = max(world.builds[one] for one in world.came)
    there = {one for one in world.came if world.builds[one] == newest}
    takers = there - world.drained or there
    counts = Counter(owner for owner, _, _ in world.owners.values())
    assert set(counts) <= takers
    if there - world.drained:
        assert max(counts.values()) - min(counts.get(one, 0) for one in takers) <= 1
    before = len(world.moves)
    world.pass_by(300)
    assert len(world.moves) == before


@pytest.mark.parametrize("life", [1.0, HOLD_SECONDS - 0.5])
def test_a_node_that_comes_and_dies_pulls_no_shards_about(life: float) -> None:
    world = World(4, random.Random(1))
    world.owners = dict.fromkeys(range(4), (None, 0.0, False))
    world.came[1] = 0.0
    world.pass_by(100)
    for number in range(10):
        world.came[number + 2] = world.now
        world.pass_by(int(life * 10))
        world.die(number + 2)
        world.pass_by(5)
    assert world.moves == []
