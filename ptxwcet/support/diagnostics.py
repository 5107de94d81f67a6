"""Diagnostics: one clear message per cause, with a code, a place, a note and a remedy.

Rendered form::

    kernel.ptx:12:5: error[PW203]: loop has no known bound
       12 |     @%p1 bra $L__BB0_2;
          |     ^~~~~~~~~~~~~~~~~~
      note: the exit condition depends on parameter k_param_4
      help: give the parameter (--param 4=...) or a bound (--loop-bound $L__BB0_2=...)

Code ranges: PW1xx syntax, 2xx flow, 3xx machine, 4xx timing and memory, 5xx bounds and
assumptions, 6xx traces, 7xx statistics, 8xx campaigns, 9xx internal.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from ptxwcet.support.printable import printable_line, printable_picture
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import Span

_TAB_WIDTH = 8
_MAX_LINE = 160
_LONGEST_MESSAGE = 1_000


class Severity(Enum):
    """The weight of a diagnostic: an error refuses the answer, the others do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, repr=False)
class Diagnostic:
    """One message; ``span`` is None only if no place in an input text is at fault."""

    code: str
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()
    help: str | None = None
    severity: Severity = Severity.ERROR

    def render(self) -> str:
        """Returns the diagnostic as text: place, code, source line with caret, notes, help.

        Characters that would control a terminal are shown as ``\\u`` and their number: see
        printable.
        """
        told = self.as_written()
        place = f"{told.span}: " if told.span is not None else ""
        lines = [f"{place}{self.severity.value}[{self.code}]: {self.message}"]
        if told.span is not None and told.span.source.text:
            lines += _excerpt(told.span)
        lines += [f"  note: {note}" for note in told.notes]
        if self.help is not None:
            first, *rest = self.help.split("\n")
            lines += [f"  help: {first}", *(f"    {line}" for line in rest)]
        return "\n".join(map(printable_line, lines))

    def as_written(self) -> Diagnostic:
        """Returns the diagnostic at the place in the author's source of its text, if known."""
        written = None if self.span is None else self.span.written
        if self.span is None or written is None:
            return self
        source, line = self.span.source, self.span.line
        made = f"in the {source.name}: line {line}, {' '.join(source.line_text(line).split())}"
        return replace(self, span=written, notes=(*self.notes, made))

    def __repr__(self) -> str:
        place = f" at {self.span}" if self.span is not None else ""
        return printable_line(f"<Diagnostic {self.code}{place}: {self.message}>")


def _excerpt(span: Span) -> list[str]:
    line, column = span.source.position(span.start)
    text = span.source.line_text(line)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    before = text[: column - 1].expandtabs(_TAB_WIDTH)
    body = text[column - 1 : column - 1 + width].expandtabs(_TAB_WIDTH)
    shown = text.expandtabs(_TAB_WIDTH)
    shown = printable_picture(shown)
    cut = max(0, len(before) - _MAX_LINE // 2)
    marks = "^" + "~" * (len(body) - 1)
    gutter = f"{line:5d} | "
    return [
        gutter + shown[cut : cut + _MAX_LINE],
        " " * (len(gutter) - 2) + "| " + " " * (len(before) - cut) + marks[: _MAX_LINE // 2],
    ]


def render_all(diagnostics: Sequence[Diagnostic]) -> str:
    """Returns all diagnostics as text, in order."""
    return "\n".join(diagnostic.render() for diagnostic in diagnostics)


class PtxwcetError(Exception):
    """The error of an input or a request without an answer; carries at least one diagnostic."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        items = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        if not items:
            raise ValueError("a PtxwcetError needs a diagnostic")
        self.diagnostics: tuple[Diagnostic, ...] = items
        super().__init__(items[0].message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.diagnostics), self.__dict__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PtxwcetError) or type(other) is not type(self):
            return NotImplemented
        return self.diagnostics == other.diagnostics

    def __hash__(self) -> int:
        return hash(self.diagnostics)

    @staticmethod
    def of(
        code: str,
        message: str,
        span: Span | None = None,
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> PtxwcetError:
        """Returns the error with one diagnostic."""
        return PtxwcetError(Diagnostic(code, message, span, notes, help))


def _unpickled(kind: type[PtxwcetError], diagnostics: tuple[Diagnostic, ...]) -> PtxwcetError:
    """Returns an error of a kind without a call of the kind's own ``__init__``."""
    error = kind.__new__(kind)
    PtxwcetError.__init__(error, diagnostics)
    return error


class UsageError(PtxwcetError):
    """The error of mistakes in a plan or a command line: exit code 2, whatever their codes."""


USAGE_CODES = frozenset(
    (
        *("PW208", "PW232"),  # no such kernel
        "PW235",  # a package is not installed
        *("PW209", "PW210"),  # block or grid missing, malformed
        *("PW213", "PW214", "PW215"),  # parameters
        *("PW216", "PW427", "PW530", "PW531"),
        *("PW301", "PW314", "PW325", "PW327"),  # machine
        *("PW540", "PW541", "PW542"),  # --symbolic
        *("PW570", "PW571", "PW572", "PW573", "PW574", "PW580", "PW591"),  # plans, results
        *("PW810", "PW811", "PW820", "PW823", "PW824"),  # campaigns
        *("PW560", "PW561", "PW563", "PW566"),  # makespan
        *("PW615", "PW651", "PW707"),
        "PW825",  # a folder of answers that cannot be used
        *("PW831", "PW832"),  # attacks
    )
)
"""The codes of mistakes on the command line, not of refused inputs: exit code 2."""


def exit_code(diagnostics: Iterable[Diagnostic], *, is_partial: bool = False) -> int:
    """Returns the exit code of errors: 0 for none, 2 if all are mistakes on the command line.

    Otherwise it is 1, also if ``is_partial``: other kernels of the file have an answer, so that the
    command line is correct for these.
    """
    codes = {d.code for d in diagnostics}
    if not codes:
        return 0
    return 2 if codes <= USAGE_CODES and not is_partial else 1


def internal_error(error: Exception, whose: str | None = None) -> Diagnostic:
    """Returns PW901 for an exception that is a bug of the tool; ``whose`` is like ``kernel scan``.

    With PTXWCET_TRACEBACK in the environment the traceback is written to standard error.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    text = type(error).__name__ if not str(error) else f"{type(error).__name__}: {error}"
    subject = "" if whose is None else f"{whose}: "
    if os.environ.get("PTXWCET_TRACEBACK"):
        traceback.print_exception(error)
    return Diagnostic(
        "PW901",
        f"{subject}internal error at {where}: {text}"[:_LONGEST_MESSAGE],
        help="this is a bug of ptxwcet: please report it with the input; PTXWCET_TRACEBACK=1 shows "
        "where it happened",
    )
