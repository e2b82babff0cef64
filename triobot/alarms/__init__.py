"""Alarms: what rings until somebody looks, and whom it tells."""
