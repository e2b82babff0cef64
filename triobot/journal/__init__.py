"""Conversations that survive `kill -9`: a coroutine is a fold over the journal of its turns.

A **turn** gives one thing to a conversation (the event that a wait took, the result of an effect, a sleep's
end, a scope's expiry, an interrupt) and lasts until the task that got it parks in its next operation. At most
one turn runs at a time, live as on replay. So the ordered list of what was given *is* the conversation:
whoever runs the same code over the same list gets the same local variables, the same open timeouts and the
same parked operations. Nothing else is recorded.

Read it in this order: `records` (what is written down) and `faults` (errors as records), `world` (what a
conversation needs of what is around it), `branches` (its tasks, ids and parked operations), `stimuli`
(which of several things comes first) and `history` (the recorded ones), `turns` (the turnstile: who runs
next), `operations` (how a wait, a sleep and an effect park and go on), `scopes`, `nursery` and `between`
(blocks, children, and what they say to one another), `refusal` (how an incarnation dies), and `incarnation`,
which puts them together.
"""
