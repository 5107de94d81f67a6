"""The changes between two results, as text for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxwcet.commands.bound.loop_text import iterations_text
from ptxwcet.commands.compare.report import (
    Change,
    DiffReport,
    KernelChange,
    LineChange,
    Payment,
    difference_of,
)
from ptxwcet.report.columns import Titles, text_table
from ptxwcet.support.printable import plural, printable_line

_KINDS = (
    ("about", ""),
    ("bounds", "bound: "),
    ("launch_parts", "part of the launch: "),
    ("loops", "loop "),
    ("assumptions", "assumption "),
    ("lines", "line "),
)


_MOST_ROWS = 12


def render_difference(report: DiffReport) -> str:
    """Returns the changes of each kernel that changed, then the counts by kind."""
    head = f"{report.tool} {report.version}  {report.old} -> {report.new}"
    lines = [printable_line(head), ""]
    for change in report.kernels:
        if change.status != "same":
            lines += [*map(printable_line, _kernel(change)), ""]
    counts = {"same": "the same", "changed": "changed", "new": "new", "gone": "gone"}
    shown = [
        f"{number} {word}"
        for status, word in counts.items()
        if (number := sum(change.status == status for change in report.kernels))
    ]
    lines.append(f"{plural(len(report.kernels), 'kernel')}: {', '.join(shown) or 'none'}")
    return "\n".join(lines) + "\n"


def _kernel(kernel: KernelChange) -> list[str]:
    launch = f" [{kernel.launch}]" if kernel.launch else ""
    head = "WORSE" if kernel.worse else kernel.status.upper()
    lines = [f"{head:<8} {kernel.kernel}{launch} on {kernel.machine} ({kernel.file})"]
    for kind, name in _KINDS:
        if kind == "lines" and kernel.paid is not None:
            continue  # the cycles that they pay are below
        number = iterations_text if kind == "loops" else _number
        lines += [f"  {name}{_change(one, number)}" for one in getattr(kernel, kind)]
    return lines if kernel.paid is None else [*lines, *_payment(kernel.paid)]


def _payment(paid: Payment) -> list[str]:
    """Returns tables of the causes of the difference of two bounds, the largest first."""
    return [
        f"  what pays the difference of {paid.difference:+,} cycles of a block",
        *_table(paid.parts, {}),
        *_table(paid.op_classes, {"what": "op class"}),
        *_table(paid.lines, {}),
    ]


def _table(changes: Sequence[Change | LineChange], titles: Titles) -> list[str]:
    more = []
    if rest := changes[_MOST_ROWS:]:
        left = sum(map(difference_of, rest))
        more.append(("", "", f"{left:+,}", f"{len(rest)} more (--format json has all)"))
    return text_table(changes[:_MOST_ROWS], titles, more=more, indent="    ")


def _change(one: Change, number: Callable[[int], str]) -> str:
    growth = "" if one.growth_percent is None else f" ({one.growth_percent:+.2f} %)"
    return f"{one.what}: {_shown(one.old, number)} -> {_shown(one.new, number)}{growth}"


def _number(value: int) -> str:
    return f"{value:,}"


def _shown(value: int | str | None, number: Callable[[int], str] = _number) -> str:
    return "none" if value is None else value if isinstance(value, str) else number(value)
