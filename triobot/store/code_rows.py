"""The rows about the author's code: sources that were loaded, builds with the time of their first start, and
the sites that records refer to.

A site's number is a hash of its content, so all processes use the same numbers, and an existing row never
changes.
"""

from __future__ import annotations

import json
import zlib
from typing import Final, final

from ..seams.journals import AcceptedChange, Deployed, KeepCode, StoredCode
from .sql import Sql

CREATE_CODE: Final = (
    "CREATE TABLE sources (digest TEXT PRIMARY KEY, name TEXT NOT NULL, text BLOB NOT NULL)",
    """CREATE TABLE sites (
        id INTEGER PRIMARY KEY,
        before INTEGER NOT NULL,
        digest TEXT NOT NULL,
        function TEXT NOT NULL,
        line INTEGER,
        begins INTEGER,
        last INTEGER,
        ends INTEGER
    )""",
    # `seq`: number of the newest event when the build was first started. Conversations that began earlier
    # have numbers up to this `seq`.
    """CREATE TABLE deployed (
        at INTEGER PRIMARY KEY,
        build INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        sources TEXT NOT NULL
    )""",
    """CREATE TABLE accepted (
        function TEXT NOT NULL,
        was TEXT NOT NULL,
        now TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (function, was, now)
    )""",
)
_OLDEST: Final = (
    "SELECT min(id) FROM (SELECT min(id) AS id FROM conversations UNION ALL"
    " SELECT min(seq) FROM inbox WHERE begun IS NOT NULL) AS oldest"
)
_STALE_SITES: Final = (
    "DELETE FROM sites WHERE before <> 0 AND before NOT IN (SELECT id FROM sites) OR digest <> '' AND"
    " substr(digest, 1, 1) <> '!' AND digest NOT IN (SELECT digest FROM sources)"
)


@final
class CodeTables:
    """The rows of one store about the author's code."""

    def __init__(self, connection: Sql) -> None:
        self._sql = connection

    def keep(self, write: KeepCode, seq: int) -> None:
        """Insert the rows that are new. With a new build, also delete code that no conversation needs.

        Args:
            seq: number of the newest event.
        """
        self._sql.executemany(
            "INSERT INTO sources (digest, name, text) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING",
            [(digest, name, zlib.compress(text.encode())) for digest, name, text in write.sources],
        )
        self._sql.executemany(
            "INSERT INTO sites (id, before, digest, function, line, begins, last, ends)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            write.sites,
        )
        if (deployed := write.deployed) is not None:
            self._sql.execute(
                "INSERT INTO deployed (at, build, seq, sources) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (at) DO UPDATE SET build = excluded.build, sources = excluded.sources",
                (deployed.at, deployed.build, seq, json.dumps(deployed.sources)),
            )
            self._sweep(seq)

    def _sweep(self, seq: int) -> None:
        """Delete each build that was replaced before the oldest conversation began, and the build's code."""
        found: tuple[int | None] = self._sql.execute(_OLDEST).fetchone()
        oldest = seq + 1 if found[0] is None else found[0]
        self._sql.execute("DELETE FROM accepted WHERE seq < ?", (oldest,))
        gone = self._sql.execute(
            "DELETE FROM deployed WHERE at < (SELECT max(at) FROM deployed WHERE seq < ?)", (oldest,)
        ).rowcount
        if gone <= 0:
            return
        rows: list[tuple[str]] = self._sql.execute("SELECT sources FROM deployed").fetchall()
        kept = {digest for (text,) in rows for digest in json.loads(text)}
        known: list[tuple[str]] = self._sql.execute("SELECT digest FROM sources").fetchall()
        stale = [(digest,) for (digest,) in known if digest not in kept]
        self._sql.executemany("DELETE FROM sources WHERE digest = ?", stale)
        while self._sql.execute(_STALE_SITES).rowcount > 0:
            pass  # after a site's deletion, all sites that refer to this site are stale too

    def accept(self, change: AcceptedChange, seq: int) -> None:
        """Store the author's declaration that two calls are the same operation.

        Args:
            seq: number of the newest event.
        """
        self._sql.execute(
            "INSERT INTO accepted (function, was, now, seq) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (function, was, now) DO UPDATE SET seq = excluded.seq",
            (change.function, change.was, change.now, seq),
        )

    # --- reading

    def code(self) -> StoredCode:
        """Return all rows."""
        ran: list[tuple[int, int, str]] = self._sql.execute(
            "SELECT at, build, sources FROM deployed ORDER BY at"
        ).fetchall()
        read: list[tuple[str, str, bytes]] = self._sql.execute(
            "SELECT digest, name, text FROM sources ORDER BY name, digest"
        ).fetchall()
        said: list[tuple[str, str, str]] = self._sql.execute(
            "SELECT function, was, now FROM accepted ORDER BY function, was, now"
        ).fetchall()
        return StoredCode(
            tuple(Deployed(at, build, tuple(json.loads(sources))) for at, build, sources in ran),
            {digest: (name, zlib.decompress(text).decode()) for digest, name, text in read},
            tuple(
                self._sql.execute(
                    "SELECT id, before, digest, function, line, begins, last, ends FROM sites ORDER BY id"
                ).fetchall()
            ),
            tuple(AcceptedChange(*row) for row in said),
        )
