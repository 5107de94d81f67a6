"""The cycles of the bound by source line, as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxwcet.commands.bound.report import (
    Explanation,
    LaunchRow,
    PaidByLaunchRow,
    PaidRow,
    PaidSectionRow,
)
from ptxwcet.report.access_rows import access_lines
from ptxwcet.report.places import number_ranges

_MOST_LINES = 20
_MOST_OTHERS = 5
_MOST_ACCESSES = 10
_MOST_SECTIONS = 8
_MOST_TEXT = 48  # characters of a source line: the table then fits 120 columns

_LINE_HEAD = ("line", "issue", "result", "unit", "other warps", "total", "share", "text")
_LINE_LEFT = (True, False, False, False, False, False, False, True)
_LAUNCH_PARTS = ("work", "latency", "tail", "memory", "total")
_SECTION_HEAD = ("times", "cycles", "alone", "other warps", "up to", "of warp", "paid most by")
_SECTION_LEFT = (False, False, False, False, True, True, True)


def explanation_lines(explanation: Explanation) -> list[str]:
    """The lines that pay most with their parts, and the sections if there are several."""
    cycles = explanation.cycles
    lines = [
        "",
        f"which lines pay the {cycles:,} cycles of method {explanation.method}, each cycle once",
        "  the slowest warp issues the line (issue), waits for its result (result), waits while it "
        "queues for its unit (unit),",
        "  or stands back while the other warps execute it (other warps)",
    ]
    table = [_line_cells(row) for row in explanation.lines[:_MOST_LINES]]
    rest = explanation.lines[_MOST_LINES:]
    if rest:
        table.append(_line_cells(_sum(f"{len(rest)} more lines", rest, cycles)))
    whole = _sum("all lines", explanation.lines, cycles)
    table += [_line_cells(whole), _shares(whole)]
    lines += _columns(_LINE_HEAD, table, _LINE_LEFT)
    lines += _most("opcodes that pay most", ("opcode", ""), explanation.opcodes)
    if explanation.lines != explanation.ptx_lines:
        lines += _most("PTX lines that pay most", ("line", "text"), explanation.ptx_lines)
    if len(explanation.sections) > 1:
        lines += _sections(explanation)
    if explanation.accesses:
        lines += ["", "accesses to memory: what one execution takes of a warp, and why"]
        lines += [f"  {line}" for line in access_lines(explanation.accesses, _MOST_ACCESSES)]
    return lines


def launch_explanation_lines(launch: LaunchRow) -> list[str]:
    """The lines that pay most of the bound of a launch; none unless that was asked for."""
    if not launch.lines:
        return []
    parts = [part for part in _LAUNCH_PARTS if part != "memory" or launch.memory_cycles]
    shown, rest = list(launch.lines[:_MOST_LINES]), launch.lines[_MOST_LINES:]
    if rest:
        shown.append(_launch_sum(f"{len(rest)} more lines", rest, launch.cycles))
    shown.append(_launch_sum("all lines", launch.lines, launch.cycles))
    table = [
        (
            line.place,
            *(f"{getattr(line, part):,}" for part in parts),
            f"{line.share_percent:.1f} %",
            _text(line.text),
        )
        for line in shown
    ]
    memory = ", sectors (memory)" if launch.memory_cycles else ""
    return [
        "",
        f"which lines pay the {launch.cycles:,} cycles of the launch, in proportion",
        f"  to what all blocks initiate (work, tail){memory}, and to what the slowest warp of a "
        "block waits for (latency)",
        *_columns(
            ("line", *parts, "share", "text"), table, (True, *[False] * len(parts), False, True)
        ),
    ]


def _launch_sum(name: str, rows: Sequence[PaidByLaunchRow], cycles: int) -> PaidByLaunchRow:
    work, latency, tail, memory, total = (
        sum(getattr(row, part) for row in rows) for part in _LAUNCH_PARTS
    )
    share = round(100 * total / cycles, 2) if cycles else 0.0
    return PaidByLaunchRow(name, None, work, latency, tail, memory, total, share)


def _most(title: str, ends: tuple[str, str], rows: Sequence[PaidRow]) -> list[str]:
    """The first rows of a longer table, whose first and last column are ``ends``."""
    shown = [_line_cells(row) for row in rows[:_MOST_OTHERS]]
    return ["", title, *_columns((ends[0], *_LINE_HEAD[1:-1], ends[1]), shown, _LINE_LEFT)]


def _sections(explanation: Explanation) -> list[str]:
    """Sections with the same content as one row, by what they add to the bound."""
    merged: dict[PaidSectionRow, int] = {}
    for section in explanation.sections:
        content = replace(section, multiplicity=1)
        merged[content] = merged.get(content, 0) + section.multiplicity
    ordered = sorted(merged.items(), key=lambda item: -item[1] * item[0].cycles)
    cells = [_section_cells(section, times) for section, times in ordered[:_MOST_SECTIONS]]
    lines = ["", "sections between barriers (alone: the slowest warp without the others)"]
    lines += _columns(_SECTION_HEAD, cells, _SECTION_LEFT)
    if len(ordered) > _MOST_SECTIONS:
        lines.append(f"  and {len(ordered) - _MOST_SECTIONS} more (--format json lists all)")
    return lines


def _sum(name: str, lines: Sequence[PaidRow], cycles: int) -> PaidRow:
    total = sum(row.total for row in lines)
    return PaidRow(
        name,
        None,
        sum(row.issue for row in lines),
        sum(row.waiting_for_result for row in lines),
        sum(row.waiting_for_unit for row in lines),
        sum(row.interference for row in lines),
        total,
        round(100 * total / cycles, 2) if cycles else 0.0,
    )


def _shares(whole: PaidRow) -> tuple[str, ...]:
    """A row with each column's share of the total."""
    parts = (whole.issue, whole.waiting_for_result, whole.waiting_for_unit, whole.interference)
    shares = [f"{100 * part / (whole.total or 1):.1f} %" for part in parts]
    return ("share", *shares, "", "", "")


def _line_cells(row: PaidRow) -> tuple[str, ...]:
    return (
        row.place,
        f"{row.issue:,}",
        f"{row.waiting_for_result:,}",
        f"{row.waiting_for_unit:,}",
        f"{row.interference:,}",
        f"{row.total:,}",
        f"{row.share_percent:.1f} %",
        _text(row.text),
    )


def _text(line: str | None) -> str:
    """A source line, cut to the width of the column."""
    words = " ".join((line or "").split())
    text = "".join(letter if letter.isprintable() else "?" for letter in words)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."


def _section_cells(section: PaidSectionRow, times: int) -> tuple[str, ...]:
    most = section.lines[0] if section.lines else None
    return (
        f"{times:,} x",
        f"{section.cycles:,}",
        f"{section.alone_cycles:,}",
        f"{section.interference_cycles:,}",
        section.ends_at,
        number_ranges(section.warps),
        "" if most is None else f"{most.place} {most.share_percent:.1f} %",
    )


def _columns(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: tuple[bool, ...]
) -> list[str]:
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in table
    ]
