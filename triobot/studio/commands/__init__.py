"""Commands for developers; each module implements the command of its name."""
