"""Time travel: replay a conversation, and look at its state at each turn.

A *pass* is one dry replay of a journal. Whenever all tasks are blocked, the pass records what the turn
received and sent, the line where the code waits, and the variables. The record of one turn is a *notch*.
"""
