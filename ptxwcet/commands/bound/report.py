"""The report as plain data: the content of every format, in field order. Schema number 1.

Cycle counts have their claim; a field without a value is None and has a reason in another field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Literal

from ptxwcet.claims import AssumptionState, Guarantee, TimingClaim
from ptxwcet.commands.bound.loop_text import PER_ENTRY, iterations_text
from ptxwcet.opened.budgets import BLOCK, KERNEL, Verdict
from ptxwcet.report.access_rows import AccessRow
from ptxwcet.report.columns import TEXT, filled, shown
from ptxwcet.report.head import BlockHead, MachineHead, Refused
from ptxwcet.report.source_lines import cut_text, number_ranges
from ptxwcet.support.records import dataclass

READINGS = (
    *("unsigned", "signed", "magnitude", "ones"),
    *("length", "lowest", "odd", "wrapping"),
)
"""How the bits of a register are read as a number."""
ORIGINS = ("analysis", "certificate", "user")
"""The origins of a bound on the executions of a loop's body."""


@dataclass(frozen=True, slots=True)
class AssumptionRow:
    """An assumption: stable key, sentence, state, who states it."""

    key: str
    text: str
    state: Annotated[str, AssumptionState]
    source: str


def citation_texts(claim: TimingClaim) -> tuple[str, ...]:
    """Returns the sources of the method of a claim: papers and proofs."""
    return tuple(f"{citation.paper}, {citation.place}" for citation in claim.citations)


def assumption_rows(claim: TimingClaim) -> tuple[AssumptionRow, ...]:
    """Returns the assumptions of a claim."""
    return tuple(AssumptionRow(a.key, a.text, a.state.value, a.source) for a in claim.assumptions)


def rests_on(own: Sequence[AssumptionRow], launch: Sequence[AssumptionRow] | None) -> list[str]:
    """Returns assumptions, a line each: first the common ones, then of the block, of the launch."""
    if launch is None:
        return [_assumed(each) for each in own]
    both = [each for each in own if each in launch]
    return [
        *(_assumed(each) for each in both),
        *(_assumed(each, "of the block: ") for each in own if each not in both),
        *(_assumed(each, "of the kernel: ") for each in launch if each not in both),
    ]


def _assumed(assumption: AssumptionRow, whose: str = "") -> str:
    return f"  - {whose}{assumption.text} [{assumption.state}]"


@dataclass(frozen=True, slots=True)
class BoundRow:
    """A method's total for a block, in cycles, with its claim; or why there is none."""

    method: str
    title: str
    cycles: int | None
    guarantee: Annotated[str, Guarantee] | None
    citations: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class SectionRow:
    """A barrier section, executed ``multiplicity`` times, ``cycles`` each; ends at a PTX line."""

    multiplicity: int = field(metadata=shown("times", unit="x"))
    cycles: int = field(metadata=shown("cycles each"))
    ends_at: str = field(metadata=shown("up to the barrier at"))


@dataclass(frozen=True, slots=True)
class PartRow:
    """A multiple of a register, or of its quotient by another one, read as a number in some way."""

    register: str
    coefficient: int
    reading: Annotated[str, READINGS]
    divisor: str | None


@dataclass(frozen=True, slots=True)
class SumRow:
    """A sum of multiples of registers and a constant, as an integer without a wrap."""

    parts: tuple[PartRow, ...]
    constant: int


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A sum is at least ``low`` and at most ``high``, and a multiple of ``divisor``."""

    sum: SumRow
    low: int
    high: int
    divisor: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """An iteration leaves ``divisor * measure`` at most ``factor * measure + constant``."""

    factor: int
    constant: int
    divisor: int


@dataclass(frozen=True, slots=True)
class RemaindersRow:
    """An iteration of Euclid's algorithm, on two registers."""

    dividend: str
    divisor: str
    signed: bool


