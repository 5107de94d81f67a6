"""Progress of a run on standard error, from two seconds on, for any destination.

On a terminal there is one line, which the next output replaces. A log keeps every state, with a
line after two seconds and then one every ten. Nothing is shown with --quiet.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import sys
import time
from threading import Event, Thread

from ptxwcet.cli.output import echo, is_quiet, show_status, wipe_status

_BAR = 30
_TERMINAL_SECONDS = 0.5
_LOG_SECONDS = 10.0
FIRST_SECONDS = 2.0
"""When something is shown for the first time."""

_spoken = 0.0  # when a line of progress was last shown, by time.monotonic


class ProgressLine:
    """The completed part of some work, reported by the work itself."""

    def __init__(self, things: str = "blocks") -> None:
        self._things = things
        self._start = time.monotonic()
        self._next = self._start + FIRST_SECONDS

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        wipe_status()

    def show(self, done: int, blocks: int, instructions: int | None = None) -> None:
        """Shows how many of all ``blocks`` (or other things) are done; often called."""
        text = f"{done:,} of {blocks:,} {self._things}"
        if instructions is not None:
            text += f", {instructions:,} warp-instructions"
        self.show_part(text, done / blocks)

    def show_part(self, text: str, done: float) -> None:
        """Shows the current work, and its completed part (0 to 1).

        Raises BrokenPipeError if standard output is a closed pipe, so that the work can end.
        """
        global _spoken
        _require_reader()
        now = time.monotonic()
        if now < self._next or is_quiet():
            return
        _spoken = now
        self._next = now + _between()
        if not _is_terminal():
            echo(f"{text} after {now - self._start:.0f} s", err=True)
            return
        filled = int(_BAR * done)
        show_status(f"[{'#' * filled}{'.' * (_BAR - filled)}] {text}")


class StillAtWork:
    """A line that a command is still at work, for work that does not report progress.

    It names the last logged item (a kernel). A thread of its own shows it, so long steps need no
    interruption.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._start = time.monotonic()
        self._stop = Event()
        self._stage = _Stage()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> StillAtWork:
        if not is_quiet():
            self._stage.listen()
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.ident is not None:
            self._stop.set()
            self._thread.join()
            self._stage.leave()
            wipe_status()

    def _watch(self) -> None:
        wait = FIRST_SECONDS
        with contextlib.suppress(OSError, ValueError):  # the reader has closed it
            while not self._stop.wait(wait):
                wait = _between()
                if time.monotonic() - _spoken >= wait:
                    self._say()

    def _say(self) -> None:
        stage = f", {self._stage.message}" if self._stage.message else ""
        seconds = time.monotonic() - self._start
        text = f"{self._command}: at work for {seconds:.0f} s{stage}"
        if _is_terminal():
            show_status(text)
        else:
            echo(text, err=True)


class _Stage(logging.Handler):
    """The last thing that was logged, while it listens."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.message = ""
        self._logger = logging.getLogger("ptxwcet")
        self._before = self._logger.level

    def listen(self) -> None:
        self._before = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)

    def leave(self) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._before)

    def emit(self, record: logging.LogRecord) -> None:
        self.message = record.getMessage()


def _require_reader() -> None:
    """Raises BrokenPipeError if standard output is a pipe without a reader."""
    with contextlib.suppress(AttributeError, ValueError):  # no poll on this system, or not a file
        asked = select.poll()
        asked.register(sys.stdout.fileno(), 0)
        if any(state & select.POLLERR for _, state in asked.poll(0)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _between() -> float:
    return _TERMINAL_SECONDS if _is_terminal() else _LOG_SECONDS


def _is_terminal() -> bool:
    return sys.stderr.isatty()
