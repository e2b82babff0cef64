"""Stores and logs alarms, calls the author's hook, and sends alarms to people."""
