"""Bots written with other people's clients of the platform, against the emulator.

    python -m tests.emulator.public_clients [Api.php]

Installs npm's gap_api and PyPI's GapBot into a folder of their own, starts a small bot with each, and lets a
person talk to it: what their authors tried against the real platform has to work here, too. Prints what
did. Needs node, pip and npm; not run by the tests. The platform's own PHP client is in none of those two
registries: name its file, and it is tried as well, with php and its curl extension.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from tests.loopback import PATIENCE
from triobot.emulator.faults import Switches
from triobot.emulator.person import AppError, NotSeenError, connect
from triobot.emulator.server import Emulator, serve_emulator
from triobot.wire.content import Image, Location

TOKEN = "a" * 64
PICTURE = Path(__file__).parents[2] / "examples" / "pizza.jpg"
PHP_WORDS: dict[str, str | re.Pattern[str] | type[Image] | type[Location]] = {
    "picture": Image,
    "place": Location,
    "invoice": re.compile("^invoice [0-9]+$"),
    "pictured": "pictured",
    "delete": "gone",
    "game": "game 42",
}
Step = Callable[[], Awaitable[object]]

NODE = """
const GapApi = require('gap_api');
const gap = new GapApi(process.argv[2], {port: Number(process.argv[4])});
gap.apiUrl = process.argv[3] + '/';
gap.onJoin(e => gap.sendText(e.chat_id, 'welcome', [[{a: 'A key'}]],
    [[{text: 'Press', cb_data: 'pressed'}]], [{type: 'text', name: 'city', label: 'City'},
    {type: 'submit', name: 's', label: 'Go'}]));
gap.onText(e => { if (e.type === 'text') gap.sendText(e.chat_id, 'you said ' + e.data); });
gap.onTriggerButton(e => { const d = JSON.parse(e.data);
    gap.answerCallback(e.chat_id, d.callback_id, 'tooltip', false)
    .then(() => gap.editText(e.chat_id, d.message_id, 'edited ' + d.data)); });
gap.onSubmitForm(e => gap.sendText(e.chat_id, 'form ' + JSON.parse(e.data).data));
gap.onPaid(d => gap.sendText(process.argv[5], 'paid ' + d.ref_id));
"""

PYTHON = """
import sys, json, logging
logging.disable(logging.CRITICAL)
from gapbot.ext import BaseClient
BaseClient.BASE_URL = sys.argv[2]
from gapbot import Gap
gap = Gap(host='127.0.0.1', port=int(sys.argv[3]), bot_token=sys.argv[1])
def handle(client, e):
    one = lambda v: v[0] if isinstance(v, list) else v
    chat, kind, data = one(e['chat_id']), one(e['type']), one(e.get('data'))
    if kind == 'join':
        client.send_text(chat, 'welcome', inline_keyboard=[[{'text': 'Press', 'cb_data': 'pressed'},
            {'text': 'Buy', 'amount': 1000, 'currency': 'IRR', 'ref_id': '77', 'desc': 'Tea'}]])
    elif kind == 'text':
        client.send_text(chat, 'you said ' + str(data))
    elif kind == 'triggerButton':
        d = data if isinstance(data, dict) else json.loads(data)
        print(client.answer_callback(chat, d['callback_id'], 'tooltip').status_code, flush=True)
        client.edit_message(chat, d['message_id'], 'edited ' + d['data'])
    elif kind.lower() == 'paycallback':
        d = data if isinstance(data, dict) else json.loads(data)
        client.send_text(chat, 'paid ' + client.verify_payment(chat, d['ref_id']).json()['status'])
