"""What the author declared, and where an event goes.

`router` is where authors declare, `declarations` what comes of it, `filters` what takes an event and as what;
`routing` is the table that says who gets an event (pure).
"""
