"""Give back every picture, video, song, voice message and file, and the checksum of each."""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import trio

from triobot import Audio, Bot, Chat, File, Image, Message, Video, Voice
from triobot.filters import message

bot = Bot()

media = message(Image) | message(Video) | message(Audio) | message(Voice) | message(File)


@bot.conversation(media)
async def back(chat: Chat[Message[Image | Video | Audio | Voice | File]]) -> None:
    received = chat.event.content
    # The platform has the bytes, so nothing is uploaded here: only the caption is new.
    await chat.send(attrs.evolve(received, caption=f"{received.kind}, {received.filesize} bytes"))

    digest = await chat.step(checksum, received)
    await chat.send(File.from_bytes(digest.encode(), "checksum.txt", caption="its SHA-256"))


@bot.conversation
async def hint(chat: Chat) -> None:
    await chat.send("Send me a picture, a video, a song, a voice message or a file.")


async def checksum(received: Image | Video | Audio | Voice | File) -> str:
    with TemporaryDirectory() as folder:
        # Never write to a path made of `received.filename`: a stranger chose it.
        path = await bot.download(received, Path(folder) / "received")
        return hashlib.sha256(await trio.Path(path).read_bytes()).hexdigest()


if __name__ == "__main__":
    bot.run()
