"""The per-chat life: who gets an event, the coroutine that runs, the author's handle on its chat.

Read it in the order in which an event passes: `dispatcher` takes it from the inbox (`consumption` deletes it
there in the end; `signals` and `calls` are what comes from `elsewhere`), `life` is the chat it belongs to,
`places` who runs there and whose they are, `routing` says where it goes (pure), `declarations`, `routes` and
`filters` are what the author declared, `waits` what a conversation would take, `refusals` what nobody takes.
`conversation` runs the coroutine in `branches`, `failures` tells of its errors, `chat` is what the coroutine
sees; `asking`, `charging`, `holding`, `blocks`, `scopes`, `live`, `nursery` and `forms` are what the chat's
methods do, with `buttons` and `keys`; `address` and `doors` lead to other chats. `house` is what all of them
may ask of the dispatcher, `advice` what a developer is told.
"""