@dataclass(frozen=True, slots=True)
class CertificateRow:
    """Why an entry of a loop goes back at most ``back_edges`` times, and executes its body at most
    ``iterations`` times.

    ``facts`` are what the walk knows of registers at the entry, ``way`` the block before it from
    which on the checker looks at what is executed, if it does. ``invariant`` holds at each arrival
    at the header; ``measure`` is at most ``high`` at the entry, and after an iteration at least
    ``low`` and smaller by each of ``steps``.
    """

    iterations: int
    back_edges: int
    measure: SumRow
    high: int
    low: int
    steps: tuple[StepRow, ...]
    remainders: RemaindersRow | None
    invariant: tuple[RangeRow, ...]
    facts: tuple[RangeRow, ...]
    way: str | None


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop with the largest number of body executions of an entry, and who says so.

    ``source_line`` is the one at which ``--loop-bound`` finds the loop, else that of its first
    block, which ends with ``(label only)``; of two loops on one line only the labels tell.
    ``origin`` is ``analysis`` (a closed form, or each iteration was walked), ``certificate`` or
    ``user``. ``certificates`` has one for each bound of entries that rests on one.
    """

    block: str = field(metadata=shown("block"))
    source_line: str = field(metadata=shown("line"))
    iterations: int = field(
        metadata=shown(PER_ENTRY, lambda row: iterations_text(row.iterations), is_right=True)
    )
    origin: Annotated[str, ORIGINS] = field(
        metadata=shown("origin", lambda row: f"{row.origin}: {row.reason}")
    )
    reason: str
    certificates: tuple[CertificateRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LineRow:
    """A source line with the initiation cycles of its instructions over all warps."""

    place: str = field(metadata=shown("line"))
    cycles: int = field(metadata=shown("cycles"))
    share_percent: float = field(metadata=shown("share", form="", unit="%", is_right=False))


@dataclass(frozen=True, slots=True)
class PathRow:
    """How often a warp of ``warps`` executes a block on the path that the bound charges.

    ``lines`` are the block's source lines. Sections count where such a warp determines them.
    """

    block: str = field(metadata=shown("block"))
    lines: str = field(metadata=shown("lines"))
    executions: int = field(
        metadata=shown("executions by a warp that determines the bound", unit="x")
    )
    warps: tuple[int, ...] = field(
        metadata=shown("which warps", lambda row: number_ranges(row.warps))
    )


@dataclass(frozen=True, slots=True)
class PaidRow:
    """What a line pays of a bound, in cycles; ``text`` is the line, None if it is not at hand.

    ``issue``: the determining warp issues its instructions; ``waiting_for_result``,
    ``waiting_for_unit``: it waits for their results, for them in the queues of their units;
    ``interference``: other warps execute them meanwhile. ``total`` is the sum.
    """

    place: str = field(metadata=shown("line"))
    text: str | None = field(metadata=shown("text", lambda row: cut_text(row.text), at=1))
    issue: int = field(metadata=shown("issue"))
    waiting_for_result: int = field(metadata=shown("result"))
    waiting_for_unit: int = field(metadata=shown("unit"))
    interference: int = field(metadata=shown("other warps"))
    total: int = field(metadata=shown("total"))
    share_percent: float = field(metadata=shown("share", form=".1f", unit="%"))


def paid_parts(rows: Sequence[PaidRow]) -> dict[str, int]:
    """Returns the sums of rows in four parts, by the names that people see."""
    return {
        "issue": sum(row.issue for row in rows),
        "waits for results": sum(row.waiting_for_result for row in rows),
        "waits for units": sum(row.waiting_for_unit for row in rows),
        "other warps": sum(row.interference for row in rows),
    }


@dataclass(frozen=True, slots=True)
class PaidSectionRow:
    """A section of a bound: what lines pay for one execution, ``cycles`` in sum.

    ``alone_cycles`` is the isolated length of the determining warp, one of ``warps``;
    ``interference_cycles`` is what other warps add.
    """

    multiplicity: int = field(metadata=shown("times", unit="x"))
    cycles: int = field(metadata=shown("cycles"))
    alone_cycles: int = field(metadata=shown("alone"))
    interference_cycles: int = field(metadata=shown("other warps"))
    ends_at: str = field(metadata=shown("up to"))
    warps: tuple[int, ...] = field(metadata=shown("of warp", lambda row: number_ranges(row.warps)))
    lines: tuple[PaidRow, ...] = field(metadata=shown("paid most by", lambda row: row.costliest))

    @property
    def costliest(self) -> str:
        """The line that pays most of the section, and its share; empty without lines."""
        return "".join(f"{line.place} {line.share_percent:.1f} %" for line in self.lines[:1])


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which lines pay the ``cycles`` of the bound of ``method``, every cycle of it once.

    ``lines`` by source line, PTX line where there is none; ``opcodes`` by opcode with modifiers,
    ``text`` being how many instructions have it; ``ptx_lines`` by PTX line. ``accesses`` to memory,
    in program order. ``op_classes`` by what the machine times alike, control by its opcode.
    """

    method: str
    cycles: int
    lines: tuple[PaidRow, ...]
    opcodes: tuple[PaidRow, ...]
    ptx_lines: tuple[PaidRow, ...]
    sections: tuple[PaidSectionRow, ...]
    accesses: tuple[AccessRow, ...]
    op_classes: tuple[PaidRow, ...] = ()


