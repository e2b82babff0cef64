"""How long `triobot journal check` takes over many parked conversations, half of which other code would park.

    python -m tests.benchmarks.journal_check [PARKED] [FOLDER] [ARGUMENTS...]

One conversation of each of two routes is written by a running bot, and copied, each copy for a chat of its
own; what follows is handed to the command. In the code that is checked every line stands elsewhere: one route
asks in other words, and in the other one a question was inserted.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

import trio

from triobot.conversations.running.branches import fingerprint
from triobot.wire.ids import ChatId
from triobot.wire.operations import SendMessage

from .box import open_box

ANSWERS = 4

OLD = """from triobot import Bot, Chat
from triobot.filters import command

bot = Bot()


@bot.conversation(command("free"))
async def free(chat: Chat) -> None:
    number = 0
    while True:
        await chat.ask(f"Question {number}?")
        number += 1


@bot.conversation(command("parked"))
async def parked(chat: Chat) -> None:
    number = 0
    while number < 4:
        await chat.ask(f"Question {number}?")
        number += 1
    await chat.ask("The end?")
"""
TEXTS = [*(f"Question {number}?" for number in range(ANSWERS + 1)), "The end?"]
NEW = OLD.replace("bot =", "# Asks.\nbot =").replace("Question {", "Question no. {", 1)
NEW = NEW.replace('    await chat.ask("The', '    await chat.ask("Anything else?")\n    await chat.ask("The')


async def _two(folder: Path, path: Path) -> None:
    sys.path.insert(0, str(folder))
    async with open_box(import_module("asked").bot, path) as box:
        for chat, word in enumerate(("/free", "/parked"), 1):
            for said in (word, *["an answer"] * ANSWERS):
                await box.say(chat, said)
        await box.rest()


def fill(folder: Path, path: Path, parked: int) -> None:
    """Write so many conversations that wait."""
    (folder / "asked.py").write_text(OLD)
    trio.run(_two, folder, path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    rows = [dict(found) for found in connection.execute("SELECT * FROM conversations ORDER BY id")]
    journal = [dict(found) for found in connection.execute("SELECT * FROM journal ORDER BY conversation, n")]
    journals = [[one for one in journal if one["conversation"] == row["id"]] for row in rows]
    last = rows[-1]["id"]
    for number in range(2, parked):
        row, records = rows[number % 2], journals[number % 2]
        copied = {**row, "id": last + number, "chat_id": 1 + number}
        connection.execute(_insert("conversations", copied), copied)
        for record in records:
            text = "\n".join(_of_chat(1 + number, line) for line in record["records"].split("\n"))
            copied = {**record, "conversation": last + number, "records": text}
            connection.execute(_insert("journal", copied), copied)
    connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'inbox'", (last + parked,))
    connection.execute("COMMIT")
    connection.close()


def _of_chat(chat: int, line: str) -> str:
    """Return a record as that chat's journal would have it."""
    record = json.loads(line)
    if record[0] == "S":
        record[3][0]["class"][1]["chat_id"] = chat
    elif record[3] == "send sendMessage":
        prints = (fingerprint(SendMessage(ChatId(record[5]["sent"][0]), text)) for text in TEXTS)
        text = TEXTS[[*prints].index(record[4])]
        record[4] = fingerprint(SendMessage(ChatId(chat), text))
        record[5]["sent"][0] = chat
    else:
        record[5]["said"][0] = chat
    return json.dumps(record, separators=(",", ":"))


def _insert(table: str, row: dict[str, object]) -> str:
    names = ", ".join(row)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})"


def check(path: Path, folder: Path, *arguments: str) -> float:
    """Seconds that the command takes; prints how it ends."""
    command = [sys.executable, "-m", "triobot", "journal", "check", "asked:bot"]
    settings = {"TRIOBOT_TOKEN": "123456:benchmark-token", "TRIOBOT_BASE_URL": "http://127.0.0.1:9"}
    begun = time.perf_counter()
    ended = subprocess.run(
        [*command, "--store", f"sqlite:{path}", *arguments],
        env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join([str(folder), str(Path.cwd())])},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    took = time.perf_counter() - begun
    lines = ended.stdout.splitlines()
    print(f"{len(lines)} lines, the last: {lines[-1] if lines else ''}")
    return took


def main() -> None:
    """Read the arguments and measure."""
    parked = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        folder = Path(name)
        path = folder / "parked.db"
        begun = time.perf_counter()
        fill(folder, path, parked)
        print(f"{parked:,} conversations written in {time.perf_counter() - begun:.0f} s", flush=True)
        (folder / "asked.py").write_text(NEW)
        took = check(path, folder, *sys.argv[3:])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"checked in {took:.1f} s, with {used.ru_utime + used.ru_stime:.1f} s of CPU in all processes")


if __name__ == "__main__":
    main()
