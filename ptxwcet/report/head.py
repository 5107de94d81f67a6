"""The common beginning of reports, as data and as text, and their rows kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from enum import Enum
from functools import partial
from math import isfinite
from typing import Any, Final, Literal, TypeVar

from ptxwcet.flow.launch import Dim3, Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.ledger import made_true
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.opening import Answer, RefusedKernel
from ptxwcet.support.diagnostics import Diagnostic, internal_error
from ptxwcet.support.records import dataclass
from ptxwcet.support.version import VERSION

SCHEMA: Final = 1

_Names = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReportHead:
    """The number of the schema, and the tool and version that made the report."""

    schema: Literal[1]
    tool: str
    version: str


@dataclass(frozen=True, slots=True)
class FileHead(ReportHead):
    """The head of a report about a file: its path as given, its SHA-256 in hexadecimal."""

    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class MachineRow:
    """The machine that times are for; ``by_definition`` are assumptions that it makes true."""

    name: str
    description: str
    memory_latency_cycles: int
    clock_mhz: int
    by_definition: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MachineHead(FileHead):
    """The head of a report about kernels on a machine."""

    machine: MachineRow


@dataclass(frozen=True, slots=True)
class KernelHead:
    """The beginning of a kernel's row: its name and its launch.

    ``kernel`` and ``parameters`` are of the PTX, ``readable`` and ``parameter_names`` (by PTX name)
    as people know them.
    """

    kernel: str
    readable: str
    block: Dim3
    grid: Dim3 | None
    parameters: tuple[tuple[str, int | float], ...]
    parameter_names: _Names


@dataclass(frozen=True, slots=True)
class BlockHead(KernelHead):
    """The beginning of a kernel's row in studies that time blocks: also the number of warps."""

    warp_count: int


@dataclass(frozen=True, slots=True)
class DiagnosticRow:
    """A diagnostic: code, place, message, notes, help."""

    code: str
    severity: str
    message: str
    file: str | None
    line: int | None
    column: int | None
    notes: tuple[str, ...]
    help: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel without an answer, and every reason; ``readable`` is its name for people."""

    kernel: str
    readable: str
    diagnostics: tuple[DiagnosticRow, ...]
    status: Literal["refused"] = "refused"


Study = TypeVar("Study")
"""The result of the study of a kernel."""
Row = TypeVar("Row")
"""The row of a kernel in a report."""
Report = TypeVar("Report", bound=MachineHead)
"""The report of an answer."""
Headed = TypeVar("Headed", bound=KernelHead | Refused)
"""A row with the kernel's launch, or with the reason of its refusal."""


def report_head() -> tuple[Literal[1], str, str]:
    """Returns the fields of a :class:`ReportHead`."""
    return SCHEMA, "ptxwcet", VERSION


def machine_head(answer: Answer[Any]) -> tuple[Literal[1], str, str, str, str, MachineRow]:
    """Returns the fields of the :class:`MachineHead` of an answer."""
    machine = answer.machine
    kernels = [study.kernel for study in answer.answered]
    is_code = bool(kernels) and all(kernel.code is not None for kernel in kernels)
    held = made_true(machine, is_code=is_code or is_no_ptx(answer.path))
    by_definition = tuple(assumption.key for assumption in held)
    machine_row = row_like(MachineRow, machine, by_definition=by_definition)
    return (*report_head(), answer.path, answer.sha256, machine_row)


def head_text(head: MachineHead) -> str:
    """Returns the first lines of a text for people."""
    machine = head.machine
    return (
        f"{head.tool} {head.version}  {head.file}\n"
        f"machine    {machine.name}: {machine.description}\n"
        f"           global memory latency {machine.memory_latency_cycles} cycles, "
        f"{machine.clock_mhz} MHz"
    )


def kernels_text(
    report: Any, lines_of: Callable[[Any], Iterable[str]], *, names_refused: bool = False
) -> str:
    """Returns the text of a report: its head, then the lines of each kernel after an empty line.

    Refused kernels, whose diagnostics are printed elsewhere, are left out or named.
    """
    parts = [head_text(report)]
    for kernel in report.kernels:
        if not isinstance(kernel, Refused):
            parts += ["", *lines_of(kernel)]
        elif names_refused:
            reason = kernel.diagnostics[0].message
            parts += ["", f"kernel     {kernel.readable}", f"REFUSED    {reason}"]
    return "\n".join(parts) + "\n"


