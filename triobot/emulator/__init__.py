"""An emulated platform for people, clients and tests: it answers the bot's operations and posts events.

Read the modules in this order: `chats` and `bills` (the data), `world` (all data, and the people),
`performing` (the bot's operations), `acts` (people's acts). These five modules are pure. Then `exchange`
connects the pure modules to time, files and the network; `api` and `control` are the two HTTP interfaces
behind one `door`; `pusher` posts events; and `server` runs everything. `person` is a client of the control
API.

The page is the platform's app in a browser, with a view of the requests, the faults and the bot's process.
The files in `page/assets` contain no secret, so the server sends them to every client. `follower` sends the
current state, and then the changes, to a page that has presented the control token. The comment at
the top of ``page/assets/main.js`` describes how the scripts depend on one another.

A bot in production imports nothing from this package.
"""
