"""One coroutine of the author's while it runs.

`branches` are its tasks, `waits` what it would take and `taking` how, `lines` where in the author's code it
is, `leash` what lets go of code that doesn't end, `endings` and `failures` how it ends.
"""
