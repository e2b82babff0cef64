"""The per-chat life: who gets an event, the coroutine that runs, the author's handle on its chat.

Read it in the order in which an event passes: `dispatcher` takes it from the inbox, `life` is the chat it
belongs to, `routing` says where it goes (pure), `routes` and `filters` are what the author declared,
`conversation` runs the coroutine, `chat` is what the coroutine sees; `asking`, `charging`, `scopes`,
`nursery` and `forms` are what the chat's methods do.
"""
