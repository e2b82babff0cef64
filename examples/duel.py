"""Tic-tac-toe for two private chats with a chess clock: a lobby matches two players, each game is a room."""

from contextlib import suppress

import attrs

from triobot import Bot, Buttons, Chat, ChatId, Key, Press, Room, Sent
from triobot.errors import ForbiddenError
from triobot.filters import command, join, leave, pressed, signal

bot = Bot()
SECONDS = 60.0
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
WINS = Key("wins", int, default=0)  # a chat's
GAME = Key("game", str, default="")  # a chat's: the key of its game


@attrs.frozen
class Player:
    chat: ChatId
    name: str


@attrs.frozen
class Wants:
    player: Player


@attrs.frozen
class Begin:
    players: tuple[Player, Player]


@attrs.frozen
class GivesUp:
    chat: ChatId


@attrs.frozen
class Cell:
    game: str
    n: int


@attrs.frozen
class Moved:
    by: ChatId
    n: int


# --- a player's chat


@bot.aside(join() | command("play", "start"))
async def play(chat: Chat) -> None:
    await chat.send("Looking for an opponent... /resign gives up.")
    await chat.to(lobby).signal(Wants(Player(chat.id, chat.sender.name if chat.sender else "Somebody")))


@bot.aside(command("resign") | leave())
async def resign(chat: Chat) -> None:
    await chat.to(lobby).signal(GivesUp(chat.id))
    if chat.data[GAME]:
        await chat.to(game, chat.data[GAME]).signal(GivesUp(chat.id))


@bot.aside(pressed(Cell))
async def move(chat: Chat[Press[Cell]]) -> None:
    await chat.to(game, chat.event.value.game).signal(Moved(chat.id, chat.event.value.n))


# --- the lobby: one room


@bot.room(signal(Wants) | signal(GivesUp))
async def lobby(room: Room[Wants | GivesUp]) -> None:
    if isinstance(room.event, GivesUp):  # nobody waits, so nobody gives up
        return
    one = room.event.player
    with room.move_on_when(signal(GivesUp).where(lambda gone: gone.chat == one.chat)):
        two = (await room.receive(signal(Wants).where(lambda other: other.player.chat != one.chat))).player
        name = str(room.uuid())
        for player in (one, two):
            await room.to(player.chat).set(GAME, name)
        await room.to(game, name).signal(Begin((one, two)))


# --- a game: each game is a room, which gets only this game's moves


def board(name: str, cells: list[str]) -> Buttons[Cell]:
    return Buttons({Cell(name, n): cell or "·" for n, cell in enumerate(cells)}, columns=3)


async def show(room: Room, player: Player, screen: Sent | None, text: str, cells: list[str]) -> Sent | None:
    """Show the board to a player, unless the player has left; leaving ends the game."""
    buttons = board(room.key, cells)
    with suppress(ForbiddenError):
        if screen is None:
            return await room.to(player.chat).send(text, buttons=buttons)
        await room.to(player.chat).edit(screen, text, buttons=buttons)
    return screen


@bot.room(signal(Begin))
async def game(room: Room[Begin]) -> None:
    players = room.event.players
    cells, left, winner = [""] * 9, [SECONDS, SECONDS], -1
    screens: list[Sent | None] = []
    for player, other in (players, players[::-1]):
        screens.append(await show(room, player, None, f"Against {other.name}", cells))
    for n in range(9):
        turn = n % 2
        mover = players[turn].chat
        for player, screen in zip(players, screens, strict=True):
            if screen is not None:
                await show(room, player, screen, f"{'XO'[turn]} to move, {left[turn]:.0f} s", cells)
        began = room.now()
        with room.move_on_after(left[turn]) as flag:
            while True:
                match await room.receive(signal(Moved) | signal(GivesUp)):
                    case Moved(by=by, n=place) if by == mover and not cells[place]:
                        cells[place] = "XO"[turn]
                        break
                    case GivesUp(chat=who):
                        winner = 1 if who == players[0].chat else 0
                        break
                    case _:
                        pass  # out of turn, or on a taken cell
        left[turn] -= (room.now() - began).total_seconds()
        if flag.cancelled_caught:
            winner = 1 - turn
        elif any(cells[a] and cells[a] == cells[b] == cells[c] for a, b, c in LINES):
            winner = turn
        if winner >= 0:
            break
    for n, player in enumerate(players):
        wins = await room.to(player.chat).update(WINS, lambda wins, won: wins + won, n == winner)
        with suppress(ForbiddenError):
            result = "You won" if n == winner else "No luck"
            await room.to(player.chat).send(f"{result}. Wins so far: {wins}. /play again?")
