"""The pure parts: counts that can be taken back, and which filesystem a path lies on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.errors import ConfigError
from triobot.seams.inbox import OverQuota, Quota
from triobot.store.lock import check_filesystem, filesystem_of
from triobot.store.rules import Tally
from triobot.wire.ids import ChatId

# In a chat, of so many bytes: comes, comes and begins something, is gone.
EVENTS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9), st.sampled_from("cbg")), max_size=20)


@settings(max_examples=examples(100))
@given(EVENTS, EVENTS, EVENTS)
def test_undoing_to_a_mark_restores_what_was_counted_there(
    settled: list[tuple[int, int, str]], kept: list[tuple[int, int, str]], undone: list[tuple[int, int, str]]
) -> None:
    tally, expected = Tally(), Tally()

    def count(on: Tally, events: list[tuple[int, int, str]], first: int) -> None:
        for n, (chat, size, what) in enumerate(events, start=first):
            if what == "g":
                begun = on.begun(ChatId(chat))
                on.count_gone(ChatId(chat), size, begun[0] if begun else n)
                continue
            on.count_event(ChatId(chat), size, n if what == "b" else 0)

    count(tally, settled, 1)
    tally.settle()
    count(tally, kept, 101)
    mark = tally.mark()
    count(tally, undone, 201)
    tally.undo(mark)
    count(expected, settled, 1)
    count(expected, kept, 101)
    expected.settle()
    assert (tally["inbox"], tally["inbox_bytes"]) == (
        expected.statistics.inbox,
        expected.statistics.inbox_bytes,
    )
    assert of_chats(tally) == of_chats(expected)

    tally.undo()
    only_settled = Tally()
    count(only_settled, settled, 1)
    only_settled.settle()
    assert tally.statistics == only_settled.statistics
    assert (tally["inbox"], tally["inbox_bytes"]) == (tally.statistics.inbox, tally.statistics.inbox_bytes)
    assert of_chats(tally) == of_chats(only_settled)


def of_chats(tally: Tally) -> list[tuple[int, list[int]]]:
    return [(tally.waiting(ChatId(n)), sorted(tally.begun(ChatId(n)))) for n in range(4)]


def test_a_refusal_says_whether_the_chat_or_the_whole_is_full() -> None:
    tally = Tally()
    tally.count_event(ChatId(1), 10)
    assert tally.refusal(ChatId(1), 1, Quota(events_per_chat=1)) == OverQuota(whole=False)
    assert tally.refusal(ChatId(2), 1, Quota(events_per_chat=1)) is None
    assert tally.refusal(ChatId(2), 1, Quota(bytes_in_all=10)) == OverQuota(whole=True)


MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
sshfs /mnt/far\\040away fuse.sshfs rw 0 0
tmpfs /over tmpfs rw 0 0
//nas/x /over cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/bot.db", "ext4"),
        ("/home/ali/bot.db", "nfs4"),
        ("/homes/bot.db", "ext4"),
        ("/home/local/bot.db", "xfs"),
        ("/mnt/far away/bot.db", "fuse.sshfs"),
        ("/over/bot.db", "cifs"),
    ],
)
def test_the_filesystem_is_that_of_the_innermost_mount(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize(("kind", "fine"), [("ext4", True), ("nfs", False), ("fuse.sshfs", False)])
def test_a_network_filesystem_is_refused(monkeypatch: pytest.MonkeyPatch, kind: str, fine: bool) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *args, **rest: f"x / {kind} rw 0 0\n")
    if fine:
        check_filesystem(Path("/data/bot.db"))
    else:
        with pytest.raises(ConfigError, match=kind):
            check_filesystem(Path("/data/bot.db"))
