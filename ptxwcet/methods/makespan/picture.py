"""Draws a schedule as an SVG picture like [M], Fig. 2: a row per warp, a column per time slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ptxwcet.methods.makespan.study import SectionMakespan
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.whole_files import write_text

MOST_DRAWN = 20_000
"""The most instructions of all warps in a picture."""

_COLOURS = {"L": "#4477aa", "C": "#ccbb44"}
_INK = {"L": "white", "C": "black"}
_LEFT, _TOP, _WIDEST = 64, 48, 1600.0


def draw_schedule(section: SectionMakespan, path: Path) -> None:
    """Writes the schedule of an answer as an SVG file.

    Raises PtxwcetError: PW567 without a schedule or with too much to draw, PW233 if the file cannot
    be written. Cost: linear in the instructions of all warps.
    """
    schedule, problem = section.answer.schedule, section.problem
    if schedule is None:
        raise PtxwcetError.of(
            "PW567",
            f"the method {section.answer.claim.method} gives no schedule to draw",
            help="exact, states, closed-form and ilp give one for at most 50,000 instructions",
        )
    drawn = problem.warps * problem.shape.length
    if drawn > MOST_DRAWN:
        raise PtxwcetError.of(
            "PW567",
            f"a schedule of {drawn:,} instructions is too large for a picture ({MOST_DRAWN:,})",
            help="draw it for fewer warps",
        )
    write_text(path, "\n".join(_lines(section)) + "\n", "PW233")


def _lines(section: SectionMakespan) -> Iterator[str]:
    schedule, problem = section.answer.schedule, section.problem
    assert schedule is not None
    slots, warps = schedule.makespan, problem.warps
    cell = min(24.0, max(0.8, _WIDEST / slots))
    pitch = min(24.0, max(2.0, 900.0 / warps))
    width = _LEFT + slots * cell + 16
    height = _TOP + (warps + 1) * pitch + 44
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(width, 460):.1f}" '
        f'height="{height:.1f}" font-family="sans-serif" font-size="12">'
    )
    yield '<rect width="100%" height="100%" fill="white"/>'
    both = sum(bool(slot.load_store and slot.cores) for slot in schedule.slots)
    yield _text(
        8,
        18,
        f"{warps:,} warps, {slots:,} slots; L and C both serve in {both:,} of them "
        f"(L = {problem.load_store}, C = {problem.cores})",
        "start",
    )
    for x, letter, kind in ((_LEFT, "L", "load/store unit"), (_LEFT + 120, "C", "core")):
        yield _box(x, 26, 11, 11, _COLOURS[letter])
        yield _text(x + 16, 36, kind, "start")
    for warp in range(0, warps, max(1, round(14 / pitch))):
        yield _text(_LEFT - 6, _TOP + (warp + 0.5) * pitch + 4, f"warp {warp + 1}", "end")
    yield from _cells(section, cell, pitch)
    bottom = _TOP + warps * pitch
    yield from _axis(slots, cell, bottom + pitch)
    yield _text(_LEFT - 6, bottom + pitch * 0.5 + 4, "both", "end")
    for number, slot in enumerate(schedule.slots):
        if slot.load_store and slot.cores:
            yield _box(_LEFT + number * cell, bottom + 0.3 * pitch, cell, 0.4 * pitch, "#aa3377")
    yield "</svg>"


def _cells(section: SectionMakespan, cell: float, high: float) -> Iterator[str]:
    schedule = section.answer.schedule
    assert schedule is not None
    for number, slot in enumerate(schedule.slots):
        for letter, served in (("L", slot.load_store), ("C", slot.cores)):
            for warp in served:
                x, y = _LEFT + number * cell, _TOP + warp * high
                yield _box(x, y, cell, high, _COLOURS[letter])
                if min(cell, high) >= 12:
                    yield _text(x + cell / 2, y + high / 2 + 4, letter, "middle", fill=_INK[letter])


def _axis(slots: int, cell: float, y: float) -> Iterator[str]:
    step = next(n for k in range(9) for n in (10**k, 2 * 10**k, 5 * 10**k) if n * cell >= 24)
    end = _LEFT + slots * cell
    yield f'<path d="M{_LEFT} {y:.1f}H{end:.1f}" stroke="black" fill="none"/>'
    for number in range(0, slots + 1, step):
        x = _LEFT + number * cell
        yield f'<path d="M{x:.1f} {y:.1f}v4" stroke="black" fill="none"/>'
        yield _text(x, y + 17, f"{number:,}", "middle")
    yield _text(_LEFT, y + 34, "time slot", "start")


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    border = ' stroke="white" stroke-width="0.7"' if min(width, height) >= 4 else ""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
        f'fill="{fill}"{border}/>'
    )


def _text(x: float, y: float, text: str, anchor: str, fill: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{text}</text>'
