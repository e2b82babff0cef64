"""Puts the parts together: a bot, its settings, and what runs them."""
