"""The platform in a box, both directions, for people, for clients in any language, and for tests.

Read it in this order: `people`, `chats`, `bills` (what there is), `world` (where it is), `performing` (what a
bot does to it), `acts` (what people do); all of that is pure. Then `exchange` joins it to time,
files and the network, `api` and `control` are its two HTTP faces behind one `door`, `pusher` posts events,
and `server` runs it all. `person` is a client of the control API.

Nothing here is imported by a bot that runs in production.
"""
