"""The per-chat life: who gets an event, the coroutine that runs, the author's handle on its chat.

Read it in the order in which an event passes: `dispatcher` takes it from the inbox (`consumption` deletes it
there in the end, `signals` are what comes from elsewhere), `life` is the chat it belongs to, `routing` says
where it goes (pure), `routes` and `filters` are what the author declared, `waits` what a conversation would
take. `conversation` runs the coroutine, `failures` tells of its errors, `chat` is what the coroutine sees;
`asking`, `charging`, `holding`, `scopes`, `live`, `nursery` and `forms` are what the chat's methods do, with
`buttons` and `keys`. `house` is what all of them may ask of the dispatcher.
"""
