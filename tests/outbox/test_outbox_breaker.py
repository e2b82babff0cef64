"""Whose fault a 403 is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triobot.outbox.breaker import NEVER, Breaker


def working(*chats: str) -> Breaker:
    """A breaker that saw these chats work long ago."""
    breaker = Breaker()
    for chat in chats or ("someone",):
        breaker.succeeded(chat, -10_000.0, -10_000.0)
    return breaker


def test_one_chat_refused_twice_around_anothers_success_is_that_chats_own() -> None:
    breaker = working()
    assert not breaker.refused("a", 0.0)
    assert breaker.succeeded("b", 0.5, 0.6) == ("a",)
    assert breaker.refused("a", 0.7)
    assert breaker.held is None


def test_a_success_that_began_before_the_refusal_says_nothing() -> None:
    breaker = working()
    breaker.refused("a", 1.0)
    assert breaker.succeeded("b", 0.9, 1.1) == ()
    assert breaker.succeeded("b", 1.2, 1.3) == ("a",)


def test_a_chat_that_takes_typing_and_refuses_texts_is_told() -> None:
    breaker = working()
    breaker.refused("a", 0.0)
    assert breaker.succeeded("a", 0.5, 0.6) == ("a",), "the token works"
    assert breaker.refused("a", 0.7)


def test_a_chat_that_works_again_is_suspected_no_more() -> None:
    breaker = working()
    breaker.refused("a", 0.0)
    breaker.succeeded("b", 0.5, 0.6)
    breaker.succeeded("a", 0.7, 0.8)
    assert not breaker.refused("a", 1.0), "a new refusal is judged afresh"


def test_several_chats_within_seconds_hold_everything() -> None:
    breaker = working()
    for number in range(4):
        assert not breaker.refused(number, number * 1.0)
        assert breaker.held is None
    assert not breaker.refused(4, 4.0)
    assert breaker.held is not None and breaker.held.sure


def test_several_chats_with_successes_between_are_people_who_leave() -> None:
    breaker = working()
    for number in range(20):
        now = number * 1.0
        assert not breaker.refused(number, now)
        assert breaker.succeeded("alive", now + 0.1, now + 0.2) == (number,)
        assert breaker.refused(number, now + 0.3)
    assert breaker.held is None


def test_one_chat_is_not_several() -> None:
    breaker = working()
    for number in range(20):
        breaker.refused("a", number / 10)
    assert breaker.held is None


def test_a_lone_stranger_is_told_after_a_few_seconds() -> None:
    breaker = working()
    breaker.refused("a", 0.0)
    assert breaker.judge(4.9) == ()
    assert breaker.look_again(0.0) == 5.0
    assert breaker.judge(5.0) == ("a",)
    assert (breaker.held, breaker.look_again(5.0)) == (None, NEVER)


def test_a_chat_that_worked_minutes_ago_holds_when_nothing_else_tells() -> None:
    breaker = working()
    breaker.succeeded("a", -120.0, -120.0)
    breaker.refused("a", 0.0)
    assert breaker.judge(5.0) == ()
    assert breaker.held is not None and not breaker.held.sure
    assert breaker.may_probe_untried(), "another chat's operation tells at once"
    assert not breaker.may_probe(5.0) and breaker.may_probe(35.0)

    assert breaker.succeeded("b", 6.0, 6.1) == ("a",)
    assert breaker.held is None
    breaker.refused("a", 6.2)
    assert breaker.judge(11.2) == ("a",), "it is not believed twice"


def test_a_token_that_never_worked_holds_after_a_few_seconds() -> None:
    breaker = Breaker()
    breaker.refused("a", 0.0)
    assert breaker.judge(4.0) == () and breaker.held is None
    assert breaker.judge(5.0) == () and breaker.held is not None and breaker.held.sure


def test_what_the_last_question_told_says_whether_the_token_is_refused() -> None:
    """Before one was answered, the number of chats; time alone says nothing."""
    breaker = working()
    breaker.succeeded("a", 1.0, 1.0)
    breaker.refused("a", 2.0)
    breaker.judge(7.0)
    assert breaker.held is not None and not breaker.refused_all
    for number, (denied, refused) in enumerate([(False, False), (True, True), (False, False)]):
        breaker.ask_started(7.0 + 30 * number)
        assert breaker.refused_all == (number == 2), "as the one before told"
        breaker.ask_ended(denied=denied)
        assert breaker.refused_all == refused
    breaker.accepted(80.0, 80.1)
    assert breaker.held is None and not breaker.refused_all

    for number in range(5):
        breaker.refused(number, 90.0)
    assert breaker.refused_all
    breaker.ask_ended(denied=False)
    assert breaker.held is not None and not breaker.refused_all


def test_held_probes_one_at_a_time_every_half_minute_and_a_success_releases() -> None:
    breaker = working()
    for number in range(5):
        breaker.refused(number, 0.0)
    assert not breaker.may_probe_untried() and not breaker.may_probe(29.0)
    assert breaker.look_again(0.0) == 30.0 and breaker.may_probe(30.0)
    breaker.probe_started(30.0)
    assert not breaker.may_probe(90.0)
    assert not breaker.refused(3, 30.5), "nothing is failed while held"
    breaker.probe_ended()
    assert not breaker.may_probe(59.0) and breaker.may_probe(60.0)
    breaker.probe_started(60.0)
    assert set(breaker.succeeded(1, 60.0, 60.5)) == set(range(5))
    breaker.probe_ended()
    assert breaker.held is None
    assert not breaker.refused(2, 61.0), "judged afresh after a release"


def test_an_old_request_that_succeeds_does_not_release() -> None:
    breaker = working()
    for number in range(5):
        breaker.refused(number, 10.0)
    assert breaker.succeeded("slow", 9.0, 12.0) == ()
    assert breaker.held is not None


@given(
    st.lists(
        st.tuples(st.sampled_from(["ok", "no", "judge"]), st.integers(0, 9), st.floats(0, 8)), max_size=60
    )
)
def test_nothing_is_failed_in_a_bot_whose_every_request_is_refused(
    steps: list[tuple[str, int, float]],
) -> None:
    """However the refusals come, a chat is only failed after something succeeded or a calm few seconds."""
    breaker = Breaker()
    now, succeeded = 0.0, False
    for action, chat, later in steps:
        now += later
        if action == "ok":
            breaker.succeeded(chat, now, now)
            succeeded = True
        elif action == "no":
            assert not breaker.refused(chat, now) or succeeded
        else:
            assert not breaker.judge(now) or succeeded
        assert breaker.look_again(now) >= now or breaker.judge(now) is not None


def test_broadcasts_to_those_who_left_hold_nothing_by_their_number() -> None:
    """A success judges them all; each is tried once more, and is its chat's own then."""
    breaker = Breaker()
    breaker.succeeded("worked", 0, 0)
    assert not any(breaker.refused(chat, 1, broadcast=True) for chat in range(50))
    assert breaker.held is None
    assert breaker.judge(30) == ()
    assert set(breaker.succeeded("another", 2, 31)) == set(range(50))
    assert all(breaker.refused(chat, 32, broadcast=True) for chat in range(50))


