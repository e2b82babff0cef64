"""PostgreSQL servers for tests: Debian's package on loopback, with fsync, and data in a temporary folder.

Each worker of a test session has one server. The server ends with the session; if the session is killed, the
kernel ends the server. A store's schema is created once, and emptied between tests. Tests that kill a server
have their own server, with a standby.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.loopback import PATIENCE, free_port
from tests.processes.process import family, lives

if TYPE_CHECKING:
    from pwd import struct_passwd

ROLE = "bots"
KEPT = ("schema", "min_reader", "min_reader_release", "base_url", "salt", "digest")
"""What a store knows of itself from the day it is made."""


@attrs.define(eq=False)
class Server:
    """A server that runs.

    Attributes:
        port: on 127.0.0.1.
        folder: its data.
    """

    port: int
    folder: Path
    settings: Mapping[str, str] = attrs.field(factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _kept: dict[tuple[str, str], Any] = attrs.field(factory=dict, eq=False)

    def url(
        self,
        *,
        user: str = ROLE,
        database: str = "bots",
        host: str = "127.0.0.1",
        port: int = 0,
        query: str = "",
    ) -> str:
        """The address of a store on it."""
        behind = f"?{query}" if query else ""
        return f"postgresql://{user}@{host}:{port or self.port}/{database}{behind}"

    def ask(
        self, *statements: str, user: str = "postgres", database: str = "bots"
    ) -> list[tuple[object, ...]]:
        """Run these, each in a transaction of its own; return the rows of the last one."""
        import psycopg

        rows: list[tuple[object, ...]] = []
        key = (user, database)
        if key not in self._kept:
            self._kept[key] = psycopg.connect(self.url(user=user, database=database), autocommit=True)
        for statement in statements:
            found = self._kept[key].execute(statement.encode())
            rows = found.fetchall() if found.description else []
        return rows

    def start(self) -> None:
        """Start it, in the thread that lives as long as it is to, and wait until it takes connections."""
        within, programs = _within(self.folder.parent), _programs()
        assert programs is not None
        settings = {**_SETTINGS, **self.settings, "port": str(self.port)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder.parent / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*within, str(programs / "postgres"), "-D", str(self.folder), *options],
                cwd=self.folder.parent,
                stdout=log,
                stderr=log,
            )
        self.wait()

    def end(self) -> None:
        """End it if it runs, without waiting for its sessions."""
        self.close()
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE)

    def die(self) -> None:
        """Kill all of its processes, as if its machine lost its power."""
        assert self._process is not None
        pids = family(self._process.pid)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        while any(map(lives, pids)):
            time.sleep(0.005)
        self.close()

    def freeze(self) -> None:
        """Let none of its processes do anything until `thaw`: it takes connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        for pid in family(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_for_standby(self) -> None:
        """Wait until each of its commits waits for a standby."""
        while self.ask("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            time.sleep(0.01)

    def catch_up(self, primary: Server) -> None:
        """Wait until a standby has all that its primary has now."""
        ((now,),) = primary.ask("SELECT pg_current_wal_flush_lsn()")
        while self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{now}'") != [(True,)]:
            time.sleep(0.01)

    def lag(self) -> None:
        """Have a standby hear nothing of its primary any more; what it has heard is done then."""
        self.set("primary_conninfo", "''")
        heard = (
            "SELECT wait_event = 'RecoveryRetrieveRetryInterval' OR"
            " pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn()"
            " FROM pg_stat_activity WHERE backend_type = 'startup'"
        )
        for question, answer in (("SELECT count(*) FROM pg_stat_wal_receiver", 0), (heard, True)):
            while self.ask(question) != [(answer,)]:
                time.sleep(0.01)

    def promote(self) -> None:
        """Make the primary of a standby, and wait until it takes writes."""
        self.ask("SELECT pg_promote()")

    @contextmanager
    def admitting(self, rule: str) -> Generator[None]:
        """Admit connections by this rule first, for as long as the block runs."""
        rules = self.folder / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"{rule}\n{before}")
        self._reload()
        try:
            yield
        finally:
            rules.write_text(before)
            self._reload()

    def set(self, setting: str, value: str) -> None:
        """Have another setting from now on."""
        self.ask(f"ALTER SYSTEM SET {setting} = {value}")
        self._reload()

    @contextmanager
    def having(self, setting: str, value: str) -> Generator[None]:
        """Have another setting for as long as the block runs."""
        self.set(setting, value)
        try:
            yield
        finally:
            self.ask(f"ALTER SYSTEM RESET {setting}")
            self._reload()

    def _reload(self) -> None:
        """Have the settings read anew, and wait until new sessions have them."""
        loaded = self.ask("SELECT pg_conf_load_time()")
        self.ask("SELECT pg_reload_conf()")
        # The server's first process reads the settings before it notifies the other processes.
        while self.ask("SELECT pg_conf_load_time()") == loaded:
            time.sleep(0.005)

    def crash(self) -> None:
        """Kill a session of the bots with SIGKILL: the server ends all others, and recovers from its log."""
        import psycopg

        ((pid,),) = self.ask("SELECT pid FROM pg_stat_activity WHERE usename = 'bots' LIMIT 1")
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(psycopg.OperationalError):
            while True:  # until the server ends this session, too
                self.ask("SELECT 1")
        self.close()
        self.wait()

    def wait(self) -> None:
        """Wait until it takes connections."""
        import psycopg

        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.ask("SELECT 1", database="postgres")
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
                self.close()
            else:
                return

    def close(self) -> None:
        """Close the connections over which it was asked."""
        for connection in self._kept.values():
            connection.close()
        self._kept.clear()

    def dump(self, schema: str) -> bytes:
        """Return a schema as pg_dump writes it down."""
        return self._run("pg_dump", "--schema", schema)

    def load(self, dump: bytes, schema: str) -> None:
        """Put a schema back from its dump, in place of the one that is there."""
        self.ask(f"DROP SCHEMA {schema} CASCADE")
        self._run("psql", "--quiet", "--set", "ON_ERROR_STOP=1", given=dump)

    def _run(self, program: str, *arguments: str, given: bytes = b"") -> bytes:
        programs = _programs()
        assert programs is not None
        command = [programs / program, *arguments, self.url()]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout

    def empty(self, schema: str = "triobot") -> None:
        """Make the store in this schema as if it had just been made, if there is one."""
        kept = ", ".join(f"'{name}'" for name in KEPT)
        self.ask(
            f"""DO $$ DECLARE name text; BEGIN
            FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                WHERE schemaname = '{schema}' AND tablename NOT IN ('meta', 'owner')
            LOOP EXECUTE 'DELETE FROM ' || name; END LOOP;
            IF to_regclass('{schema}.owner') IS NOT NULL THEN
                DELETE FROM {schema}.meta WHERE meta.name NOT IN ({kept});
                UPDATE {schema}.owner SET id = NULL, name = NULL;
                PERFORM setval('{schema}.numbers', 0);
            END IF; END $$"""
        )


def why_not() -> str | None:
    """Why no server can be started here, or None."""
    if _programs() is None:
        return "PostgreSQL isn't installed (Debian's package is postgresql)"
    if shutil.which("setpriv") is None:
        return "setpriv (util-linux) isn't installed, which ends a server with its tests"
    if os.geteuid() == 0 and _owner() is None:
        return "PostgreSQL doesn't run as root, and there is no user postgres"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "the extra postgres isn't installed"
    return None


def _programs() -> Path | None:
    """The folder of the newest server that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: int(one.parts[-3]))
    return found[-1].parent if found else None


def _owner() -> struct_passwd | None:
    import pwd  # missing on Windows, where other tests also import this module

    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return None


_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "autovacuum": "off",
}


def _within(folder: Path) -> list[str]:
    """What a server's programs begin with: the kernel ends them, without waiting, when this process ends."""
    within = ["setpriv", "--pdeathsig", "INT"]
    if os.geteuid() == 0:
        owner = folder.stat()
        within += [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"]
    return within


@contextmanager
def _made(program: str, *arguments: str) -> Generator[Server]:
    """Have a program make a server's data, and give the server; it is ended behind the block if it runs."""
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="triobot-postgres-"))
    try:
        if os.geteuid() == 0:
            owner = _owner()
            assert owner is not None
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data = folder / "data"
        command = [*_within(folder), str(programs / program), "-D", str(data), *arguments, "--no-sync"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        server = Server(free_port(), data)
        try:
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def run_server(**settings: str) -> Generator[Server]:
    """A server with a role and a database, for as long as the block runs."""
    with _made("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C") as server:
        # Files that bots write on their machine are deleted with the server, and aren't in a user's home.
        before = os.environ.get("STATE_DIRECTORY")
        os.environ["STATE_DIRECTORY"] = str(server.folder.parent / "state")
        try:
            server.settings = settings
            server.start()
            server.ask(f"CREATE ROLE {ROLE} LOGIN", f"CREATE DATABASE bots OWNER {ROLE}", database="postgres")
            yield server
        finally:
            if before is None:
                del os.environ["STATE_DIRECTORY"]
            else:
                os.environ["STATE_DIRECTORY"] = before


@contextmanager
def run_pair(*, synchronous: bool) -> Generator[tuple[Server, Server]]:
    """A server, and a standby that streams from it, for which each commit waits if that is synchronous."""
    with run_server() as primary:
        conninfo = primary.url(user="postgres", database="postgres")
        # The standby's data is copied before `synchronous_standby_names` is set, so the copy contains no such
        # setting.
        with _made("pg_basebackup", "-d", conninfo, "-R", "-c", "fast") as standby:
            standby.start()
            if synchronous:
                primary.set("synchronous_standby_names", "'*'")
                primary.wait_for_standby()
            yield primary, standby


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Server]:
    """A server of this worker's own."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with run_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Server) -> Server:
    """The worker's server, with an empty store in the schema that an address without one names."""
    postgres_server.empty()
    return postgres_server
