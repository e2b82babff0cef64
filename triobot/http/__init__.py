"""HTTP/1.1 on Trio, client and server, independent of bots.

A bot without this package is slower, and logs that the package is missing (`triobot.seams.own_http`).
Suggested reading order:

- both sides: `links` (bytes over a connection);
- the client: `response` (pure), `connections`;
- the server: `request` (pure), `server_connection` (with `Talk`, one request and its response), `listener`.
"""
