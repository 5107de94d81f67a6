"""The report as text for people: a line, a screen or all details of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ptxwcet.bounds.methods import SAFE_NAME, SCHEDULED
from ptxwcet.commands.bound.report import (
    WITHOUT_WAITING,
    BoundedKernel,
    Explanation,
    LaunchRow,
    LoopRow,
    OccupancyRow,
    PaidByLaunchRow,
    PaidRow,
    PaidSectionRow,
    Report,
    RooflineRow,
    paid_parts,
    rests_on,
)
from ptxwcet.machine.assumptions import MACHINE_CODE_IS_EXECUTED
from ptxwcet.report.access_rows import access_lines
from ptxwcet.report.columns import TEXT, columns_of, text_table
from ptxwcet.report.head import (
    KernelHead,
    MachineHead,
    Refused,
    as_people_know,
    head_text,
    launch_text,
    row_or_refusal,
    said_in,
)
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.printable import plural
from ptxwcet.support.rounding import percent_of, time_text

_MOST_LINES = 20
_MOST_OTHERS = 5
_MARGIN = " " * 11
_MOST_ACCESSES = 10
_MOST_SECTIONS = 8

_Paid = TypeVar("_Paid", bound=PaidRow | PaidByLaunchRow)


def explanation_lines(explanation: Explanation) -> list[str]:
    """Returns the lines that pay most with their parts, and the sections if there are several."""
    cycles = explanation.cycles
    lines = [
        "",
        f"which lines pay the {cycles:,} cycles of method {explanation.method}, each cycle once",
        "  the slowest warp issues the line (issue), waits for its result (result), waits while it "
        "queues for its unit (unit),",
        "  or stands back while the other warps execute it (other warps)",
    ]
    shown = _with_sums(PaidRow, explanation.lines, cycles)
    parts = paid_parts(shown[-1:]).values()
    shares = (f"{100 * part / (shown[-1].total or 1):.1f} %" for part in parts)
    lines += text_table(shown, more=[("share", *shares, "", "", "")], indent="  ")
    titles = {"place": "opcode", "text": ""}
    opcodes = text_table(explanation.opcodes[:_MOST_OTHERS], titles, indent="  ")
    lines += ["", "opcodes that pay most", *opcodes]
    if explanation.lines != explanation.ptx_lines:
        is_ptx = all(row.place.startswith("PTX") for row in explanation.ptx_lines)
        lines += ["", f"{'PTX lines' if is_ptx else 'instructions'} that pay most"]
        lines += text_table(explanation.ptx_lines[:_MOST_OTHERS], indent="  ")
    if len(explanation.sections) > 1:
        lines += _sections(explanation)
    if explanation.accesses:
        lines += ["", "accesses to memory: what one execution takes of a warp, and why"]
        lines += [f"  {line}" for line in access_lines(explanation.accesses, _MOST_ACCESSES)]
    return lines


def launch_explanation_lines(launch: LaunchRow) -> list[str]:
    """Returns the lines that pay most of the launch bound; none unless they were requested."""
    if not launch.lines:
        return []
    memory = ", sectors (memory)" if launch.memory_cycles else ""
    return [
        "",
        f"which lines pay the {launch.cycles:,} cycles of the launch, in proportion",
        f"  to what all blocks initiate (work, tail){memory}, and to what the slowest warp of a "
        "block waits for (latency)",
        *text_table(_with_sums(PaidByLaunchRow, launch.lines, launch.cycles), indent="  "),
    ]


def _with_sums(kind: type[_Paid], rows: Sequence[_Paid], cycles: int) -> list[_Paid]:
    """Returns the first rows, a row for the rows that are left out, and one for all."""

    row_of: Callable[..., _Paid] = kind

    def summed(name: str, rows: Sequence[_Paid]) -> _Paid:
        parts = [field.name for field in fields(kind)[2:-1]]  # after its text, before its share
        sums = [sum(getattr(row, part) for row in rows) for part in parts]
        return row_of(name, None, *sums, round(100 * sums[-1] / cycles, 2) if cycles else 0.0)

    shown: list[_Paid] = [*rows[:_MOST_LINES]]
    if rest := rows[_MOST_LINES:]:
        shown.append(summed(f"{len(rest)} more lines", rest))
    return [*shown, summed("all lines", rows)]


def _sections(explanation: Explanation) -> list[str]:
    """Returns the sections by their share in the bound; equal ones are one row."""
    merged: dict[PaidSectionRow, int] = {}
    for section in explanation.sections:
        content = replace(section, multiplicity=1)
        merged[content] = merged.get(content, 0) + section.multiplicity
    rows = [replace(section, multiplicity=times) for section, times in merged.items()]
    rows.sort(key=lambda row: -row.multiplicity * row.cycles)
    title = "sections between barriers (alone: the slowest warp without the others)"
    return ["", title, *text_table(rows, most=_MOST_SECTIONS, indent="  ")]


_MOST_ROWS = 8
_MOST_BLOCKS = 16
_MOST_LOOPS = 5
_USER = "user"
_ON_SCREEN = (SAFE_NAME, SCHEDULED)  # in addition to the requested bound; other bounds are details


class Extent(Enum):
    """How much is printed of a kernel."""

    LINE = "name, cycles, guarantee"
    SCREEN = "the bound, what it rests on, the loops that matter, the costliest lines, a next step"
    DETAILS = "all that is known"


Named = TypeVar("Named", bound=KernelHead)
"""The row of a kernel that is bounded."""


class Rendered(NamedTuple):
    """A report as text, and the internal errors that cost kernels their part of it."""

    text: str
    failures: tuple[Diagnostic, ...] = ()


def render_text(
    report: Report,
    extent: Extent = Extent.DETAILS,
) -> Rendered:
    """Returns the report; a refused kernel has one row (diagnostics are printed elsewhere)."""
    if extent is Extent.LINE:
        return Rendered("".join(map(_line, report.kernels)))
    return rendered(report, report.kernels, partial(_bounded, extent=extent))


def _line(kernel: BoundedKernel | Refused) -> str:
    """Returns a line for programs: name, cycles and guarantee, also of the launch."""
    if isinstance(kernel, Refused):
        return f"{kernel.kernel} refused {kernel.diagnostics[0].code}\n"
    line = f"{kernel.kernel} {kernel.bound_cycles} {kernel.guarantee}"
    if kernel.launch is not None:
        line += f" {kernel.launch.cycles} {kernel.launch.guarantee}"
    return f"{line}\n"


def rendered(
    head: MachineHead, kernels: Iterable[Named | Refused], text_of: Callable[[Named], str]
) -> Rendered:
    """Returns a report as text; a refused kernel, or one with an internal error, has a row."""
    texts, failures = [head_text(head)], []
    for row in kernels:
        kernel = as_people_know(row)
        shown: str | Refused
        if isinstance(kernel, Refused):
            shown = kernel
        else:
            shown = row_or_refusal(kernel.kernel, partial(text_of, kernel))
            failures += [] if isinstance(shown, str) else said_in(shown)
        texts.append(shown if isinstance(shown, str) else _refused(shown))
    return Rendered("\n\n".join(texts) + "\n", tuple(failures))


def _refused(kernel: Refused) -> str:
    first = kernel.diagnostics[0]
    return f"kernel     {kernel.kernel}\nREFUSED    [{first.code}] {first.message}"


def launch_lines(kernel: BoundedKernel) -> list[str]:
    """Returns the launch bound, its parts and what would reduce it; empty without one.

    The roofline follows.
    """
    launch = kernel.launch
    if launch is None:
        reason = kernel.launch_not_bounded
        return [f"KERNEL     not bounded as a whole: {reason}"] if reason else []
    # The block's bound may be of another method, which does not bound launches.
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
    """Returns the estimate of the roofline, which is the largest of the terms shown."""
    terms = [f"{name} {cycles:,}{of}" for name, cycles, of in roofline_terms(row)]
    time = time_text(row.microseconds)
    return f"roofline   {row.cycles:,} cycles ({time}), no bound: {', '.join(terms)}   estimate"


def roofline_terms(estimate: RooflineRow) -> list[tuple[str, int, str]]:
    """Returns name, cycles and kind of each used resource."""
    terms = [("sub-cores", estimate.core_cycles, "")]
    if estimate.path_cycles:
        terms.append(("memory paths", estimate.path_cycles, ""))
    if estimate.memory_cycles:
        of = "all that is charged" if estimate.memory_of == "traffic" else "each array once"
        terms.append(("memory", estimate.memory_cycles, f" ({of})"))
    return terms


def _parts(launch: LaunchRow) -> str:
    """Returns the bound as the sum of its parts, and how many resident blocks an SM it is for."""
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


def _registers(occupancy: OccupancyRow | None) -> list[str]:
    """Returns the line on a thread's registers and spills; nothing if either is unknown."""
    if (
        occupancy is None
        or occupancy.registers_per_thread is None
        or occupancy.local_stored_bytes is None
    ):
        return []
    moved = occupancy.local_stored_bytes, occupancy.local_loaded_bytes
    if not any(moved):
        use = "nothing is spilled" if occupancy.spills else "its code has no local memory"
    elif occupancy.spills:
        use = f"its code spills {moved[0]:,} bytes and loads {moved[1]:,}, which PTX does not have"
    else:
        use = f"its code stores {moved[0]:,} bytes of local memory and loads {moved[1]:,}"
    return [f"registers  {occupancy.registers_per_thread} a thread; {use}"]


