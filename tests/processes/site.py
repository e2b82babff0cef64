"""A quart-trio site with a bot below ``/bot``, for hypercorn to serve."""

from __future__ import annotations

from quart_trio import QuartTrio

from tests.processes.bots import bot

app = QuartTrio("site")
app.config["SHUTDOWN_TIMEOUT"] = 0.05
app.config["BACKGROUND_TASK_SHUTDOWN_TIMEOUT"] = 0.05
bot.mount(app, "/bot")


@app.get("/")
async def home() -> str:
    """The site's own page."""
    return "home"
