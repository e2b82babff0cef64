"""``triobot demo``: a platform, a bot and a scripted user over real sockets; nothing to set up."""

from __future__ import annotations

import argparse
import hashlib
import logging
import secrets
from functools import partial
from tempfile import TemporaryDirectory
from typing import Final, final

import trio

from ...cli.arguments import port
from ...cli.terminal import set_up_logging, until_signal
from ...emulator.person import Person, connect
from ...emulator.server import Emulator
from ...errors import TriobotError
from ...wire.content import File
from .demo_bot import bot
from .transcript import Transcript, open_stage

DETAILS: Final = """\
Starts the emulated platform, a bot with a store in a temporary folder (on Windows in memory), and a scripted
user. Prints their conversation as it happens. Exits with 0 only if everything that it shows is true: what the
user saw, the wallet's balance, the bytes of the files. It reads no TRIOBOT_* variables, and leaves nothing
behind.

The bot is triobot/studio/commands/demo_bot.py.
"""

_WHO: Final = "Sara"
_WALLET: Final = 1_000_000
_PRICE: Final = 250_000
_PATIENCE: Final = 300.0  # the demo takes three seconds, and longer on a busy machine


@final
class DemoError(TriobotError):
    """A check of the demo failed."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", metavar="N", type=port, default=0, help="the platform's port (default: a free one)"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing unless it fails")


def run(arguments: argparse.Namespace) -> None:
    """Run the demo; raises DemoError if a check fails."""
    set_up_logging(debug=arguments.debug, level=logging.WARNING)
    if trio.run(until_signal, partial(_demo, arguments.port, arguments.quiet)):
        raise KeyboardInterrupt


async def _demo(port: int, quiet: bool) -> None:
    def write(line: str) -> None:
        if not quiet:
            print(line, flush=True)

    try:
        with trio.fail_after(_PATIENCE), TemporaryDirectory(prefix="triobot-demo-") as folder:
            store = f"sqlite:{folder}/demo.db"
            async with open_stage(bot, store=store, port=port) as stage:
                platform = stage.platform
                write(f"The platform is {platform.base_url}, the bot {stage.address}, and the user {_WHO}.\n")
                transcript = Transcript(platform, _WHO, write)
                async with (
                    trio.open_nursery() as nursery,
                    connect(platform.control_url, platform.control_token) as app,
                ):
                    nursery.start_soon(transcript.follow)
                    await _talk(await app.user(_WHO, irr=_WALLET), transcript)
                    await _check_bot(transcript)
                    _check_platform(platform, transcript)
                    nursery.cancel_scope.cancel()
                write(
                    "\nAll of that was one coroutine: triobot/studio/commands/demo_bot.py. More are in "
                    "examples/."
                )
    except* trio.TooSlowError:
        raise DemoError(f"the demo did not end within {_PATIENCE:g} seconds") from None


async def _talk(person: Person, transcript: Transcript) -> None:
    """Play the user, and check each message that the user sees."""
    await person.joins()
    await person.sees("Good evening! Your name?")
    await person.says(_WHO)
    await person.sees("Which size?")
    await person.presses("Large")
    await person.sees_answer("Good choice.")
    await person.sees("Where to?")
    transcript.act("taps Send my location")
    await person.presses("Send my location")

    await person.sees("How do we find you?")
    await person.submits({"floor": "three", "doorbell": "Ahmadi"})
    await person.sees("Floor: please enter a whole number.")
    await person.submits({"floor": "3", "doorbell": "Ahmadi", "cutlery": "true"})

    await person.sees("Which label shall we print on the box? Send a file.")
    label = bytes(range(256)) * 16 + secrets.token_bytes(1_000)
    await person.says(File.from_bytes(label, "label.dat"))
    proof = await person.sees(File)
    received = await person.opens(proof)
    _check(
        received == label,
        f"the file came back with {len(received):,} bytes other than the {len(label):,} sent",
    )

    await person.sees("A large pizza")
    await person.pays()
    await person.sees(f"Thank you, {_WHO}! We ring at Ahmadi in 30 minutes.")

    digest = hashlib.sha256(received).hexdigest()
    transcript.fact(f"the file came back byte for byte: {len(label):,} bytes, SHA-256 {digest[:16]}...")
    left = (await person.wallet())["IRR"]
    _check(left == _WALLET - _PRICE, f"the wallet holds {left:,} rials")
    transcript.fact(f"the wallet: {_WALLET:,} - {_PRICE:,} = {left:,} rials")


def _check_platform(platform: Emulator, transcript: Transcript) -> None:
    """Check that the platform captured the money, and that each event was accepted at its first delivery."""
    [bill] = platform.world.bills
    state = bill.state(platform.exchange.clock.now())
    _check(state == "captured", f"the payment is {state}")
    transcript.fact("the payment was verified within its hour, so the money is the bot's")
    deliveries = platform.exchange.pusher.deliveries.settled()
    _check(len(deliveries) > 0, "the bot got no event")
    _check(all(one.status == 200 and one.attempts == 1 for one in deliveries), "an event was refused")
    transcript.fact(f"{len(deliveries)} events, each answered 200 at its first delivery")


async def _check_bot(transcript: Transcript) -> None:
    """Wait until the bot has no live conversation and no unfinished event."""
    while True:
        now = bot.statistics()
        if not (now.live or now.store.inbox):
            break
        await trio.sleep(0.01)
    transcript.fact("the bot's store is empty again: every event and every payment has been dealt with")


def _check(so: bool, otherwise: str) -> None:
    if not so:
        raise DemoError(f"the demo isn't true: {otherwise}")
