"""Alarms: store them, log them, and send them to the author's hook and to people."""
