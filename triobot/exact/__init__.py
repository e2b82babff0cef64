"""Changed code over old journals: which operation of the old source is which one of the present source.

`sites` says while code runs where an operation comes from. `sources` reads a source, `alignment` matches the
operations of two builds, and `verdicts` compares at replay the recorded site with the present one. Nothing
here runs an author's code, and all but `sites` is pure.
"""
