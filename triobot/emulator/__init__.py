"""The platform in a box, both directions, for people, for clients in any language, and for tests.

Read it in this order: `chats`, `bills` (what there is), `world` (where it is, with its people), `performing`
(what a bot does to it), `acts` (what people do); all of that is pure. Then `exchange` joins it to time,
files and the network, `api` and `control` are its two HTTP faces behind one `door`, `pusher` posts events,
and `server` runs it all. `person` is a client of the control API.

The page is the platform's app in a browser, with the machine room beside it. The server hands out the files
in `page/assets`, which hold no secret; `follower` says what there is to see and what has changed, and sends
that to a page that has shown the control token. How the scripts belong together is told at the top of
``page/assets/main.js``.

Nothing here is imported by a bot that runs in production.
"""