WITHOUT_WAITING = " (without waiting at the memory path and the memory)"
"""A note on the length of an isolated warp that ``waits_behind_units``."""


@dataclass(frozen=True, slots=True)
class WarpRow:
    """Warps that execute the same path: isolated length L and execution time E, in cycles.

    ``waits_behind_units``: L leaves out waiting at the memory path and the memory, where a warp
    alone waits behind its own accesses.
    """

    warps: tuple[int, ...] = field(
        metadata=shown("warps", lambda row: number_ranges(row.warps), is_right=True)
    )
    isolated_cycles: int = field(metadata=shown("L", lambda row: f"L {row.isolated_cycles:,}"))
    execution_cycles: int | None = field(metadata=shown("E", lambda row: row.execution_text))
    waits_behind_units: bool

    @property
    def execution_text(self) -> str:
        """The execution time for people."""
        cycles = self.execution_cycles
        return "E not given" if cycles is None else f"E {cycles:,}"


@dataclass(frozen=True, slots=True)
class PaidByLaunchRow:
    """What a line pays of the bound of a launch, in cycles; ``text`` as in :class:`PaidRow`.

    ``work`` and ``tail`` in proportion to its initiations in all blocks, ``latency`` to what the
    slowest warp of a block waits for it, ``memory`` to its sectors. ``total`` is the sum.
    """

    place: str = field(metadata=shown("line"))
    text: str | None = field(metadata=shown("text", lambda row: cut_text(row.text), at=1))
    work: int = field(metadata=shown("work"))
    latency: int = field(metadata=shown("latency"))
    tail: int = field(metadata=shown("tail"))
    memory: int = field(
        metadata=shown(
            "memory", lambda row: row.memory or None, none="0", is_right=True, is_optional=True
        )
    )
    total: int = field(metadata=shown("total"))
    share_percent: float = field(metadata=shown("share", form=".1f", unit="%"))


@dataclass(frozen=True, slots=True)
class OccupancyRow:
    """The warps of resident blocks in per cent of those that an SM can hold, and what a thread has.

    ``percent`` with the ``resident_blocks`` of the bound, ``least_percent`` and ``most_percent``
    with the least and the most that are possible. ``registers_per_thread`` is None if nobody says
    it. ``local_stored_bytes`` and ``local_loaded_bytes`` are what the instructions of a thread move
    of its local memory, each once: ``spills`` as ptxas says, or all of it, in machine code; None if
    neither is at hand.
    """

    percent: float
    least_percent: float
    most_percent: float
    registers_per_thread: int | None
    local_stored_bytes: int | None
    local_loaded_bytes: int | None
    spills: bool


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """How long the whole launch takes at most: ``cycles``, the sum of seven parts.

    ``work_cycles`` are issued and initiated before the last block starts, ``slack_cycles`` latency
    of the blocks that pass through one slot, ``tail_cycles`` work that may be left when the last
    block starts, ``launcher_cycles`` gaps between starts, ``memory_cycles`` waiting at the memory
    of the GPU, ``polling_cycles`` what warps that wait for mbarriers may take of all that time, 0
    in reports of older versions; ``overhead_cycles`` is that of a launch.
    ``form`` is the form of the theorem that gave it (docs/methods/grid.md), for
    ``resident_blocks`` on an SM, the worst of ``least_resident`` to ``most_resident``.
    ``limited_by`` are the resources that allow no more, ``open`` what would tell how many there
    are; then the bound is between ``least_cycles`` and ``cycles``. ``lines`` pay all but gaps and
    overhead, None unless that is asked for. ``occupancy`` is None in reports of older versions.
    """

    cycles: int
    microseconds: float
    guarantee: Annotated[str, Guarantee]
    blocks: int
    sms: int
    resident_blocks: int
    least_resident: int
    most_resident: int
    limited_by: tuple[str, ...]
    open: tuple[str, ...]
    least_cycles: int
    form: str
    work_cycles: int = field(metadata=shown("work"))
    slack_cycles: int = field(metadata=shown("latency"))
    tail_cycles: int = field(metadata=shown("tail"))
    launcher_cycles: int = field(metadata=shown("launcher"))
    memory_cycles: int = field(metadata=shown("memory"))
    overhead_cycles: int = field(metadata=shown("overhead"))
    assumptions: tuple[AssumptionRow, ...]
    lines: tuple[PaidByLaunchRow, ...] | None
    citations: tuple[str, ...] = ()
    occupancy: OccupancyRow | None = None
    polling_cycles: int = field(
        default=0, metadata=shown("polls", lambda row: row.polling_cycles or None)
    )

    @property
    def parts(self) -> dict[str, int]:
        """The seven parts by the names that people see; polls only where there are any."""
        columns = filled((self,), TEXT, {})
        return {column.title: cycles for column, (cycles,) in columns if cycles is not None}


