"""The per-chat life: who gets an event, the coroutine that runs, the author's handle on its chat.

Read it in the order in which an event passes. `dispatcher` takes it to the chat that it belongs to, which is
a `life`: `mailbox` holds what waits there, `places` who runs, `routes` say who takes it, `refusals` what
becomes of what nobody takes. A `conversation` is one `running` coroutine, and `chat` is what that sees: its
`questions`, `blocks`, `charges` and `data`; `doors` lead to other chats. What a conversation did is written
down (`journal_writer`, `workload`), so that its `revival` finds it where it stood, and `inspection` can look
at it. `shared` is what the chats of a bot have in common, `services` what they use of the world, `texts` the
runtime's own words, `notices` what a developer is told.
"""
