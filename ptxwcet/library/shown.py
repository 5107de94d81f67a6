"""The reports of commands as tables for notebooks: which columns, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ptxwcet.library.hints import said_in_python
from ptxwcet.library.results import Shown
from ptxwcet.library.tables import Columns, facts_table, preformatted, table
from ptxwcet.report.head import Refused, said_in
from ptxwcet.support.diagnostics import Diagnostic, render_all
from ptxwcet.support.explanations import Explanation
from ptxwcet.support.printable import plural

if TYPE_CHECKING:
    from ptxwcet.commands.annotate.ports import PortRow, PortsReport
    from ptxwcet.commands.annotate.report import AnnotationReport
    from ptxwcet.commands.bound.symbolic import SymbolicReport
    from ptxwcet.commands.check.report import CheckedKernel, CheckReport
    from ptxwcet.commands.compare.report import DiffReport
    from ptxwcet.commands.facts.study import FactsTemplate
    from ptxwcet.commands.memory.report import MemoryReport
    from ptxwcet.commands.what_if.report import WhatIfReport

_Data = TypeVar("_Data")


def shown(
    report: _Data,
    title: str,
    render: Callable[[_Data], str],
    tables: Callable[[_Data], Iterable[str]],
    refused: Iterable[Diagnostic] = (),
) -> Shown[_Data]:
    """A report that shows itself, and why kernels are refused in the words of Python."""
    return Shown(report, title, render, tables, said_in_python(refused))


def formula_tables(report: SymbolicReport) -> Iterator[str]:
    """The stretches of each formula, of a block and of the launch."""
    columns: Columns = {"from": "first", "to": "last", "cycles": lambda row: "\n".join(row.text)}
    for one in report.kernels:
        if isinstance(one, Refused):
            continue
        yield table(f"{one.readable}: a block, {one.guarantee}", one.rows, columns)
        if one.launch is not None:
            title = f"{one.readable}: the launch, {one.launch.guarantee}"
            yield table(title, one.launch.rows, columns)


def memory_tables(report: MemoryReport) -> Iterator[str]:
    """The accesses of each kernel, and what is touched of arrays."""
    for one in report.kernels:
        if isinstance(one, Refused):
            continue
        cycles = "" if one.bound_cycles is None else f", bound {one.bound_cycles:,} cycles a block"
        yield table(
            f"{one.readable}{cycles}",
            one.accesses,
            {
                "place": "place",
                "code": lambda row: row.text or row.instruction,
                "access": lambda row: f"{row.purpose} {row.space}",
                "takes of a warp": "takes",
                "why": "reason",
                "% of the bound": "share_percent",
            },
        )
        yield table(
            "touched at most",
            one.footprints,
            {
                "array": lambda row: row.array or "other",
                "sectors of a block": "block_sectors",
                "lines of a block": "block_lines",
                "sectors of the launch": "launch_sectors",
                "lines of the launch": "launch_lines",
                "blocks may share lines": "shared",
            },
        )


def annotation_tables(report: AnnotationReport) -> Iterator[str]:
    """The lines of each kernel with what each pays of the bounds."""
    # here: what is printed and what is shown have one way of naming a cause
    from ptxwcet.commands.annotate.text import cause_text

    columns: Columns = {
        "launch": "launch_cycles",
        "cycles": lambda row: row.cycles or None,
        "%": lambda row: row.share_percent or None,
        "cause": cause_text,
        "line": lambda row: "" if row.line is None else str(row.line),
        "code": lambda row: row.text.expandtabs(4),
    }
    for one in report.kernels:
        if isinstance(one, Refused):
            continue
        title = f"{one.bound.readable}: {one.bound.bound_cycles:,} cycles a block, "
        for file in one.files:
            yield table(f"{title}{file.name}", file.lines, columns)
        if one.elsewhere:
            yield table(f"{title}elsewhere", one.elsewhere, columns)


def ports_tables(report: PortsReport) -> Iterator[str]:
    """The instructions of each loop with their cycles at each port, and the sums."""
    for one in report.kernels:
        for loop in () if isinstance(one, Refused) else one.loops:
            ports: dict[str, str | Callable[[Any], object]] = {}
            for port, total in loop.ports.items():
                shared = f" /{loop.servers[port]}" if loop.servers[port] > 1 else ""
                ports[f"{port}{shared}: {total:g}"] = partial(_cycles_at, port)
            columns: Columns = {
                "line": "place",
                **ports,
                "chain": lambda row: "*" if row.chain else "",
                "code": "instruction",
            }
            chain = "" if loop.chain_cycles is None else f", chain of {loop.chain_cycles:g} cycles"
            title = f"{one.readable}, loop {loop.block}: {plural(loop.iterations, 'iteration')}"
            yield table(title + chain, loop.instructions, columns)


def _cycles_at(port: str, row: PortRow) -> float | None:
    return row.ports.get(port)


def what_if_tables(report: WhatIfReport) -> Iterator[str]:
    """The bounds of each kernel on each machine."""
    from ptxwcet.commands.what_if.report import VariantRow

    columns: Columns = {
        "machine": "variant",
        "block": "cycles",
        "block, %": "growth_percent",
        "launch": "launch_cycles",
        "launch, %": "launch_growth_percent",
        "no bound": "reason",
    }
    for one in report.kernels:
        if not isinstance(one, Refused):
            as_it_is = VariantRow("as it is", one.bound_cycles, None, one.launch_cycles, None, "")
            yield table(one.readable, (as_it_is, *one.variants), columns)


def difference_tables(report: DiffReport) -> Iterator[str]:
    """What changed of each kernel, and what pays the difference."""
    columns: Columns = {"what": "what", "old": "old", "new": "new", "growth, %": "growth_percent"}
    for one in report.kernels:
        head = f"{one.kernel} [{one.launch}]: {'; '.join(one.worse) or one.status}"
        changes = (
            *one.about,
            *one.bounds,
            *one.launch_parts,
            *one.loops,
            *one.assumptions,
            *(() if one.paid is not None else one.lines),
        )
        yield table(head, changes, columns)
        if one.paid is not None:
            paid = one.paid
            yield table("what pays the difference", (*paid.parts, *paid.op_classes), columns)
            lines: Columns = {
                "line": lambda row: row.text or row.new_place or row.old_place,
                "old": "old",
                "new": "new",
            }
            yield table("lines", paid.lines, lines)


def check_tables(report: CheckReport) -> Iterator[str]:
    """A row for each check, then the problems of those that did not pass."""
    yield table(
        f"{report.plan}: {report.passed} passed, {report.failed} failed, {report.refused} refused",
        report.checks,
        {
            "": "outcome",
            "kernel": lambda row: row.answer.readable or row.file,
            "launch": "launch",
            "machine": "machine",
            "cycles": _cycles,
            "budget": lambda row: getattr(getattr(row.answer, "budget", None), "budget", None),
        },
    )
    for row in report.checks:
        if row.problems:
            said = render_all(said_in(Refused("", "", row.problems)))
            yield preformatted(f"{row.outcome} {row.name}\n{said}")


def _cycles(row: CheckedKernel) -> int | None:
    if isinstance(row.answer, Refused):
        return None
    return row.answer.bound_cycles if row.answer.launch is None else row.answer.launch.cycles


def template_tables(template: FactsTemplate) -> Iterator[str]:
    """The template as it is."""
    yield preformatted(template.text)


def explanation_tables(pages: Mapping[str, Explanation]) -> Iterator[str]:
    """What a code means, and what to do; of several their titles."""
    if len(pages) > 1:
        columns: Columns = {"code": lambda row: row[0], "what": lambda row: row[1].title}
        yield table("diagnostics", pages.items(), columns)
        return
    ((code, page),) = pages.items()
    yield facts_table(code, {"what": page.title, "why": page.cause, "what to do": page.remedy})
