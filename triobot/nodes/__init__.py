"""A bot whose store is in shards: what one process, a *node*, does so that all of them are one bot.

Read `frames` first: all that one shard may ask another. `owners` does it, in the shard that has the place;
`doors` finds that shard, be it in this process or in another. `inbox` hands each event to the inbox of its
chat's shard, and `announcing` spreads a broadcast over all of them. `node` has the shards of this process
side by side: each is the runtime of a bot by itself, in the same code.

`cluster` makes the process one of the nodes, `directory` knows who has what, `placement` says who should, and
`keeper` opens and closes the shards of this process accordingly.
"""
