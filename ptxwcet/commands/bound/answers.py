"""The answer for one kernel, one launch and one machine, as plain data that can be cached.

``ptxwcet check --cache`` and ``ptxwcet sweep`` keep such answers under the keys of
:mod:`ptxwcet.opened.inputs`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ptxwcet.claims import Guarantee
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.opening import recent_module
from ptxwcet.opened.request import Request
from ptxwcet.report.head import Refused, diagnostic_row
from ptxwcet.report.reading import NotAReport, read_as
from ptxwcet.support.answer_store import KeptEntry, pack
from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
from ptxwcet.support.records import dataclass
from ptxwcet.support.rounding import seconds_of

_MOST_CYCLES = (1 << 63) - 1
"""Largest number that a column of a table holds."""
_PASSING = frozenset(("PW901", "PW902"))  # transient, and not caused by the input


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """Where a kernel is declared."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The bound of a kernel or its refusal, without a verdict on a budget.

    ``memory_latency_cycles`` and ``clock_mhz`` are the machine's, None if it cannot be read;
    ``place`` is None for a refusal.
    """

    answer: BoundedKernel | Refused
    memory_latency_cycles: int | None = None
    clock_mhz: int | None = None
    place: PlaceRow | None = None

    @property
    def clock(self) -> int:
        """The clock of the machine that a kernel is bounded on, in MHz."""
        assert self.clock_mhz is not None, "what is bounded is bounded on a machine"
        return self.clock_mhz

    @property
    def is_lasting(self) -> bool:
        """True if another run would give the same answer: no internal error, no lack of memory."""
        if not isinstance(self.answer, Refused):
            return True
        return _PASSING.isdisjoint(diagnostic.code for diagnostic in self.answer.diagnostics)

    def to_json(self) -> dict[str, Any]:
        """Returns the answer as plain data; :meth:`from_json` reads it back."""
        return asdict(self)

    @staticmethod
    def from_json(data: object) -> KeptAnswer:
        """Returns the answer that ``to_json`` made. Raises NotAReport."""
        kept = read_as(KeptAnswer, data)
        if isinstance(kept.answer, Refused):
            is_whole = bool(kept.answer.diagnostics)
        else:
            is_whole = bool(kept.answer.bounds) and kept.clock_mhz is not None
        if not is_whole:
            raise NotAReport("answer: neither a bound nor a reason")
        return kept


def answer_kernel(request: Request) -> KeptAnswer:
    """Returns the answer to a request for one kernel; analysis errors become refusals.

    Cost: as the bound.
    """
    try:
        answer = bound_file(request, recent_module(request))
        (kernel,) = build_report(answer, source=request.source).kernels
    except PtxwcetError as error:
        return KeptAnswer(refused(request, *error.diagnostics))
    except Exception as error:
        return KeptAnswer(refused(request, internal_error(error, whose(request))))
    place = None
    if not isinstance(kernel, Refused) and (span := answer.answered[0].kernel.span) is not None:
        span = span.written or span
        place = PlaceRow(span.source.name, span.line, span.column)
    machine = answer.machine
    return KeptAnswer(kernel, machine.memory_latency_cycles, machine.clock_mhz, place)


def died(request: Request) -> KeptAnswer:
    """Returns the answer to a request whose process died."""
    problem = Diagnostic(
        "PW902",
        f"{whose(request)}: the process that analysed it died",
        help="it may have been killed for the memory that it took: run with fewer --workers; if "
        "that does not help, it is a bug of ptxwcet: please report it with the input",
    )
    return KeptAnswer(refused(request, problem))


def kept_entry(key: str, request: Request, kept: KeptAnswer, seconds: float) -> KeptEntry:
    """Returns an answer as it is written into a store, with the seconds that it took."""
    return KeptEntry(key, asdict(summarise(request, kept)), pack(kept.to_json()), seconds)


def refused(request: Request, *diagnostics: Diagnostic) -> Refused:
    """Returns the refusal of a request for one kernel."""
    (name,) = request.kernels or ("",)
    return Refused(name, readable_names([name])[name], tuple(map(diagnostic_row, diagnostics)))


def whose(request: Request) -> str:
    """Returns the subject of an answer, for a message: ``kernel scan of scan.ptx``."""
    return " of ".join((*(f"kernel {name}" for name in request.kernels), request.path))


@dataclass(frozen=True, slots=True)
class Summary:
    """An answer as a row of a table: columns of the same names (docs/results.md).

    ``outcome`` is bounded, refused or failed; ``cycles``, ``seconds`` and ``guarantee`` are those
    of the launch if there is a grid, else of a block, named by ``of``; ``code`` and ``message`` are
    the first reason why there is no bound.
    """

    kernel: str
    readable: str
    memory_latency: int | None
    block: str
    grid: str | None
    outcome: str
    of: str | None = None
    cycles: int | None = None
    seconds: float | None = None
    guarantee: str | None = None
    block_cycles: int | None = None
    launch_cycles: int | None = None
    assumptions: str | None = None
    code: str | None = None
    message: str | None = None


def summarise(request: Request, kept: KeptAnswer) -> Summary:
    """Returns the row of an answer."""
    answer = kept.answer
    if isinstance(answer, Refused):
        first = answer.diagnostics[0]
        return not_answered(
            request, first.code, first.message, "refused", answer, kept.memory_latency_cycles
        )
    block, launch, clock = answer.bound_cycles, answer.launch, kept.clock_mhz
    head = (answer.kernel, answer.readable, kept.memory_latency_cycles, _size(answer.block))
    keys = {assumption.key for assumption in answer.assumptions}
    if answer.grid is None:
        cycles, guarantee = block, answer.guarantee
    elif launch is not None:
        cycles = launch.cycles
        guarantee = max((answer.guarantee, launch.guarantee), key=lambda one: Guarantee(one).rank)
        keys |= {assumption.key for assumption in launch.assumptions}
    else:
        cycles, guarantee = 0, answer.guarantee
    unbounded = (None if answer.grid is None else _size(answer.grid), "refused")
    if max(block, cycles) > _MOST_CYCLES:
        why = f"{whose(request)}: a bound of {max(block, cycles):,} cycles is too large for a table"
        least = block if block <= _MOST_CYCLES else None
        return Summary(*head, *unbounded, block_cycles=least, code="PW805", message=why)
    if answer.grid is not None and launch is None:
        why = answer.launch_not_bounded
        return Summary(*head, *unbounded, block_cycles=block, code="PW800", message=why)
    return Summary(
        *head,
        None if answer.grid is None else _size(answer.grid),
        "bounded",
        "block" if answer.grid is None else "launch",
        cycles,
        None if clock is None else seconds_of(cycles, clock),
        guarantee,
        block,
        None if launch is None else launch.cycles,
        " ".join(sorted(keys)),
    )


def not_answered(
    request: Request,
    code: str,
    message: str,
    outcome: str,
    answer: Refused | None = None,
    memory_latency: int | None = None,
) -> Summary:
    """Returns the row of a request without an answer: the request and the reason."""
    (name,) = request.kernels or ("",)
    return Summary(
        answer.kernel if answer is not None else name,
        answer.readable if answer is not None else readable_names([name])[name],
        memory_latency,
        request.block or "",
        request.grid,
        outcome,
        code=code,
        message=message,
    )


def _size(size: tuple[int, int, int]) -> str:
    """Returns the size as the command line takes it: ``32x8`` for (32, 8, 1)."""
    most = max((place for place, count in enumerate(size) if count > 1), default=0)
    return "x".join(map(str, size[: most + 1]))
