"""The lowest layer: alarm kinds, clocks, file locks and helpers that don't depend on a bot."""