def _bounded(kernel: BoundedKernel, extent: Extent) -> str:
    is_whole = extent is Extent.DETAILS
    lines = [
        f"kernel     {kernel.kernel}",
        f"launch     {launch_text(kernel)}",
        "",
    ]
    lines += launch_lines(kernel)
    lines.append(bound_line(kernel))
    lines += _budget(kernel)
    for bound in kernel.bounds[1:]:
        if is_whole or bound.method in _ON_SCREEN:
            lines.append(_bound_line(bound.method, bound.cycles, bound.guarantee, bound.note))
    if kernel.largest_pessimism_percent is None:
        lines.append("pessimism  not given: there is no lower bound")
    else:
        lines.append(
            f"pessimism  at most {kernel.largest_pessimism_percent} % over the true worst case"
        )
    lines += ["", *_safe_under(kernel)]
    if is_whole:
        lines += _warps(kernel)
        lines += _listed("sections", kernel.sections)
    loops = kernel.loops if is_whole else _by_weight(kernel)
    lines += _listed("loops", loops, _MOST_ROWS if is_whole else _MOST_LOOPS)
    if is_whole or kernel.not_explained:
        lines += _worst_path(kernel)
    if kernel.explanation is not None:
        if kernel.launch is not None:
            lines += launch_explanation_lines(kernel.launch)
        lines += explanation_lines(kernel.explanation)
    else:
        titles = "initiation cycles of all warps"
        lines += _listed("costliest lines", kernel.costliest_lines, titles=titles)
    if not is_whole:
        lines += ["", f"next       {_next_step(kernel)}"]
    return "\n".join(lines)


