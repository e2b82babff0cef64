"""Conversations leave memory, survive the process, and come back.

`journaling` is what a conversation's turns leave in the store, `opening` its first record, `stored` all of
it; `waking` says when somebody is needed, `reviving` brings them back, `beginning` gives each its
incarnation, `care` parks who takes the process down again and again, `build` knows whether the code is
another one.
"""
