"""Comparison of changed code with old journals: finds the current operation for each recorded operation.

While code runs, `sites` finds the lines of the source from which an operation comes. `sources` parses a
source. `alignment` matches the operations of two builds. `reading` describes the code that decides an
operation's value. `verdicts` compares the recorded site with the current site at replay. Nothing in this
package runs an author's code. All modules but `sites` are pure.
"""
