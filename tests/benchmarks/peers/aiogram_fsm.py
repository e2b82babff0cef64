"""aiogram's own way to a conversation: a state in memory and a handler for it; each text is said back."""

import sys

from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.filters import StateFilter
from aiogram.fsm.context import FSMContext
from aiogram.fsm.state import State, StatesGroup
from aiogram.types import Message
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web

port, platform, secret, token = sys.argv[1:5]
session = AiohttpSession(api=TelegramAPIServer.from_base(platform))
bot, dispatcher = Bot(token, session=session), Dispatcher()


class Talk(StatesGroup):
    asked = State()


async def ask(message: Message, state: FSMContext) -> None:
    await state.set_state(Talk.asked)
    await state.update_data(last=message.text)
    await bot.send_message(message.chat.id, message.text)


@dispatcher.message(StateFilter(None))
async def begin(message: Message, state: FSMContext) -> None:
    await ask(message, state)


@dispatcher.message(Talk.asked)
async def go_on(message: Message, state: FSMContext) -> None:
    await state.get_data()
    await ask(message, state)


app = web.Application()
SimpleRequestHandler(dispatcher, bot, handle_in_background=True).register(app, path=f"/{secret}")
web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)
