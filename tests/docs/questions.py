"""What people ask about bots, from real threads of other libraries, and where our pages answer it.

Each question is put in the words of a search. `test_questions` looks whether the answer stands where this
says, and whether the words of the question lead there.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Question(NamedTuple):
    """What is asked, in which thread, and where the answer is: a page and its heading."""

    asked: str
    thread: str
    page: str
    heading: str


QUESTIONS: Final = (
    Question(
        "return to the user's last state after a reboot of the bot",
        "python-telegram-bot/python-telegram-bot#1890",
        "the-one-rule",
        "The one rule",
    ),
    Question(
        "set a timeout for a conversation",
        "python-telegram-bot/python-telegram-bot#648",
        "tutorial/04-timeout",
        "Set a timeout for a conversation, and tell the user",
    ),
    Question(
        "tell the user that the conversation has timed out",
        "python-telegram-bot/python-telegram-bot#1846",
        "tutorial/04-timeout",
        "Set a timeout for a conversation, and tell the user",
    ),
    Question(
        "don't end the conversation on a timeout",
        "python-telegram-bot/python-telegram-bot#4153",
        "tutorial/04-timeout",
        "Set a timeout for a conversation, and tell the user",
    ),
    Question(
        "a timeout that survives a restart",
        "python-telegram-bot/python-telegram-bot#3522",
        "the-one-rule",
        "The one rule",
    ),
    Question(
        "a /help command that comes back to the conversation",
        "python-telegram-bot/python-telegram-bot#1136",
        "coming-from",
        "Cancel and help",
    ),
    Question(
        "the code does something else than its journal when it is replayed",
        "grammyjs/conversations#7",
        "the-one-rule",
        "Find code that breaks the rule",
    ),
    Question(
        "call another service from within a conversation",
        "grammyjs/conversations#148",
        "the-one-rule",
        "Call another service in a step",
    ),
    Question(
        "flood limits, too many requests 429",
        "python-telegram-bot/python-telegram-bot#2038",
        "run",
        "Flood limits, too many requests (429), and sends that fail",
    ),
    Question(
        "a message to all users, a broadcast",
        "windkh/node-red-contrib-telegrambot#413",
        "broadcasts",
        "Start a broadcast",
    ),
    Question(
        "the bot was blocked by the user, 403",
        "eternnoir/pyTelegramBotAPI#2266",
        "troubleshooting",
        "The platform says 403: the token, or a user who blocked the bot",
    ),
    Question(
        "examples of how to test a bot",
        "aiogram/aiogram#378",
        "tutorial/05-test",
        "Understand the test",
    ),
    Question(
        "simulate a user in a test without a server",
        "python-telegram-bot/python-telegram-bot#2327",
        "testing",
        "Let people act",
    ),
    Question(
        "the webhook behind nginx",
        "yagop/node-telegram-bot-api#253",
        "run",
        "Behind nginx",
    ),
    Question(
        "the bot gets no events by its webhook",
        "python-telegram-bot/python-telegram-bot#836",
        "troubleshooting",
        "The bot's webhook gets no events",
    ),
    Question(
        "members of a group talk to the bot at the same time",
        "Tishka17/aiogram_dialog#425",
        "coming-from",
        "Groups",
    ),
    Question(
        "jobs that survive a restart",
        "python-telegram-bot/python-telegram-bot#974",
        "jobs",
        "Run jobs by the clock",
    ),
    Question(
        "jobs that were missed while the bot was down",
        "python-telegram-bot/python-telegram-bot#4080",
        "jobs",
        "Run jobs by the clock",
    ),
    Question(
        "a language for each user",
        "aiogram/aiogram#1655",
        "coming-from",
        "Languages",
    ),
    Question(
        "a bot inside an existing web site",
        "eternnoir/pyTelegramBotAPI#541",
        "embedding",
        "Mount the bot inside an existing web site",
    ),
    Question(
        "a message to all users who ever joined",
        "rubenlagus/TelegramBots#1341",
        "broadcasts",
        "Choose who gets it",
    ),
    Question(
        "delete a message after some time",
        "eternnoir/pyTelegramBotAPI#893",
        "coming-from",
        "Delete a message after some time",
    ),
    Question(
        "ask for the user's phone number",
        "python-telegram-bot/python-telegram-bot#876",
        "coming-from",
        "Ask for a phone number",
    ),
    Question(
        "split a message that is too long",
        "python-telegram-bot/python-telegram-bot#768",
        "coming-from",
        "Split a message that is too long",
    ),
    Question(
        "end the whole conversation from a nested one",
        "python-telegram-bot/python-telegram-bot#405",
        "coming-from",
        "End the whole conversation from a nested function",
    ),
    Question(
        "middleware that ignores flooding, throttlers",
        "eternnoir/pyTelegramBotAPI#668",
        "coming-from",
        "Middlewares",
    ),
)
