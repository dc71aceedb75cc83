"""What the person at the terminal sees: steps, one line of live progress, failures.

All of it goes to standard error; standard output is for results. Without a terminal, progress is a line
every few seconds instead of one that is rewritten.
"""

from __future__ import annotations

import time
from typing import TextIO

_QUIET_EVERY_S = 5.0


class Terminal:
    """Writes to one stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._pending = False
        self._last_shown = 0.0
        self._started = time.monotonic()

    def step(self, text: str) -> None:
        self.end_progress()
        self._write(f"==> {text}\n")

    def say(self, text: str) -> None:
        self.end_progress()
        self._write(text + "\n")

    def failure(self, text: str) -> None:
        self.end_progress()
        self._write(f"\nfailed: {text}\n")

    def progress(self, text: str) -> None:
        """Replaces the line of progress."""
        line = f"    {time.monotonic() - self._started:6.1f} s  {text}"
        if self._live:
            self._write(f"\r\x1b[K{line}")
            self._pending = True
        elif time.monotonic() - self._last_shown > _QUIET_EVERY_S:
            self._last_shown = time.monotonic()
            self._write(line + "\n")

    def end_progress(self) -> None:
        if self._pending:
            self._write("\n")
            self._pending = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
