"""Declared routes, and the routing of events.

`router` has the decorators for authors. `declarations` has the routes and the table made of them. `filters`
select events, and convert them. `routing` decides which route or conversation gets an event; it is pure.
"""