@dataclass(frozen=True, slots=True)
class RooflineRow:
    """What the busiest resource takes for the whole launch: an estimate, in no way a bound.

    ``cycles`` is the largest of ``core_cycles`` (initiations on the busiest sub-core), those of
    the memory paths of SMs, and ``memory_cycles``: of ``traffic``, all that the bound charges the
    memory of the GPU with, or of ``arrays``, each array of the launch once, if that is less.
    """

    cycles: int
    microseconds: float
    guarantee: Annotated[str, Guarantee]
    core_cycles: int
    path_cycles: int
    memory_cycles: int
    memory_of: Literal["traffic", "arrays"]


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A budget, and what the bound ``of`` a block or of the kernel's launch says of it.

    ``budget`` as it was given, ``cycles`` the most within it. Only ``within`` is proved, under the
    assumptions of the bound; ``guarantee`` is that of the bound, None if there is none.
    """

    budget: str
    cycles: int
    of: Annotated[str, (BLOCK, KERNEL)]
    verdict: Annotated[str, Verdict]
    guarantee: Annotated[str, Guarantee] | None


@dataclass(frozen=True, slots=True)
class BoundedKernel(BlockHead):
    """A bounded kernel. ``bounds[0]`` is what is reported; ``microseconds`` at the machine's clock.

    ``kernel`` and ``parameters`` are of the PTX, ``readable`` and ``parameter_names`` (by PTX name)
    as people know them. ``bound_cycles`` holds under ``assumptions``, among them that the block is
    alone on its SM.
    ``largest_pessimism_percent`` is (bound / lower bound - 1) * 100, None without a lower bound.
    ``worst_path`` is that of the safe bound; ``explanation`` None unless it is asked for.
    ``not_explained`` says why neither can be given, empty if they can. ``launch`` bounds the whole
    launch, None without a grid; ``launch_not_bounded`` says why there is none though there is one.
    ``roofline`` is an estimate beside it. ``budget`` is None unless one is given.
    """

    bound_cycles: int
    microseconds: float
    guarantee: Annotated[str, Guarantee]
    assumptions: tuple[AssumptionRow, ...]
    bounds: tuple[BoundRow, ...]
    largest_pessimism_percent: float | None
    block_ranges: int
    worst_block_first: tuple[int, int, int]
    worst_block_last: tuple[int, int, int]
    warps: tuple[WarpRow, ...]
    sections: tuple[SectionRow, ...]
    loops: tuple[LoopRow, ...]
    costliest_lines: tuple[LineRow, ...]
    worst_path: tuple[PathRow, ...]
    explanation: Explanation | None
    not_explained: str = ""
    launch: LaunchRow | None = None
    launch_not_bounded: str = ""
    budget: BudgetRow | None = None
    roofline: RooflineRow | None = None
    status: Literal["bounded"] = "bounded"


def merged_assumptions(row: BoundedKernel) -> list[tuple[str, str, str, str, str]]:
    """Returns key, text, state and evidence of each assumption, and the bounds that need it."""
    launch = () if row.launch is None else row.launch.assumptions
    whose = dict.fromkeys(row.assumptions, "block")
    for one in launch:
        whose[one] = "block, launch" if one in whose else "launch"
    return [(one.key, one.text, one.state, one.source, of) for one, of in whose.items()]


@dataclass(frozen=True, slots=True)
class Report(MachineHead):
    """Everything about one run of the main job."""

    kernels: tuple[BoundedKernel | Refused, ...]
