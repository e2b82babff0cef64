"""What was, seen again: any conversation at any of its turns.

A *pass* runs a journal once more, dry, and looks whenever everything rests: what came, what was sent, in
which line the code stands, with which variables. What it saw at one turn is a *notch*.
"""
