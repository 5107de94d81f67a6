"""Diagnostics: one clear message a cause, with a code, a place, a note and a remedy.

Rendered form::

    kernel.ptx:12:5: error[PW203]: loop has no known bound
       12 |     @%p1 bra $L__BB0_2;
          |     ^~~~~~~~~~~~~~~~~~
      note: the exit condition depends on parameter k_param_4
      help: give the parameter (--param 4=...) or a bound (--loop-bound $L__BB0_2=...)

Code ranges: PW1xx syntax, 2xx flow, 3xx machine, 4xx timing and memory, 5xx bounds and
assumptions, 6xx traces, 7xx statistics, 9xx internal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ptxwcet.support.source import Span

_TAB_WIDTH = 8
_MAX_LINE = 160


class Severity(Enum):
    """How much a diagnostic weighs: an error refuses the answer, the others do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message; ``span`` is None only if no place in an input text is at fault."""

    code: str
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()
    help: str | None = None
    severity: Severity = Severity.ERROR

    def render(self) -> str:
        """The diagnostic as text for people: place, code, source line with caret, notes, help."""
        place = f"{self.span}: " if self.span is not None else ""
        lines = [f"{place}{self.severity.value}[{self.code}]: {self.message}"]
        if self.span is not None:
            lines += _excerpt(self.span)
        lines += [f"  note: {note}" for note in self.notes]
        if self.help is not None:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


def _excerpt(span: Span) -> list[str]:
    line, column = span.source.position(span.start)
    text = span.source.line_text(line)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    before = text[: column - 1].expandtabs(_TAB_WIDTH)
    body = text[column - 1 : column - 1 + width].expandtabs(_TAB_WIDTH)
    shown = text.expandtabs(_TAB_WIDTH)
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    cut = max(0, len(before) - _MAX_LINE // 2)
    marks = "^" + "~" * (len(body) - 1)
    gutter = f"{line:5d} | "
    return [
        gutter + shown[cut : cut + _MAX_LINE],
        " " * (len(gutter) - 2) + "| " + " " * (len(before) - cut) + marks[: _MAX_LINE // 2],
    ]


def render_all(diagnostics: Sequence[Diagnostic]) -> str:
    """All diagnostics, in order, one after the other."""
    return "\n".join(diagnostic.render() for diagnostic in diagnostics)


class PtxwcetError(Exception):
    """An input or a request that cannot be answered; carries at least one diagnostic."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        items = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        if not items:
            raise ValueError("a PtxwcetError needs a diagnostic")
        self.diagnostics: tuple[Diagnostic, ...] = items
        super().__init__(items[0].message)