def bound_line(kernel: BoundedKernel) -> str:
    """Returns the bound of a block with its guarantee."""
    return (
        f"BOUND      {kernel.bound_cycles:,} cycles for any one block alone on its SM "
        f"({kernel.microseconds:,} us)   {kernel.guarantee}"
    )


def _by_weight(kernel: BoundedKernel) -> list[LoopRow]:
    """Returns the loops: first those stated by the user, then the most executed ones."""
    executions = {row.block: row.executions for row in kernel.worst_path}
    return sorted(
        kernel.loops,
        key=lambda loop: (loop.origin != _USER, -executions.get(loop.block, loop.iterations)),
    )


def _next_step(kernel: BoundedKernel) -> str:
    """Returns the suggested next step."""
    stated = [loop.block for loop in kernel.loops if loop.origin == _USER]
    is_code = any(assumption.key == MACHINE_CODE_IS_EXECUTED for assumption in kernel.assumptions)
    if stated and not is_code:  # machine code is not executed here
        blocks = ", ".join(stated[:_MOST_LOOPS])
        return (
            f"try the bounds you stated ({blocks}) on data: "
            "ptxwcet validate FILE --launch LAUNCH.toml --inputs 20"
        )
    launch = kernel.launch
    if launch is not None and launch.open and launch.least_cycles < launch.cycles:
        return f"{launch.open[0]} may bring the launch to {launch.least_cycles:,} cycles"
    if kernel.explanation is None and not kernel.not_explained:
        return "--explain shows which lines pay the bound; --details all that is known"
    return "--details shows warps, sections and the worst path"