def kernel_report(
    kind: Callable[..., Report], answer: Answer[Study], row_of: Callable[[Study], Row]
) -> Report:
    """Returns the report of an answer: the row of each kernel or its refusal, in file order.

    It is deterministic for equal input. An internal error in making a row is its refusal (PW901):
    see :func:`internal_errors`.
    """

    def row(study: Any) -> Row | Refused:
        if isinstance(study, RefusedKernel):
            return refused_row(study)
        return row_or_refusal(study.kernel, partial(row_of, study))

    return kind(*machine_head(answer), tuple(map(row, answer.kernels)))


def row_or_refusal(kernel: Kernel | str, make: Callable[[], Row]) -> Row | Refused:
    """Returns the row of a kernel (or of its name); its refusal (PW901) after an internal error."""
    try:
        return make()
    except Exception as error:
        names = (kernel, kernel) if isinstance(kernel, str) else (kernel.name, kernel.readable)
        found = internal_error(error, f"kernel {names[1]}")
        return Refused(*names, (diagnostic_row(found),))


def answered(rows: Iterable[Row | Refused]) -> list[Row]:
    """Returns the rows of kernels that are not refused."""
    return [row for row in rows if not isinstance(row, Refused)]


def internal_errors(answer: Answer[Any], rows: Iterable[object]) -> list[Diagnostic]:
    """Returns the internal errors that cost kernels which an answer has, their rows."""
    pairs = zip(answer.kernels, rows, strict=True)
    return [
        one
        for study, row in pairs
        if isinstance(row, Refused) and not isinstance(study, RefusedKernel)
        for one in said_in(row)
    ]


def refusals(answer: Answer[Any], rows: Iterable[object]) -> list[Diagnostic]:
    """Returns why kernels of an answer are refused, and then the internal errors of its report."""
    said = [diagnostic for refused in answer.refused for diagnostic in refused.diagnostics]
    return said + internal_errors(answer, rows)


def said_in(row: Refused) -> list[Diagnostic]:
    """Returns the diagnostics of a refusal that has no place."""
    said = row.diagnostics
    return [Diagnostic(one.code, one.message, notes=one.notes, help=one.help) for one in said]


def refused_row(row: RefusedKernel) -> Refused:
    """Returns the refusal of a kernel as plain data."""
    kernel = row.kernel
    return Refused(kernel.name, kernel.readable, tuple(map(diagnostic_row, row.diagnostics)))


def kernel_head(
    kernel: Kernel, launch: Launch
) -> tuple[str, str, Dim3, Dim3 | None, tuple[tuple[str, int | float], ...], _Names]:
    """Returns the fields of a :class:`KernelHead`; names are only those that differ from PTX's."""
    parameters = tuple(sorted(launch.parameters.items()))
    names = ((one, launch.name_of(one)) for one, _ in parameters)
    other = tuple((one, name) for one, name in names if name != one)
    return kernel.name, kernel.readable, launch.block, launch.grid, parameters, other


def as_people_know(headed: Headed) -> Headed:
    """Returns a row with readable names in place of PTX's."""
    if isinstance(headed, Refused):
        return replace(headed, kernel=headed.readable)
    names = dict(headed.parameter_names)
    parameters = tuple((names.get(one, one), value) for one, value in headed.parameters)
    return replace(headed, kernel=headed.readable, parameters=parameters)


def launch_text(head: BlockHead) -> str:
    """Returns a launch for people: block, grid, parameters."""
    block = "x".join(map(str, head.block))
    grid = "any grid" if head.grid is None else f"grid {'x'.join(map(str, head.grid))}"
    values = ", ".join(f"{name}={value}" for name, value in head.parameters)
    text = f"block {block} ({head.warp_count} warp{'' if head.warp_count == 1 else 's'}), {grid}"
    return f"{text}; {values}" if values else text


def diagnostic_row(diagnostic: Diagnostic) -> DiagnosticRow:
    """Returns a diagnostic as plain data, where it is written."""
    diagnostic = diagnostic.as_written()
    span = diagnostic.span
    place = (None,) * 3 if span is None else (span.source.name, span.line, span.column)
    where = dict(zip(("file", "line", "column"), place, strict=True))
    return row_like(DiagnosticRow, diagnostic, **where)


def row_like(row: type[Row], *sources: object, **others: Any) -> Row:
    """Returns a row: ``others``, and its other fields from the first source with such an attribute.

    Members of enumerations become their values, numbers that are not finite None.
    """
    values = dict(others)
    for field in fields(row):  # type: ignore[arg-type]
        source = next((source for source in sources if hasattr(source, field.name)), None)
        if field.name not in others and source is not None:
            values[field.name] = getattr(source, field.name)
    return row(**{name: _plain(value) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return None if isinstance(value, float) and not isfinite(value) else value
