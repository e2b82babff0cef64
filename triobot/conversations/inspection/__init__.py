"""Inspect conversations without changing them.

`rerun` replays a journal in a dry run. In a dry run, the stand-ins from `closed` replace the resources.
`replay_state` describes the point that a run has reached. `checking` compares a dry run with the live
conversation. `portrait` describes a chat to an operator.
"""