def test_broadcasts_that_reach_nobody_for_a_minute_mean_the_token() -> None:
    breaker = Breaker()
    breaker.succeeded("worked", 0, 0)
    for chat in range(5):
        breaker.refused(chat, 1, broadcast=True)
    assert breaker.judge(breaker.look_again(1)) == ()
    assert breaker.held is not None
    assert breaker.held.sure
    assert breaker.held.since == 61


def test_a_few_broadcasts_refused_at_the_end_are_their_chats_own() -> None:
    breaker = Breaker()
    breaker.succeeded("worked", 0, 0)
    for chat in range(4):
        breaker.refused(chat, 1, broadcast=True)
    assert breaker.judge(60) == ()
    assert set(breaker.judge(61)) == set(range(4))
    assert breaker.held is None


def test_a_broadcast_to_a_chat_that_worked_lately_tells_as_much_as_a_reply() -> None:
    breaker = Breaker()
    for chat in range(5):
        breaker.succeeded(chat, 0, 0)
    for chat in range(5):
        breaker.refused(chat, 1, broadcast=True)
    assert breaker.held is not None


def test_somebody_who_left_says_nothing_of_the_token() -> None:
    breaker = working("a", "b")
    breaker.succeeded("a", -10.0, -10.0)
    assert not breaker.left("a"), "nothing was held"
    assert breaker.refused("a", 0.0)
    assert breaker.held is None
    breaker.succeeded("a", 1.0, 1.1)
    assert not breaker.refused("a", 2.0), "it came back, so a refusal is judged afresh"


def test_a_leave_that_is_told_late_lets_everything_go_on() -> None:
    breaker = working("b")
    breaker.succeeded("a", -10.0, -10.0)
    assert not breaker.refused("a", 0.0)
    assert breaker.judge(6.0) == ()
    assert breaker.held is not None
    assert breaker.left("a")
    assert breaker.held is None
    assert breaker.look_again(7.0) == NEVER


def test_a_leave_does_not_excuse_the_refusals_of_others() -> None:
    breaker = working("b")
    for chat in range(5):
        breaker.refused(chat, 0.0)
    assert breaker.held is not None
    assert not breaker.left(0)
    assert breaker.held is not None
