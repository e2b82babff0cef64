"""The platform's interface as values and bytes, both ways, without I/O.

Read it in this order: `ids`, `content`, `markup`, `forms` (the parts), `events` (what comes in),
`operations` and `results` (what goes out, and its answer), `encode` and `decode` (the only ways to and from
bytes; behind them `json_text` and `requests`), `gaps` (what the interface leaves open, numbered, with
what we do). Operations outside the interface are in `undocumented`.

Nothing here waits, reads a clock or opens a file.
"""
