"""aiogram on aiohttp, as its documentation has it for webhooks: it answers 200 first, then handles."""

import sys

from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import Message
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web

port, platform, secret, token = sys.argv[1:5]
session = AiohttpSession(api=TelegramAPIServer.from_base(platform))
bot, dispatcher = Bot(token, session=session), Dispatcher()


@dispatcher.message()
async def echo(message: Message) -> None:
    await bot.send_message(message.chat.id, message.text)


app = web.Application()
SimpleRequestHandler(dispatcher, bot, handle_in_background=True).register(app, path=f"/{secret}")
web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)
