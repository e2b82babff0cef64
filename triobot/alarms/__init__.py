"""Storing and logging of alarms, and sending to the author's hook and to people."""
