"""Progress of a run on standard error."""

from __future__ import annotations

import sys
import time

import click

from ptxwcet.cli.output import echo, is_quiet

_QUIET_SECONDS = 2.0
_BETWEEN_SECONDS = 0.5
_BAR = 30


class ProgressLine:
    """A line on standard error, from two seconds on; it is wiped at the end.

    Nothing is shown with --quiet. Where standard error is not a terminal, a log keeps every state:
    there is a line each ``log_seconds``, none without.
    """

    def __init__(self, things: str = "blocks", *, log_seconds: float | None = None) -> None:
        self._things = things
        self._log_seconds = None if _is_terminal() else log_seconds
        self._start = time.monotonic()
        self._next = self._start + (self._log_seconds or _QUIET_SECONDS)
        self._width = 0
        self._is_shown = (_is_terminal() or log_seconds is not None) and not is_quiet()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)

    def show(self, done: int, blocks: int, instructions: int | None = None) -> None:
        """Shows how many of all ``blocks`` (or other things) are done; often called."""
        text = f"{done:,} of {blocks:,} {self._things}"
        if instructions is not None:
            text += f", {instructions:,} warp-instructions"
        self.show_part(text, done / blocks)

    def show_part(self, text: str, done: float) -> None:
        """Shows what is being done, and which part of it (0 to 1) is."""
        now = time.monotonic()
        if now < self._next or not self._is_shown:
            return
        self._next = now + (self._log_seconds or _BETWEEN_SECONDS)
        if self._log_seconds is not None:
            echo(f"{text} after {now - self._start:.0f} s", err=True)
            return
        filled = int(_BAR * done)
        text = f"[{'#' * filled}{'.' * (_BAR - filled)}] {text}"
        click.echo("\r" + text.ljust(self._width), err=True, nl=False)
        self._width = len(text)


def _is_terminal() -> bool:
    return sys.stderr.isatty()
