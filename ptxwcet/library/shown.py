"""The reports of commands as tables for notebooks: their rows and titles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ptxwcet.library.hints import said_in_python
from ptxwcet.library.results import Shown
from ptxwcet.library.tables import facts_table, preformatted, rows_table, table
from ptxwcet.opened.opening import Answer
from ptxwcet.report.head import Refused, answered, refusals, said_in
from ptxwcet.support.diagnostics import Diagnostic, render_all
from ptxwcet.support.explanations import Explanation
from ptxwcet.support.printable import plural

if TYPE_CHECKING:
    from ptxwcet.commands.annotate.ports import PortsReport
    from ptxwcet.commands.annotate.report import AnnotationReport
    from ptxwcet.commands.bound.symbolic import SymbolicReport
    from ptxwcet.commands.check.report import CheckReport
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
    refused: Iterable[Diagnostic] | Answer[Any] = (),
) -> Shown[_Data]:
    """Returns a report that shows itself, and why kernels are refused in the words of Python.

    ``refused`` may be the answer that the report is made of.
    """
    if isinstance(refused, Answer):
        refused = refusals(refused, report.kernels)  # type: ignore[attr-defined]
    return Shown(report, title, render, tables, said_in_python(refused))


def formula_tables(report: SymbolicReport) -> Iterator[str]:
    """Yields the stretches of each formula, of a block and of the launch."""
    for kernel in answered(report.kernels):
        yield rows_table(f"{kernel.readable}: a block, {kernel.guarantee}", kernel.rows)
        if kernel.launch is not None:
            title = f"{kernel.readable}: the launch, {kernel.launch.guarantee}"
            yield rows_table(title, kernel.launch.rows)


def memory_tables(report: MemoryReport) -> Iterator[str]:
    """Yields the accesses of each kernel, and the touched parts of arrays."""
    for kernel in answered(report.kernels):
        yield rows_table(f"{kernel.readable}{kernel.bound_text}", kernel.accesses)
        yield rows_table("touched at most", kernel.footprints)


def annotation_tables(report: AnnotationReport) -> Iterator[str]:
    """Yields the lines of each kernel with the cycles that each pays of the bounds."""
    for kernel in answered(report.kernels):
        title = f"{kernel.bound.readable}: {kernel.bound.bound_cycles:,} cycles a block, "
        for file in kernel.files:
            yield rows_table(f"{title}{file.name}", file.lines)
        if kernel.elsewhere:
            yield rows_table(f"{title}elsewhere", kernel.elsewhere)


def ports_tables(report: PortsReport) -> Iterator[str]:
    """Yields the instructions of each loop with their cycles at each port, and the sums."""
    for kernel in answered(report.kernels):
        for loop in kernel.loops:
            names = loop.port_names
            sums = {port: f"{names[port]}: {total:g}" for port, total in loop.ports.items()}
            chain = "" if loop.chain_cycles is None else f", chain of {loop.chain_cycles:g} cycles"
            title = f"{kernel.readable}, loop {loop.block}: {plural(loop.iterations, 'iteration')}"
            yield rows_table(title + chain, loop.instructions, {"ports": sums})


def what_if_tables(report: WhatIfReport) -> Iterator[str]:
    """Yields the bounds of each kernel on each machine."""
    for kernel in answered(report.kernels):
        yield rows_table(kernel.readable, kernel.rows)


def difference_tables(report: DiffReport) -> Iterator[str]:
    """Yields the changes of each kernel, and the causes of the difference."""
    for kernel in report.kernels:
        paid = kernel.paid
        changes = (
            *(*kernel.about, *kernel.bounds, *kernel.launch_parts, *kernel.loops),
            *(*kernel.assumptions, *(() if paid is not None else kernel.lines)),
        )
        why = "; ".join(kernel.worse) or kernel.status
        yield rows_table(f"{kernel.kernel} [{kernel.launch}]: {why}", changes)
        if paid is not None:
            yield rows_table("what pays the difference", (*paid.parts, *paid.op_classes))
            yield rows_table("lines", paid.lines)


def check_tables(report: CheckReport) -> Iterator[str]:
    """Yields a row for each check, then the problems of the checks that did not pass."""
    counts = f"{report.passed} passed, {report.failed} failed, {report.refused} refused"
    yield rows_table(f"{report.plan}: {counts}", report.checks)
    for row in report.checks:
        if row.problems:
            problems = render_all(said_in(Refused("", "", row.problems)))
            yield preformatted(f"{row.outcome} {row.name}\n{problems}")


def template_tables(template: FactsTemplate) -> Iterator[str]:
    """Yields the template as it is."""
    yield preformatted(template.text)


def explanation_tables(pages: Mapping[str, Explanation]) -> Iterator[str]:
    """Yields the meaning and the remedy of a code; of several codes their titles."""
    if len(pages) > 1:
        titles = [page.title for page in pages.values()]
        yield table("diagnostics", [("code", [*pages]), ("what", titles)])
        return
    ((code, page),) = pages.items()
    yield facts_table(code, {"what": page.title, "why": page.cause, "what to do": page.remedy})
