"""The platform's interface as values and bytes, both ways, without I/O.

Read it in this order: `ids`, `content`, `markup`, `forms` (the parts), `events` (what comes in),
`operations` and `results` (what goes out, and its answer; in `traits`, what holds for each operation),
`encode` and `decode` (the only ways to and from bytes; behind them `json_text`). Operations outside the
interface are in `undocumented`. The gaps that docstrings cite, by number, are on the page `docs/gaps.md`:
what the interface leaves open, with what we do.

Nothing here waits, reads a clock or opens a file.
"""
