"""Alarms: stored, logged, passed to the author's hook, and sent to people."""
