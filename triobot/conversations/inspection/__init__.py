"""Conversations looked at without being moved.

`rerun` runs a journal again in a world where nothing happens, with the stand-ins of `closed`; `standing` says
where it stands then, `checking` compares that with the living one; `portrait` is what an operator is shown.
"""
