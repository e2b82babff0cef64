"""A route's coroutine while it runs.

`branches` tracks the coroutine's tasks. `hooks` runs hooks around the route's function. `lines` finds
positions in the author's code. `abandon` abandons coroutines that don't end. `failures` reports failed
conversations.
"""
