"""A route's coroutine while it runs.

`branches` tracks its tasks. `lines` finds its position in the author's code. `leash` abandons code that
doesn't end. `failures` reports how it ends. `hooks` runs the hooks around it.
"""
