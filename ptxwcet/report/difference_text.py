"""What changed between two results, as text for people."""

from __future__ import annotations

from ptxwcet.report.difference import Change, DiffReport, KernelChange
from ptxwcet.report.launch_text import plural
from ptxwcet.support.printable import printable_line

_KINDS = (
    ("about", ""),
    ("bounds", "bound: "),
    ("loops", "loop "),
    ("assumptions", "assumption "),
    ("lines", "line "),
)


def render_difference(report: DiffReport) -> str:
    """Each kernel that changed with its changes, then how many there are of which kind."""
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


def _kernel(row: KernelChange) -> list[str]:
    launch = f" [{row.launch}]" if row.launch else ""
    head = "WORSE" if row.worse else row.status.upper()
    lines = [f"{head:<8} {row.kernel}{launch} on {row.machine} ({row.file})"]
    for kind, name in _KINDS:
        lines += [f"  {name}{_change(one)}" for one in getattr(row, kind)]
    return lines


def _change(one: Change) -> str:
    growth = "" if one.growth_percent is None else f" ({one.growth_percent:+.2f} %)"
    return f"{one.what}: {_shown(one.old)} -> {_shown(one.new)}{growth}"


def _shown(value: int | str | None) -> str:
    return "none" if value is None else value if isinstance(value, str) else f"{value:,}"
