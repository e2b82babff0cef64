"""The lowest level: words, clocks, locks and errors that know nothing of a bot."""
