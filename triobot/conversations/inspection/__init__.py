"""Conversations looked at without being moved.

`rerun` runs a journal again in a world where nothing happens; `standing` says where it stands
then, `checking` compares that with the living one, `fingerprint` tells operations apart without their
words; `portrait` is what an operator is shown.
"""
