"""Starts the Python processes of tests warm: forked from one that has imported the project already.

A command's imports take most of a second, and a run of all tests starts a thousand commands. What is started
warm is in all else a process of its own, and a child of the one that has asked for it: with its number, its
files, its folder, its variables, its signals and its exit code. Tests and the project's own code ask for it
as for any other, by `subprocess.Popen` or Trio's processes.

`popen` takes the place of `subprocess.Popen`; ``python -m tests.warm`` is the process that others are forked
from, which runs nothing of them; `becoming` is what makes a forked process the one that was asked for.

Tests that are marked ``cold`` start the real commands; with ``--long`` all do.
"""
