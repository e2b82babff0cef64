"""What goes between two nodes: each frame, and the proof of the key."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import trio
import trio.testing

from triobot.conversations.doors.calls import Halt
from triobot.nodes.frames import (
    FRAMES,
    AddToPart,
    EndPart,
    FindPayment,
    Frame,
    OpenPart,
    PutKept,
    RaiseAtHome,
    ReadBroadcast,
    ReadGone,
    ReadKeptOf,
    ReadKeyed,
    ReplaceKept,
    Said,
    SettleKept,
    StartRoute,
    StopBroadcast,
    StopRoute,
    TellPlace,
)
from triobot.nodes.links import Kind, StrangerError, open_link
from triobot.values import decode_value, encode_value
from triobot.wire.ids import ChatId

KEY = b"k" * 32


FRAMES_SENT: list[Frame] = [
    TellPlace(Said(ChatId(1), 5, "triobot/signal\n", b"[1,2]", "signal:1:x")),
    StartRoute(Said(ChatId(1), 5, "triobot/call\n", b"{}", "call:1:x"), Halt(ChatId(1), "visit", "key")),
    StopRoute(Halt(ChatId(1), "visit")),
    ReadKeptOf(ChatId(-7)),
    PutKept(ChatId(1), "key", None, "once"),
    ReplaceKept(ChatId(1), "key", None, "new", "once"),
    SettleKept(ChatId(1), "once"),
    ReadKeyed("key", None),
    FindPayment("17", invoice=True),
    OpenPart("session", "key", "content"),
    AddToPart("session", (ChatId(1), ChatId(2))),
    EndPart("session", given_up=True),
    ReadBroadcast("key"),
    StopBroadcast("key"),
    ReadGone("key", 7),
    RaiseAtHome("token_refused", "outbox", "text"),
]


@pytest.mark.parametrize("frame", FRAMES_SENT, ids=lambda frame: type(frame).__name__)
def test_each_frame_comes_as_it_was_sent(frame: Frame) -> None:
    assert decode_value(encode_value(frame)) == frame


def test_no_frame_is_left_out() -> None:
    assert {type(frame) for frame in FRAMES_SENT} == set(get_args(Frame)) == set(FRAMES)


async def test_both_sides_of_a_link_prove_the_key() -> None:
    left, right = trio.testing.memory_stream_pair()
    heard: list[Any] = []

    async def answer() -> None:
        async with open_link(right, KEY, first=False) as link:
            heard.append(await link.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        async with open_link(left, KEY, first=True) as link:
            link.send(Kind.ASK, 7, b"content")
            with trio.move_on_after(0.05):
                await link.keep_sending()
    assert heard == [(Kind.ASK, 7, b"content")]


async def test_nobody_proves_the_key_with_the_other_s_own_words() -> None:
    """Whoever has no key could send back what it is told."""
    left, right = trio.testing.memory_stream_pair()

    async def mirror() -> None:
        while piece := await right.receive_some():
            await right.send_all(piece)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror)
        with pytest.raises(StrangerError, match="doesn't have this store's key"):
            async with open_link(left, KEY, first=True):
                raise AssertionError
        nursery.cancel_scope.cancel()
