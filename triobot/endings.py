"""Says which signals bring a process to rest."""

from __future__ import annotations

import signal


def ending_signals() -> list[signal.Signals]:
    """List the signals that end it in order: Ctrl-C, a polite kill, the closing of the terminal's window."""
    endings = [signal.SIGINT, signal.SIGTERM]
    for name in ("SIGHUP", "SIGBREAK"):  # Windows has the second
        ending: signal.Signals | None = getattr(signal, name, None)
        # Who said nohup wants it to outlive the window.
        if ending is not None and signal.getsignal(ending) is not signal.SIG_IGN:
            endings.append(ending)
    return endings
