"""An emulated platform, with both directions of its interface: for people, for any client, and for tests.

Read the modules in this order: `chats` and `bills` (the data), `world` (holds the data, and the people),
`performing` (the bot's operations), `acts` (people's acts). All of these are pure. Then `exchange` connects
them to time, files and the network; `api` and `control` are the two HTTP interfaces behind one `door`;
`pusher` posts events; and `server` runs everything. `person` is a client of the control API.

The page is the platform's app in a browser, with a view of the requests, the faults and the bot's process.
The server serves the files in `page/assets` to everyone, since they contain no secret. `follower` collects
the current state and its changes, and sends both to a page that has shown the control token. The comment at
the top of ``page/assets/main.js`` describes how the scripts depend on one another.

A bot in production imports nothing of this package.
"""
