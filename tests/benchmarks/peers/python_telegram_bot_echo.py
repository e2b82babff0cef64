"""python-telegram-bot with its own webhook server, and 64 updates at once.

Its pool of connections is kept at 16: with more, the cost of a request in httpcore grows with the number of
connections that are open, and an echo takes several times as long.
"""

import sys

from telegram import Update
from telegram.ext import Application, ContextTypes, MessageHandler, filters

port, platform, secret, token = sys.argv[1:5]


async def echo(update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
    await context.bot.send_message(update.effective_chat.id, update.effective_message.text)


builder = Application.builder().token(token).base_url(f"{platform}/bot")
application = builder.concurrent_updates(64).connection_pool_size(16).pool_timeout(60).build()
application.add_handler(MessageHandler(filters.TEXT, echo))
application.run_webhook(
    listen="127.0.0.1", port=int(port), url_path=secret, webhook_url=f"https://bot.test/{secret}"
)
