"""Time travel: replay a conversation, and look at its state at each turn.

A *pass* is one dry replay of a journal, that is, a replay without effects. Whenever all tasks are blocked,
the pass records the turn's inputs and sent messages, the line where the code waits, and the variables. The
record of one turn is a *notch*.
"""
