"""Conversations: how events reach them, how their coroutines run, and the author's handle on a chat.

The modules, in the order in which an event passes through them: `inbox_reader` returns the event, and the
`dispatcher` passes the event to its chat, a `chat_actor` in the `registry`. The actor's `mailbox` has the
waiting events, and the actor's `running_set` has the running conversations. `routes` decides which
conversation takes the event, and `refusals` handles events that no conversation takes. A `conversation` runs
an author's coroutine (`running`) in one of the `tasks`, and is the owner of the run. The coroutine uses a
`chat` and the chat's `questions`, `blocks`, `charges` and `data`; `calls` reach other chats. All of these use
`operations`, which connect the conversation with the actor. The journal of a conversation is written by
`journal_writer`, `units` and `workload`. `revival` restores a conversation from the journal, and `inspection`
describes a conversation. All chats of a bot have one `shared` object. `services` has the interfaces to store,
outbox and clock, `texts` has the runtime's own messages, and `notices` has the hints for developers.
"""
