"""The entry point to makespans: of a kernel string, or of the kernels of a file.

>>> from ptxwcet.methods.makespan.study import MakespanOptions, makespan_of_string
>>> makespan_of_string("LLCLL", 600, MakespanOptions()).slots
2401
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from ptxwcet.bounds.analysed import PreparedKernel, PreparedPiece
from ptxwcet.claims import Guarantee
from ptxwcet.flow.walk.path import visited_blocks
from ptxwcet.ir.kernel import Instruction
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import TimingMeaning
from ptxwcet.methods.makespan.ilp_model import Constraints
from ptxwcet.methods.makespan.methods import METHODS
from ptxwcet.methods.makespan.problem import Effort, MakespanAnswer, MakespanProblem, build_problem
from ptxwcet.methods.makespan.strings import StringSection, StringTree, parse_string, sections_of
from ptxwcet.opened.opening import Answer, open_request, prepared_kernel
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.cost import UNKNOWN_OPCODES, is_charged


@dataclass(frozen=True, slots=True)
class MakespanOptions:
    """The options: capacities of the machine (warps per slot), method, and effort.

    ``seconds`` limits the time for one string (None: no limit); ``most_extrapolated`` is x of the
    extrapolation.
    """

    load_store: Fraction = Fraction(1)
    cores: Fraction = Fraction(1)
    method: str = "exact"
    seconds: float | None = None
    most_extrapolated: int = 8
    constraints: Constraints = Constraints.SHORT
    report: Callable[[str, float], None] = lambda _text, _done: None


@dataclass(frozen=True, slots=True)
class SectionMakespan:
    """One string of a block: as it was given, as it was solved, and the answer.

    ``multiplicity`` is the number of its executions by the block; ``problem`` has whole capacities.
    """

    multiplicity: int
    tree: StringTree
    problem: MakespanProblem
    answer: MakespanAnswer


@dataclass(frozen=True, slots=True)
class Makespan:
    """The makespan of all warps: the sum over its sections, with the weakest of their claims."""

    warps: int
    sections: tuple[SectionMakespan, ...]
    seconds: float

    @property
    def slots(self) -> int:
        """The number of time slots until all warps have ended."""
        return sum(s.multiplicity * s.answer.slots for s in self.sections)

    @property
    def lower(self) -> int:
        """The number of time slots that some schedule takes at least."""
        return sum(s.multiplicity * s.answer.lower for s in self.sections)

    @property
    def guarantee(self) -> Guarantee:
        """The weakest guarantee of the sections."""
        return Guarantee.weakest(s.answer.claim.guarantee for s in self.sections)

    @property
    def is_exact(self) -> bool:
        """Whether the value is the longest makespan."""
        return all(s.answer.is_exact for s in self.sections)


@dataclass(frozen=True, slots=True)
class KernelMakespan:
    """The makespan of a kernel: that of the kind of block with the largest."""

    prepared: PreparedKernel
    piece: PreparedPiece
    makespan: Makespan


MakespansAnswer = Answer[KernelMakespan]
"""The makespans of the kernels of a file."""


def makespan_of_string(text: str, warps: int, options: MakespanOptions) -> Makespan:
    """Returns the makespan of ``warps`` warps that execute a string of L and C.

    Raises PtxwcetError: PW560 (string), PW561 (numbers), PW564 (size), PW565 (method), PW566
    (time). Cost: the method's.
    """
    check_options(options)
    return _makespan((StringSection(1, parse_string(text)),), warps, options)


def makespans_of_file(request: Request, options: MakespanOptions) -> MakespansAnswer:
    """Returns the makespan of a block of each requested kernel, on its single path.

    Raises PtxwcetError for input that concerns no single kernel. Cost: the method's; loops are not
    unrolled by the methods that need no letters.
    """
    check_options(options)
    machine = load_machine(request.machine, request.memory_latency_cycles)
    opened = open_request(request)
    kernels = opened.each(
        lambda kernel: _worst(
            prepared_kernel(opened, kernel, machine), machine.makespan_letters, options
        )
    )
    return Answer(request.path, opened.sha256, machine, kernels)


def check_options(options: MakespanOptions) -> None:
    """Raises PtxwcetError (PW566) for a time limit or a size that leaves nothing to do."""
    if options.seconds is not None and not 0 < options.seconds < float("inf"):
        raise PtxwcetError.of(
            "PW566",
            f"a time limit of {options.seconds:g} seconds: it must be above zero",
            help="leave --timeout out for no limit",
        )
    if options.most_extrapolated < 1:
        message = f"extrapolation from at most {options.most_extrapolated} warps: one is the least"
        raise PtxwcetError.of("PW566", message, help="give 1 or more: extrapolate:1")


def _worst(
    prepared: PreparedKernel, letters: Mapping[str, str], options: MakespanOptions
) -> KernelMakespan:
    """Returns the piece with the largest makespan. Raises PtxwcetError (PW562)."""
    _require_nominal(prepared)
    pieces = [
        KernelMakespan(
            prepared,
            piece,
            _makespan(sections_of(piece.workload, letters), piece.workload.warp_count, options),
        )
        for piece in prepared.pieces
    ]
    return max(pieces, key=lambda piece: piece.makespan.slots)


def _require_nominal(prepared: PreparedKernel) -> None:
    """Raises PtxwcetError (PW562) for instructions charged above the machine's timings."""
    if all(piece.is_nominal for piece in prepared.pieces):
        return
    machine, span = prepared.machine, None
    if any(UNKNOWN_OPCODES in piece.assumptions for piece in prepared.pieces):
        message = "an opcode is unknown: nobody knows whether it is an L or a C"
        remedy = "leave --on-unknown out to see which, and add it to the machine file"
    elif machine.timing_meaning is not TimingMeaning.EXACT:
        message = f"the timings of machine {machine.name} are charged above what is measured"
        remedy = 'take a machine file without timings = "upper"'
    else:
        charged = [i for i in _executed(prepared) if is_charged(i, machine)]
        names = ", ".join(dict.fromkeys(i.mnemonic for i in charged)) or "accesses to memory"
        message = f"machine {machine.name} charges {names} above what is measured"
        remedy = "take a machine file whose rows for them are without upper = true"
        span = charged[0].span if charged else None
    note = "a makespan is given for instructions at the machine's own timings"
    raise PtxwcetError.of("PW562", message, span, notes=(note,), help=remedy)


def _executed(prepared: PreparedKernel) -> Iterator[Instruction]:
    """Yields the instructions that some warp executes, in the order of the kernel."""
    paths = (warp.nodes for piece in prepared.pieces for warp in piece.paths.warps)
    for block in sorted({block for nodes in paths for block in visited_blocks(nodes)}):
        part = prepared.cfg.blocks[block]
        yield from prepared.kernel.instructions[part.start : part.end]


def _makespan(
    sections: tuple[StringSection, ...], warps: int, options: MakespanOptions
) -> Makespan:
    start = time.perf_counter()
    solved: dict[StringTree, tuple[MakespanProblem, MakespanAnswer]] = {}
    timed = []
    for section in sections:
        if section.tree not in solved:
            problem = build_problem(section.tree, warps, options.load_store, options.cores)
            effort = Effort(
                options.seconds, options.most_extrapolated, options.constraints, options.report
            )
            solved[section.tree] = problem, METHODS[options.method](problem, effort)
        timed.append(SectionMakespan(section.multiplicity, section.tree, *solved[section.tree]))
    return Makespan(warps, tuple(timed), time.perf_counter() - start)
