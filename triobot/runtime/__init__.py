"""A bot, its settings, and the modules that run it."""
