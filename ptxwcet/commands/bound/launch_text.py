"""The bound of a whole launch as lines of the report for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from ptxwcet.bounds.methods import SAFE_NAME
from ptxwcet.commands.bound.report import (
    AssumptionRow,
    BoundedKernel,
    LaunchRow,
    OccupancyRow,
    RooflineRow,
)
from ptxwcet.support.printable import plural

_MARGIN = " " * 11


def launch_lines(kernel: BoundedKernel) -> list[str]:
    """The bound of the launch, what it is made of, and what would make it smaller; none without.

    And beside it the roofline.
    """
    launch = kernel.launch
    if launch is None:
        reason = kernel.launch_not_bounded
        return [f"KERNEL     not bounded as a whole: {reason}"] if reason else []
    # that of a block may be of another method, which says nothing of launches
    whose = "" if kernel.bounds[0].method == SAFE_NAME else f", of the method {SAFE_NAME}"
    what = f"{plural(launch.blocks, 'block')} on {plural(launch.sms, 'SM')}"
    lines = [
        f"KERNEL     <= {launch.cycles:,} cycles for all {what} "
        f"({time_text(launch.microseconds)})   {launch.guarantee}{whose}",
        f"{_MARGIN}{_parts(launch)}",
    ]
    if launch.open and launch.least_cycles < launch.cycles:
        lines.append(
            f"{_MARGIN}the worst of {launch.least_resident} to {launch.most_resident} resident "
            f"blocks, the best has {launch.least_cycles:,}: {' and '.join(launch.open)} would tell"
        )
    lines += _registers(launch.occupancy)
    if kernel.roofline is not None:
        lines.append(_roofline(kernel.roofline))
    return lines


def _roofline(row: RooflineRow) -> str:
    """The estimate beside the bound, with the terms of which it is the largest."""
    terms = [f"{name} {cycles:,}{of}" for name, cycles, of in roofline_terms(row)]
    time = time_text(row.microseconds)
    return f"roofline   {row.cycles:,} cycles ({time}), no bound: {', '.join(terms)}   estimate"


def roofline_terms(row: RooflineRow) -> list[tuple[str, int, str]]:
    """Of each resource that is asked for anything its name, cycles, and what they are of."""
    terms = [("sub-cores", row.core_cycles, "")]
    if row.path_cycles:
        terms.append(("memory paths", row.path_cycles, ""))
    if row.memory_cycles:
        of = "all that is charged" if row.memory_of == "traffic" else "each array once"
        terms.append(("memory", row.memory_cycles, f" ({of})"))
    return terms


def _parts(launch: LaunchRow) -> str:
    """The bound as the sum of its parts, and how many resident blocks an SM it is for."""
    parts = [
        f"{name} {cycles:,}"
        for name, cycles in launch.parts.items()
        if cycles or name in ("work", "latency")
    ]
    is_limit = not launch.open and launch.resident_blocks == launch.most_resident
    limits = f" ({', '.join(launch.limited_by)})" if is_limit else ""
    held = f"{plural(launch.resident_blocks, 'block')} an SM{limits}"
    row = launch.occupancy
    occupancy = "" if row is None else f", occupancy {row.percent:g} %"
    return f"{' + '.join(parts)}; {held}{occupancy}"


def _registers(row: OccupancyRow | None) -> list[str]:
    """What a thread has of registers and what does not fit in them; nothing if neither is known."""
    if row is None or row.registers_per_thread is None or row.local_stored_bytes is None:
        return []
    moved = row.local_stored_bytes, row.local_loaded_bytes
    if not any(moved):
        what = "nothing is spilled" if row.spills else "its code has no local memory"
    elif row.spills:
        what = f"its code spills {moved[0]:,} bytes and loads {moved[1]:,}, which PTX does not have"
    else:
        what = f"its code stores {moved[0]:,} bytes of local memory and loads {moved[1]:,}"
    return [f"registers  {row.registers_per_thread} a thread; {what}"]


def rests_on(own: Sequence[AssumptionRow], launch: Sequence[AssumptionRow] | None) -> list[str]:
    """The assumptions, a line each: those of both bounds, then those of the block's or launch's."""
    if launch is None:
        return [_shown(one) for one in own]
    both = [one for one in own if one in launch]
    return [
        *(_shown(one) for one in both),
        *(_shown(one, "of the block: ") for one in own if one not in both),
        *(_shown(one, "of the kernel: ") for one in launch if one not in both),
    ]


def _shown(assumption: AssumptionRow, whose: str = "") -> str:
    return f"  - {whose}{assumption.text} [{assumption.state}]"


def time_text(microseconds: float) -> str:
    """A time in the unit that suits it, rounded up."""
    if microseconds < 1_000:
        return f"{microseconds:,} us"
    whole = math.ceil(Fraction(repr(microseconds)))  # above 2^53 a float has no thousandths
    return f"{whole // 1000:,}.{whole % 1000:03} ms"
