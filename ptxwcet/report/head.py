"""What every report begins with, as data and as text, and its rows kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import partial
from math import isfinite
from typing import Any, Final, Literal, TypeVar

from ptxwcet.claims import AssumptionState
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.opened.opening import Answer, RefusedKernel
from ptxwcet.support.diagnostics import Diagnostic, internal_error
from ptxwcet.support.version import VERSION

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class ReportHead:
    """Number of the schema, and who made the report."""

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
"""What came of a study of a kernel."""
Row = TypeVar("Row")
"""The row of a kernel in a report."""


def report_head() -> tuple[Literal[1], str, str]:
    """The fields of a :class:`ReportHead`."""
    return SCHEMA, "ptxwcet", VERSION


def machine_head(answer: Answer[Any]) -> tuple[Literal[1], str, str, str, str, MachineRow]:
    """The fields of the :class:`MachineHead` of an answer."""
    machine = answer.machine
    made_true = AssumptionState.BY_DEFINITION
    machine_row = MachineRow(
        machine.name,
        machine.description,
        machine.memory_latency_cycles,
        machine.clock_mhz,
        tuple(one.key for one in machine.satisfies if one.state is made_true),
    )
    return (*report_head(), answer.path, answer.sha256, machine_row)


def head_text(head: MachineHead) -> str:
    """The first lines of a text for people."""
    machine = head.machine
    return (
        f"{head.tool} {head.version}  {head.file}\n"
        f"machine    {machine.name}: {machine.description}\n"
        f"           global memory latency {machine.memory_latency_cycles} cycles, "
        f"{machine.clock_mhz} MHz"
    )


def kernel_rows(
    answer: Answer[Study],
    kernel_of: Callable[[Study], Kernel],
    row_of: Callable[[Study], Row],
    failures: list[Diagnostic] | None,
) -> tuple[Row | Refused, ...]:
    """The row of each kernel of an answer, or its refusal, in file order.

    An internal error in making a row is its refusal (PW901), and is added to ``failures``.
    """
    return tuple(
        refused_row(one)
        if isinstance(one, RefusedKernel)
        else row_or_refusal(kernel_of(one), partial(row_of, one), failures)
        for one in answer.kernels
    )


def row_or_refusal(
    kernel: Kernel | str, make: Callable[[], Row], failures: list[Diagnostic] | None
) -> Row | Refused:
    """The row of a kernel (or of one so called); its refusal (PW901) for an internal error."""
    try:
        return make()
    except Exception as error:
        names = (kernel, kernel) if isinstance(kernel, str) else (kernel.name, kernel.readable)
        found = internal_error(error, f"kernel {names[1]}")
        if failures is not None:
            failures.append(found)
        return Refused(*names, (diagnostic_row(found),))


def refused_row(row: RefusedKernel) -> Refused:
    """The refusal of a kernel as plain data."""
    kernel = row.kernel
    return Refused(kernel.name, kernel.readable, tuple(map(diagnostic_row, row.diagnostics)))


def name_rows(launch: Launch) -> tuple[tuple[str, str], ...]:
    """What the parameters with a value are called where that is not their PTX name."""
    names = ((one, launch.name_of(one)) for one in sorted(launch.parameters))
    return tuple((one, name) for one, name in names if name != one)


def as_people_know(row: Row) -> Row:
    """A row with the names that people know in the place of PTX's."""
    known: Any = row
    changed: dict[str, Any] = {"kernel": known.readable}
    if not isinstance(row, Refused):
        names = dict(known.parameter_names)
        changed["parameters"] = tuple((names.get(one, one), it) for one, it in known.parameters)
    renamed: Row = replace(known, **changed)
    return renamed


def diagnostic_row(diagnostic: Diagnostic) -> DiagnosticRow:
    """A diagnostic as plain data."""
    span = diagnostic.span
    return DiagnosticRow(
        diagnostic.code,
        diagnostic.severity.value,
        diagnostic.message,
        span.source.name if span is not None else None,
        span.line if span is not None else None,
        span.column if span is not None else None,
        diagnostic.notes,
        diagnostic.help,
    )


def row_like(row: type[Row], *sources: object, **others: Any) -> Row:
    """A row: ``others``, and for its other fields what the first source has of the same name.

    Members of enumerations become their values, numbers that are not finite None.
    """
    values = dict(others)
    for field in fields(row):  # type: ignore[arg-type]
        source = next((one for one in sources if hasattr(one, field.name)), None)
        if field.name not in others and source is not None:
            values[field.name] = getattr(source, field.name)
    return row(**{name: _plain(value) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return None if isinstance(value, float) and not isfinite(value) else value