def _worst_path(kernel: BoundedKernel) -> list[str]:
    if kernel.not_explained:
        return ["", f"worst path and lines not given: {kernel.not_explained}"]
    return _listed("worst path", kernel.worst_path, _MOST_BLOCKS)


def _budget(kernel: BoundedKernel) -> list[str]:
    """Returns the verdict, its claim and the used part of the budget; nothing without a budget."""
    limit = kernel.budget
    if limit is None:
        return []
    whose = "a block" if limit.of == "block" else "the launch"
    if limit.guarantee is None:
        return [f"BUDGET     {limit.verdict}: {limit.budget} is for {whose}, which has no bound"]
    cycles = (
        kernel.bound_cycles if limit.of == "block" or not kernel.launch else kernel.launch.cycles
    )
    return [
        f"BUDGET     {limit.verdict}: {cycles:,} of {limit.cycles:,} cycles for {whose} "
        f"({percent_of(cycles, limit.cycles, 1)} % of {limit.budget})   {limit.guarantee}"
        if limit.cycles
        else f"BUDGET     {limit.verdict}: {limit.budget} is less than a cycle"
    ]


def _bound_line(method: str, cycles: int | None, guarantee: str | None, note: str) -> str:
    if cycles is None:
        return f"{method:<10} not given: {note}"
    remark = f" ({note})" if note else ""
    return f"{method:<10} {cycles:,} cycles   {guarantee}{remark}"


def _safe_under(kernel: BoundedKernel) -> list[str]:
    """Returns the assumptions of the bound, without those that the machine defines as true."""
    launch = None if kernel.launch is None else kernel.launch.assumptions
    stated = rests_on(kernel.assumptions, launch)
    if kernel.guarantee != "safe-bound":
        return ["holds only if", *stated]
    is_stated = "work-conserving" in {a.key for a in kernel.assumptions}
    if kernel.bounds[0].method != "safe" or is_stated:
        return ["safe under", *stated]
    head = "safe under the machine's own definition: any work-conserving warp scheduler"
    return [f"{head}; and if" if stated else head, *stated]


def _warps(kernel: BoundedKernel) -> list[str]:
    without = WITHOUT_WAITING if any(warp.waits_behind_units for warp in kernel.warps) else ""
    where = ""
    if kernel.block_ranges > 1:
        first, last = kernel.worst_block_first, kernel.worst_block_last
        where = f", in blocks {first} to {last}, the worst of {kernel.block_ranges} kinds"
    titles = f"isolated length L{without}, execution time E"
    return _listed("warps alone", kernel.warps, titles=titles, where=where)


def _listed(
    name: str,
    rows: Sequence[Any],
    most: int = _MOST_ROWS,
    *,
    titles: str = "",
    where: str = "",
) -> list[str]:
    """Returns the first rows under their name and ``titles``, by default their columns'."""
    if not rows:
        return []
    columns = (column.title for _, column in columns_of(rows[0].__class__, TEXT))
    title = f"{name} ({titles or ', '.join(columns)}){where}"
    return ["", title, *text_table(rows, has_head=False, most=most, indent="  ")]
