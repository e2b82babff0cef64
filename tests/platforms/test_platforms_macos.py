"""What macOS does otherwise, with what it has put in place of what Linux has."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from triobot.http.links import POLLIN, ByReading, PlainLink
from triobot.operator import loopback
from triobot.seams.writes import WORK_SLOTS
from triobot.store import lock
from triobot.store.notes import Notes
from triobot.store.private_files import sync, sync_folder

FULL = 51  # F_FULLFSYNC


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the system is asked for by `fcntl`, as on macOS."""
    commands: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: commands.append(command))
    monkeypatch.setattr(os, "fsync", lambda fd: commands.append(-1))
    return commands


def test_the_disk_itself_is_told_to_keep_a_file(asked: list[int], tmp_path: Path) -> None:
    sync_folder(tmp_path)
    assert asked == [FULL]


def test_a_file_system_that_can_not_gets_a_plain_fsync(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, command: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    sync(0)
    assert asked == [-1]


def test_elsewhere_a_plain_fsync_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(os, "fsync", done.append)
    sync(7)
    assert done == [7]


@pytest.mark.parametrize(("code", "boot"), [(0, "4F7A-BOOT"), (-1, None)])
def test_the_boot_is_named_by_the_kernel(
    code: int, boot: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was answered in the last second before each kill would be doubted."""

    def sysctlbyname(name: bytes, told: ctypes.Array[ctypes.c_char], *rest: object) -> int:
        assert name == b"kern.bootsessionuuid"
        told.value = b"4F7A-BOOT"
        return code

    class Library:
        def __init__(self, name: None) -> None:
            self.sysctlbyname = sysctlbyname

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert lock.machine_boot() == boot


def test_notes_have_their_room_before_they_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also over what a file of an earlier run holds."""
    monkeypatch.delattr(os, "posix_fallocate")
    fd = os.open(tmp_path / "a.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(2):
            notes = Notes(fd)
            notes.begin(1)
            notes.note_answered("a key")
            assert len(notes.at_work) > WORK_SLOTS
            notes.close()
            assert Notes(fd).answered_left() == ["a key"]
    finally:
        os.close(fd)


def test_a_long_path_has_no_socket_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loopback, "_DESCRIPTORS", tmp_path / "absent")
    with loopback.short_name(tmp_path / "a.sock") as name:
        assert name == str(tmp_path / "a.sock")
    with pytest.raises(OSError) as raised, loopback.short_name(tmp_path / ("a" * 80) / "a.sock"):
        pass
    assert raised.value.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize("poll", [select.poll, ByReading], ids=["poll", "without poll, as on Windows"])
def test_a_link_knows_whether_something_has_come(
    poll: Callable[[], ByReading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triobot.http.links.poll", poll)
    ours, theirs = socket.socketpair()
    with theirs:
        link = PlainLink(ours)
        assert link.is_quiet()
        theirs.send(b"a")
        assert not link.is_quiet()
        assert not link.has_left()
        link._fd = -1  # closed without Trio, which doesn't run here
        ours.close()
        assert (link.is_quiet(), link.has_left()) == (False, True)
    nothing = ByReading()
    nothing.register(0, 0)
    assert nothing.poll(0) == []
    assert POLLIN == select.POLLIN
