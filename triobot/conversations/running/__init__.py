"""One coroutine of the author's while it runs.

`branches` are its tasks, `lines` where in the author's code it is, `leash` what lets go of code that doesn't
end, `failures` how it ends.
"""