gap.handler = handle
gap.run()
"""

PHP = """<?php
require getenv('GAP_API');
class Gap extends Gap\\SDP\\Api {
  function __construct() {
    parent::__construct(getenv('GAP_TOKEN'));
    $this->baseURL = getenv('GAP_BASE') . '/';
  }
}
$gap = new Gap();
$chat = $_POST['chat_id'];
$data = $_POST['data'] ?? '';
$read = json_decode($data, true);
switch (strtolower($_POST['type'])) {
  case 'join':
    $gap->sendAction($chat, 'typing');
    $gap->sendText($chat, 'welcome', $gap->replyKeyboard([[['a' => 'A key']]]), [[
      ['text' => 'Press', 'cb_data' => 'pressed'],
      ['text' => 'Buy', 'amount' => 1000, 'currency' => 'IRR', 'ref_id' => '77', 'desc' => 'Tea']]],
      [['type' => 'text', 'name' => 'city', 'label' => 'City'],
      ['type' => 'submit', 'name' => 's', 'label' => 'Go']]);
    break;
  case 'text':
    switch ($data) {
      case 'picture': $gap->sendImage($chat, getenv('GAP_PICTURE'), 'look'); break;
      case 'place': $gap->sendLocation($chat, '35.7', '51.4', 'here'); break;
      case 'invoice': $gap->sendText($chat, 'invoice ' . $gap->sendInvoice($chat, 500, 'Tea')); break;
      case 'pictured': $gap->sendImageInvoice($chat, 500, getenv('GAP_PICTURE'), 'Tea');
        $gap->sendText($chat, 'pictured'); break;
      case 'delete': $gap->deleteMessage($chat, $gap->sendText($chat, 'to go'));
        $gap->sendText($chat, 'gone'); break;
      case 'game': $gap->setGameData($chat, 'save', '42'); $gap->leaderBoard($chat);
        $gap->sendText($chat, 'game ' . $gap->getGameData($chat, 'save')); break;
      default: $gap->sendText($chat, 'you said ' . $data);
    }
    break;
  case 'triggerbutton':
    $gap->answerCallback($chat, $read['callback_id'], 'tooltip');
    $gap->editMessage($chat, $read['message_id'], 'edited ' . $read['data']);
    break;
  case 'submitform': $gap->sendText($chat, 'form ' . $read['data']); break;
  case 'paycallback':
    $gap->sendText($chat, $gap->payVerify($chat, $read['ref_id']) ? 'paid' : 'not paid');
    break;
}
"""


def install(folder: Path) -> tuple[list[str], list[str]]:
    """Install both; the commands that start their bots, without arguments."""

    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    run("npm", "install", "--prefix", str(folder), "gap_api@1.3.0")
    (folder / "bot.js").write_text(NODE)
    run(sys.executable, "-m", "venv", str(folder / "py"))
    python = str(folder / "py/bin/python")
    pip = [python, "-m", "pip", "install", "-q"]
    # It asks for a Flask of 2019, which works with its own contemporaries only.
    old = ["GapBot==0.1.0", "Flask==2.2.5", "Werkzeug==2.2.3", "requests==2.31.0", "urllib3<2", "chardet<4"]
    needs = ["jinja2", "itsdangerous", "click", "idna", "certifi", "charset-normalizer"]
    run(*pip, "--no-deps", *old)
    run(*pip, *needs)
    (folder / "bot.py").write_text(PYTHON)
    return ["node", str(folder / "bot.js"), TOKEN], [python, str(folder / "bot.py"), TOKEN]


async def try_one(
    name: str, command: list[str], port: int, path: str, *, lower: bool, node: bool, php: Path | None = None
) -> None:
    """Start a bot, and talk to it."""
    print(f"{name}:")
    async with trio.open_nursery() as nursery:
        emulator: Emulator = await nursery.start(
            partial(
                serve_emulator,
                port=0,
                bot_url=f"http://127.0.0.1:{port}{path}",
                token=TOKEN,
                control_token="control",
                switches=Switches(lower_case_callbacks=lower),
            )
        )
        base = emulator.base_url
        arguments = command if php is not None else [*command, base, str(port), "13601"]
        given = {"GAP_API": str(php), "GAP_BASE": base, "GAP_TOKEN": TOKEN, "GAP_PICTURE": str(PICTURE)}
        process = await nursery.start(
            partial(trio.run_process, arguments, check=False, env={**os.environ, **given})
        )
        await wait_for_port(port)
        async with connect(emulator.control_url, "control") as app:
            ali = await app.user("Ali", irr=10_000)

            async def tried(what: str, act: Step, seen: Step) -> None:
                try:
                    await act()
                    await seen()
                except (AppError, NotSeenError) as error:
                    print(f"  {what}: NO ({str(error).splitlines()[0]})")
                else:
                    print(f"  {what}: yes")

            await tried("join and text out", partial(ali.joins), partial(ali.sees, "welcome"))
            await tried("text in", partial(ali.says, "hi"), partial(ali.sees, "you said hi"))
            if php is not None:
                await tried("payment, verify", partial(ali.pays, "Buy"), partial(ali.sees, "paid"))
            await tried("press, answer", partial(ali.presses, "Press"), partial(ali.sees_answer, "tooltip"))
            await tried("edit", partial(trio.sleep, 0), partial(ali.sees, "edited pressed"))
            if node or php is not None:
                await tried(
                    "form", partial(ali.submits, {"city": "Rasht"}), partial(ali.sees, "form city=Rasht")
                )
                await tried("key", partial(ali.presses, "A key"), partial(ali.sees, "you said a"))
            if php is not None:
                for word, seen in PHP_WORDS.items():
                    await tried(word, partial(ali.says, word), partial(ali.sees, seen))
            elif not node:
                await ali.leaves()
                await ali.joins()
                await ali.sees("welcome", within=PATIENCE)
                await tried("payment, verify", partial(ali.pays, "Buy"), partial(ali.sees, "paid verified"))
        refused = [
            (one.name, one.status)
            for one in emulator.exchange.traffic.since(0)
            if one.way == "operation" and one.status != 200
        ]
        print(f"  refused requests: {refused or 'none'}")
        process.kill()
        nursery.cancel_scope.cancel()


async def wait_for_port(port: int) -> None:
    """Wait until somebody listens."""
    with trio.fail_after(PATIENCE):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(0.1)
            else:
                await stream.aclose()
                return


async def main() -> None:
    """Install and try both."""
    with tempfile.TemporaryDirectory() as folder:
        node, python = await trio.to_thread.run_sync(install, Path(folder))
        await try_one("npm gap_api 1.3.0", node, 18093, "/", lower=True, node=True)
        await try_one("PyPI GapBot 0.1.0", python, 18094, "/webhook", lower=False, node=False)
        if sys.argv[1:]:
            bot, api = Path(folder) / "bot.php", Path(sys.argv[1]).resolve()
            bot.write_text(PHP)
            command = ["php", "-S", "127.0.0.1:18095", str(bot)]
            await try_one("the platform's PHP client", command, 18095, "/", lower=False, node=False, php=api)


if __name__ == "__main__":
    trio.run(main)
