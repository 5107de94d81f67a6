"""What one instruction costs on a machine: the only place where op classes become timings.

Codes: PW401 an opcode without a row, PW402 an op class that the machine refuses, PW403 a form of a
barrier or asynchronous wait that no bound is proved for; of machine code, whose waiting is what its
words say (:mod:`ptxwcet.timing.machine_code`), PW405.

Asynchronous copies (``cp.async``) write a pseudo register when they complete, and
``cp.async.wait_*`` reads all of them: a wait for all copies, which is never earlier than the wait
for all but the N youngest that ``wait_group N`` asks for. More waiting than the machine does keeps
the bounds safe (docs/methods/safe.md). Products of a warpgroup are waited for in the same way
(docs/methods/warpgroups.md). A fence that stalls its warp writes one that whatever comes
after it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Register
from ptxwcet.ir.op_classes import COUNTING, ControlEffect, Kind, OpClass, Space
from ptxwcet.machine.expansion import as_executed
from ptxwcet.machine.loader import load_machine, shipped_machines
from ptxwcet.machine.model import (
    WARP_SIZE,
    Machine,
    MemoryRules,
    OpTiming,
    RefusedOp,
    TimingMeaning,
)
from ptxwcet.memory.analysis import (
    NO_TRANSACTIONS,
    Transactions,
    transactions_at_worst,
    transactions_of_any,
)
from ptxwcet.memory.instructions import UNCOUNTED
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.machine_code import (
    PTX_FORMS,
    CodeTimes,
    accesses_memory,
    barrier_operands,
    is_taken,
)
from ptxwcet.timing.readers import NO_READERS, ReadersOf, latency_for
from ptxwcet.warp.program import Barrier, PartialBarrier, TimedInstruction

Cost = TimedInstruction | Barrier | PartialBarrier | Diagnostic | None
"""A timed instruction or barrier; a refusal; None for a return that the machine does not issue."""

UNKNOWN_OPCODES = Assumption(
    "unknown-opcodes-bounded",
    "an opcode without a row is one instruction, no slower than the machine's slowest row, on one "
    "of its units or on a unit of its own; it is neither a barrier nor a branch, and writes no "
    "registers but those of its first operand",
    AssumptionState.ASSUMED,
    "--on-unknown worst",
)
"""What a bound needs that charges unknown opcodes their worst case."""

# Static copies whose origins agree modulo this number share a pseudo register: a later one then
# waits for an earlier one, which is safe. More pseudo registers only make waits slower to compute.
COPY_REGISTERS = 64
SMALL_COPIES = tuple(f"cp.async.{number}" for number in range(COPY_REGISTERS))
"""The pseudo registers that copies of ``cp.async`` write."""
_CLOSING = frozenset({"cp.async.bulk.commit_group"})
BULK_COPIES = tuple(f"cp.async.bulk.{number}" for number in range(COPY_REGISTERS))
"""The pseudo registers that bulk copies of a group write."""
_MODELLED_WAITS = {
    **dict.fromkeys(("cp.async.wait_group", "cp.async.wait_all"), SMALL_COPIES),
    "cp.async.bulk.wait_group": BULK_COPIES,
}
_STALLED = ("warp.stalled",)
_GRID_WAIT = "griddepcontrol.wait"
# of machine code: where lanes of a warp meet, and what the compiler fills up with
_LIKE_BRANCHES = frozenset(
    {
        *(_GRID_WAIT, "griddepcontrol.launch_dependents"),
        *("BSSY", "BSYNC", "BREAK", "YIELD", "NOP", "WARPSYNC", "ENDCOLLECTIVE", "BMOV"),
    }
)
_ACTUAL_COPIES = frozenset({"cp.async", "LDGSTS"})
# ULDC moves a constant by way of the uniform datapath, in a fixed time
_LIKE_OTHERS = {
    "LDSM": OpClass.LOAD_SHARED,
    "STSM": OpClass.STORE_SHARED,
    "ULDC": OpClass.MOVE,
}

# As for copies: of two products whose origins agree modulo this number, the later waits.
PENDING = tuple(f"wgmma.{number}" for number in range(COPY_REGISTERS))
"""The pseudo registers that products write."""

LOWEST_IS_ELECTED = Assumption(
    "elected-lane-is-lowest",
    "elect.sync elects the lowest lane of its member mask, which names all lanes of the warp",
    AssumptionState.ASSUMED,
    "elections in a warp (elect.sync)",
)
"""What paths rest on that an elected lane takes by itself."""

_ROWS = 64
_KINDS = {
    **dict.fromkeys(("f16", "bf16"), ("f16", 2)),
    "tf32": ("tf32", 4),
    **dict.fromkeys(("e4m3", "e5m2"), ("f8", 1)),
    **dict.fromkeys(("s8", "u8"), ("int8", 1)),
}
"""Of a factor's type: which rate holds for it, and its bytes."""


def cost_instruction(
    instruction: Instruction,
    machine: Machine,
    *,
    taken: bool = False,
    origin: int = -1,
    block_threads: int | None = None,
    readers: ReadersOf = NO_READERS,
    code: CodeTimes | None = None,
) -> Cost:
    """The cost of one execution of an instruction.

    ``taken``: some lane takes the branch that it is. ``origin`` is its index in the kernel.
    ``block_threads`` is needed to accept a barrier that names its number of threads. ``readers``
    are those of the kernel's registers, without which each result waits for the slowest; ``code``
    has the words of machine code. Cost: constant; a refusal names the machines of the tool that
    would not refuse.
    """

    def cost_on(machine: Machine) -> Cost:
        return _cost_on(machine, instruction, taken, origin, block_threads, readers, code)

    return naming_others(cost_on(machine), cost_on, machine, instruction.op_class)


_Costed = TypeVar("_Costed")


def naming_others(
    cost: _Costed | Diagnostic,
    cost_on: Callable[[Machine], object],
    machine: Machine,
    op_class: OpClass | None,
) -> _Costed | Diagnostic:
    """Returns the cost; a refusal for want of a timing names the machines of the tool that have
    one, else shows the row with which a file of one's own has been found to have one.
    """
    if not isinstance(cost, Diagnostic) or cost.code != "PW402" or op_class is None:
        return cost
    others = [one for one in _shipped() if not isinstance(cost_on(one), Diagnostic)]
    if not others:
        # here: only for a refusal
        from ptxwcet.machine.new_file import timed_like_a_load

        timed = None if op_class is OpClass.TRAP else timed_like_a_load(machine, op_class)
        if timed is None or isinstance(cost_on(timed[0]), Diagnostic):
            return replace(cost, help=_NO_OTHER)
        return replace(cost, help=f"{_NO_OTHER}: {timed[1]}")
    names = [f"{one.name} (idealised)" if one.is_idealised else one.name for one in others]
    return replace(cost, help=_OTHERS.format(", ".join(names)))


_OTHERS = "machines with a timing for it: {} (--machine), or a machine file of your own"
_NO_OTHER = "no machine that comes with the tool has one"


@cache
def _shipped() -> tuple[Machine, ...]:
    return tuple(map(load_machine, shipped_machines()))


def _cost_on(
    machine: Machine,
    instruction: Instruction,
    taken: bool,
    origin: int,
    block_threads: int | None,
    readers: ReadersOf,
    code: CodeTimes | None,
) -> Cost:
    op_class = instruction.op_class
    if op_class is None:
        return Diagnostic(
            "PW401",
            f"opcode {instruction.mnemonic} is not known",
            instruction.span,
            help="add a row to the opcode table, or charge the slowest row (--on-unknown worst)",
        )
    if name_of(instruction).startswith("wgmma."):
        return _cost_of_warpgroup(instruction, op_class, machine, origin)
    kind = None if code is None else code.encoded[origin].kind
    timing = row_of(instruction, op_class, machine, kind)
    if op_class is OpClass.MMA_ASYNC and isinstance(timing, OpTiming) and timing.rates:
        timing = RefusedOp("its figures are those of products of a warpgroup (wgmma)")
    if isinstance(timing, RefusedOp):
        return refused_by(instruction, op_class, timing.reason, machine)
    if timing.readers and code is None:
        timing = replace(timing, latency_cycles=latency_for(instruction, timing, readers))
    if name_of(instruction) == "setmaxnreg" and "inc" in instruction.modifiers:
        return unproved(instruction, "it waits until others have given up registers")
    if op_class in COUNTING and name_of(instruction) not in _CLOSING:
        return unproved(instruction, "what it counts is not known of this path")
    if machine.memory is not None and op_class in UNCOUNTED - COUNTING:
        reason = "it charges accesses to memory, and how many this makes is not counted"
        return refused_by(instruction, op_class, reason, machine)
    if code is not None:
        return _cost_of_code(machine, instruction, taken, origin, block_threads, timing, code)
    if instruction.control is ControlEffect.BRANCH:  # calls and returns of functions as well
        bubble = machine.taken_branch_bubble_cycles if taken else 0
        return timed_as(instruction, timing, machine, origin, bubble=bubble)
    match op_class:
        case OpClass.NANOSLEEP:
            timed = timed_as(instruction, timing, machine, origin)
            return _sleeping(instruction, timed, machine)
        case OpClass.BARRIER:
            timed = timed_as(instruction, timing, machine, origin)
            reduces = ".red" in f".{name_of(instruction)}"
            operands = instruction.operands[1:-1] if reduces else instruction.operands
            return _barrier(instruction, timed, block_threads, operands)
        case OpClass.RETURN if not machine.issues_return and instruction.guard is None:
            return None
        case OpClass.ASYNC_COPY if name_of(instruction) == "cp.async":
            copies = (SMALL_COPIES[origin % COPY_REGISTERS],)
            return timed_as(instruction, timing, machine, origin, copies=copies)
        case OpClass.ASYNC_WAIT:
            waits = _MODELLED_WAITS.get(name_of(instruction))
            if waits is None:
                reason = "only the waits of copies are modelled"
                return refused_by(instruction, op_class, reason, machine)
            return timed_as(instruction, timing, machine, origin, waits=waits)
        case _:
            return timed_as(instruction, timing, machine, origin)


def _cost_of_warpgroup(
    instruction: Instruction, op_class: OpClass, machine: Machine, origin: int
) -> Cost:
    """As :func:`_cost_on`, of what warpgroups do. All but products cost what a wait does."""
    row, wait = machine.timings[OpClass.MMA_ASYNC], machine.timings[OpClass.ASYNC_WAIT]
    for timing in (row, wait):
        if isinstance(timing, RefusedOp):
            return refused_by(instruction, op_class, timing.reason, machine)
    assert isinstance(row, OpTiming)
    assert isinstance(wait, OpTiming)
    if instruction.guard is not None:
        reason = "warps for which its guard is false do not wait for the others"
        return Diagnostic("PW403", f"{instruction.mnemonic}: {reason}", instruction.span)
    if not is_product(instruction):
        waits = PENDING if op_class is OpClass.ASYNC_WAIT else ()
        return timed_as(instruction, wait, machine, origin, waits=waits)
    cycles = product_cycles(instruction, row)
    if isinstance(cycles, str):
        return refused_by(instruction, op_class, f"it has no figure for {cycles}", machine)
    row = replace(row, initiation_cycles=cycles)
    pending = (PENDING[origin % len(PENDING)],)
    timed = timed_as(instruction, row, machine, origin, copies=pending)
    return replace(timed, writes=pending, joins=True)  # of accumulators: Products


def _cost_of_code(
    machine: Machine,
    instruction: Instruction,
    taken: bool,
    origin: int,
    block_threads: int | None,
    timing: OpTiming,
    code: CodeTimes,
) -> Cost:
    """As :func:`_cost_on`, of machine code at the row of its op class. Ends are issued, too."""
    refusal = code.refusal(instruction, origin)
    if refusal is not None:
        return refusal
    held = 0
    if is_taken(instruction) or (taken and instruction.control is ControlEffect.BRANCH):
        held = machine.taken_branch_bubble_cycles
    elif instruction.op_class is OpClass.NANOSLEEP:
        held = _slept_cycles(instruction, machine)
    timed = code.timed(instruction, origin, timing, held_cycles=held)
    if instruction.op_class is not OpClass.BARRIER:
        return timed
    barrier = _barrier(instruction, timed, block_threads, barrier_operands(instruction))
    if isinstance(barrier, PartialBarrier):
        return unproved(instruction, "of machine code those of all warps of the block are bounded")
    return barrier


def charge_unknown(
    instruction: Instruction, machine: Machine, *, origin: int = -1
) -> tuple[TimedInstruction, ...]:
    """An opcode without a row at its worst: the slowest timing, on every unit of the machine.

    Every register that it names counts as read, and as written at the latest of all times. A bound
    for this sequence holds for one instruction on any one of the units (docs/methods/safe.md).
    """
    timings = [timing for timing in machine.timings.values() if isinstance(timing, OpTiming)]
    initiation = max(timing.initiation_cycles for timing in timings)
    latency = max(timing.latency_cycles for timing in timings)
    registers = tuple(dict.fromkeys((*instruction.reads, *instruction.writes)))
    reads = (*registers, *_stalled(machine))
    return tuple(
        TimedInstruction(
            unit.name, initiation, latency, reads, registers, conditional=True, origin=origin
        )
        for unit in machine.units
    )


def is_product(instruction: Instruction) -> bool:
    """Whether it is the product of a warpgroup."""
    return instruction.opcode is not None and instruction.opcode.name == "wgmma.mma_async"


def product_cycles(instruction: Instruction, row: OpTiming) -> int | str:
    """The initiation of a product at each of its four tensor units; or what has no figure.

    It is the longest of three, its operations at the rate of its kind, the bytes of its factors
    that come from shared memory, and the least that the row charges of any shape; and what a factor
    in registers costs beside.
    """
    words, rates = instruction.modifiers, dict(row.rates)
    if "sp" in words:
        return "products with a sparse factor"
    at = next(place for place, word in enumerate(words) if word.startswith("m64n"))
    columns, depth = map(int, words[at].removeprefix("m64n").split("k"))
    factor = words[at + 2]  # behind the type of the product
    kind, width = _KINDS.get(factor, (factor, 0))
    if kind not in rates:
        return f"products of {kind}"
    in_registers = not isinstance(instruction.operands[1], Register)
    moved = (columns + (0 if in_registers else _ROWS)) * depth * width
    operations = 2 * _ROWS * columns * depth
    longest = max(
        row.initiation_cycles, -(-operations // rates[kind]), -(-moved // rates["shared_bytes"])
    )
    return longest + (rates.get("register_factor", 0) if in_registers else 0)


class Products:
    """The products of a kernel, and which instructions wait for all that are under way.

    Those that name an accumulator wait, whatever they do with it. So does another product, but for
    one that accumulates in the same registers by the same instruction: the machine does these in
    their order. PTX wants a ``wgmma.wait_group`` before all others; where one stands, this waiting
    takes no time.
    """

    def __init__(self, instructions: Iterable[Instruction] = ()) -> None:
        self._users: dict[str, set[tuple[object, ...]]] = {}
        for one in filter(is_product, instructions):
            for name in one.writes:
                self._users.setdefault(name, set()).add(_accumulating(one))

    def waits(self, instruction: Instruction) -> tuple[str, ...]:
        """The pseudo registers that an instruction waits for, for what it names. Cost: linear."""
        if not self._users:
            return ()
        alike = {_accumulating(instruction)} if is_product(instruction) else set()
        named = (*instruction.reads, *instruction.writes)
        users = (self._users[name] for name in named if name in self._users)
        return PENDING if any(found != alike for found in users) else ()


def _accumulating(product: Instruction) -> tuple[object, ...]:
    return (*product.modifiers, *product.writes)


NO_PRODUCTS = Products()
"""Those of a kernel without any."""


_ANY_ACCESS = transactions_of_any()


class InstructionCosts:
    """Costs of a kernel's instructions, computed once each; collects every refusal.

    ``accesses`` says what each instruction takes of memory, for machines that charge that; of one
    that it does not name, and without it, the worst is charged. ``readers``, ``code``: as of
    :func:`cost_instruction`. ``products`` are the kernel's.
    """

    def __init__(
        self,
        machine: Machine,
        block_threads: int | None = None,
        *,
        unknown_at_worst: bool = False,
        accesses: Mapping[int, Transactions] | None = None,
        readers: ReadersOf = NO_READERS,
        code: CodeTimes | None = None,
        products: Products = NO_PRODUCTS,
    ) -> None:
        self.machine = machine
        self._products = products
        self._code = code
        self._readers = readers
        self._accesses = accesses
        self._block_threads = block_threads
        self._unknown_at_worst = unknown_at_worst
        self._known: dict[
            tuple[int, bool], tuple[TimedInstruction | Barrier | PartialBarrier, ...]
        ] = {}
        self._refusals: dict[int, Diagnostic] = {}
        self.charged_unknown = False
        """Whether an unknown opcode was charged: the bound needs :data:`UNKNOWN_OPCODES`."""
        self.counts = False
        """Whether something was charged that counts at an mbarrier, or a bulk copy."""
        self.waits_for_launches = False
        """Whether an instruction was charged that waits for the launches before."""
        self.most_at_path: int | None = None
        """What an access spends at the path of its SM at most, if that is latency and no work."""
        self.is_nominal = machine.timing_meaning is TimingMeaning.EXACT and code is None
        """Whether all costs so far are the machine's nominal timings, charged nowhere."""

    def nodes(
        self, index: int, instruction: Instruction, *, taken: bool = False
    ) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
        """What one execution of instruction ``index`` adds to a warp program.

        Empty for one that is not issued and for a refused one; see :meth:`raise_refusals`.
        """
        if self._code is not None and index in self._code.added:
            return ()
        key = (index, taken)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._cost(index, instruction, taken)
        return found

    def counted(
        self, index: int, instruction: Instruction, cost: Cost
    ) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
        """As :meth:`nodes`, of what counts at an mbarrier and has a ``cost`` for what it counts."""
        self.counts = True
        self.is_nominal &= not is_charged(instruction, self.machine)
        self.is_nominal &= self.machine.memory is None
        if isinstance(cost, Diagnostic):
            self._refusals[index] = cost
            return ()
        if isinstance(cost, PartialBarrier):
            waiting = self._waiting(cost.instruction, instruction)
            return (replace(cost, instruction=waiting),)
        assert isinstance(cost, TimedInstruction)
        return (self._waiting(cost, instruction),)

    @property
    def has_refusals(self) -> bool:
        """Whether the machine refused an instruction so far."""
        return bool(self._refusals)

    def raise_refusals(self) -> None:
        """Raises PtxwcetError with every refusal so far, in the order of the kernel."""
        if self._refusals:
            raise PtxwcetError([self._refusals[index] for index in sorted(self._refusals)])

    def outlasts_barrier(self, index: int, instruction: Instruction) -> bool:
        """Whether a warp that ends with an instruction may keep others waiting for longer than if
        it met a barrier instead. False for what the machine refuses; of machine code, the end of
        which may wait for scoreboards, True.
        """
        if instruction.op_class is None or self._code is not None:
            return True
        timing = row_of(instruction, instruction.op_class, self.machine)
        barrier = self.machine.timings[OpClass.BARRIER]
        if not isinstance(timing, OpTiming) or not isinstance(barrier, OpTiming):
            return False
        charged = barrier.initiation_cycles if timing.unit == barrier.unit else 1
        last = next((one for one in self.nodes(index, instruction)), None)
        assert not isinstance(last, Barrier | PartialBarrier)
        own = timing if last is None else last
        initiation, latency = own.initiation_cycles, own.latency_cycles
        return initiation > charged or (
            initiation + latency > barrier.initiation_cycles + barrier.latency_cycles
        )

    def _cost(
        self, index: int, instruction: Instruction, taken: bool
    ) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
        if self._unknown_at_worst and instruction.op_class is None:
            self.charged_unknown = True
            self.is_nominal = False
            unknown = charge_unknown(instruction, self.machine, origin=index)
            worst = [self._waiting(one, instruction) for one in unknown]
            return tuple(charge_transactions(one, _ANY_ACCESS, self.machine) for one in worst)
        cost = cost_instruction(
            instruction,
            self.machine,
            taken=taken,
            origin=index,
            block_threads=self._block_threads,
            readers=self._readers,
            code=self._code,
        )
        if isinstance(cost, Diagnostic):
            self._refusals[index] = cost
            return ()
        self.waits_for_launches |= name_of(instruction) == _GRID_WAIT
        if is_charged(instruction, self.machine):
            self.is_nominal = False
        if isinstance(cost, Barrier | PartialBarrier):
            cost = replace(cost, instruction=self._waiting(cost.instruction, instruction))
        elif cost is not None:
            self.is_nominal &= not cost.joins
            cost = self._waiting(cost, instruction)
        if isinstance(cost, TimedInstruction) and self.machine.memory is not None:
            asked = self._taken(index, instruction)
            charged = charge_transactions(
                cost, asked, self.machine, self.most_at_path, instruction.op_class
            )
            self.is_nominal &= charged == cost
            cost = charged
        return () if cost is None else (cost,)

    def _waiting(self, timed: TimedInstruction, instruction: Instruction) -> TimedInstruction:
        waits = self._products.waits(instruction)
        return replace(timed, reads=(*timed.reads, *waits)) if waits else timed

    def _taken(self, index: int, instruction: Instruction) -> Transactions:
        found = None if self._accesses is None else self._accesses.get(index)
        if found is not None:
            return found
        worst = transactions_at_worst(instruction)
        if self._code is None or worst is not NO_TRANSACTIONS:
            return worst
        return _ANY_ACCESS if accesses_memory(instruction) else NO_TRANSACTIONS


_LOADS = frozenset(
    {
        *(OpClass.LOAD_CONST, OpClass.LOAD_GENERIC, OpClass.LOAD_GLOBAL, OpClass.LOAD_LOCAL),
        OpClass.ASYNC_COPY,  # the lines of its global side; shared memory is passes
    }
)


def cycles_at_path(taken: Transactions, rules: MemoryRules, op_class: OpClass | None) -> int:
    """What transactions take of the memory path of an SM; 0 of those that do not pass it.

    ``op_class``: of the instruction; None where that is not known.
    """
    if not taken.lines and not taken.passes:
        return 0
    cycles = rules.path_cycles_of_lines(taken.lines, are_loaded=op_class in _LOADS)
    cycles += rules.path_pass_cycles.value * taken.passes
    return max(rules.path_request_cycles.value, cycles)


def charge_transactions(
    timed: TimedInstruction,
    taken: Transactions,
    machine: Machine,
    most_at_path: int | None = None,
    op_class: OpClass | None = None,
) -> TimedInstruction:
    """An instruction that takes transactions of memory, each at its cost on a machine.

    What it takes itself of the path, the cache and the memory behind it is added to its latency.
    ``most_at_path``: if that is what it spends at the path at most, it is latency and nothing else.
    ``op_class``: of the instruction; without it, it is charged as if it stored.
    """
    rules = machine.memory
    if rules is None or taken is NO_TRANSACTIONS:
        return timed
    cycles = (
        rules.line_cycles.value * taken.lines
        + rules.pass_cycles.value * taken.passes
        + rules.word_cycles.value * taken.words
        + rules.serial_cycles.value * taken.serial
    )
    path = cycles_at_path(taken, rules, op_class)
    at_path = most_at_path if path and most_at_path is not None else path
    each = machine.cycles_per_1024_sectors
    fetched = rules.fetches_of_partial_sectors * taken.partial
    kept = taken.kept + (fetched if taken.kept == taken.sectors else 0)
    sectors = taken.sectors + fetched
    if cycles <= timed.initiation_cycles and not path and not each:
        return timed
    return replace(
        timed,
        initiation_cycles=max(timed.initiation_cycles, cycles),
        latency_cycles=timed.latency_cycles + at_path + -(-each * sectors // 1024),
        path_cycles=path if most_at_path is None else 0,
        sectors=sectors if each else 0,
        kept_sectors=kept if each else 0,
    )


def is_charged(instruction: Instruction, machine: Machine) -> bool:
    """Whether the machine file charges a known instruction above its nominal timing."""
    op_class = instruction.op_class
    if op_class is None or op_class is OpClass.NANOSLEEP:
        return True
    row = row_of(instruction, op_class, machine)
    return isinstance(row, OpTiming) and row.is_upper


def row_of(
    instruction: Instruction, op_class: OpClass, machine: Machine, kind: Kind | None = None
) -> OpTiming | RefusedOp:
    """Returns what the machine file says of an instruction: of its form, else of its op class.

    ``kind`` is that of an instruction of machine code.
    """
    name = PTX_FORMS.get(instruction.mnemonic, instruction.mnemonic)
    row = machine.timings[timing_class(instruction, op_class, machine)]
    for one in (machine.timings.get(op_class), row):
        figures = _form_of(one, name) if isinstance(one, OpTiming) and one.forms else None
        if isinstance(one, OpTiming) and figures is not None:
            initiation, latency = figures
            named = replace(one, initiation_cycles=initiation, latency_cycles=latency, readers=())
            if name in dict(one.forms):
                return named
            return as_executed(named, instruction.mnemonic, machine, kind)
    if isinstance(row, RefusedOp):
        return row
    return as_executed(row, instruction.mnemonic, machine, kind)


def _form_of(row: OpTiming, name: str) -> tuple[int, int] | None:
    """Initiation and latency of an instruction that a row names; PTX leaves the order of its
    modifiers open, and another order than the row's is charged no less than the class.
    """
    exact = dict(row.forms).get(name)
    if exact is not None:
        return exact
    words = sorted(name.split("."))
    found = [one for form, one in row.forms if sorted(form.split(".")) == words]
    if not found:
        return None
    initiation = max(row.initiation_cycles, *(one[0] for one in found))
    both = max(row.initiation_cycles + row.latency_cycles, *(sum(one) for one in found))
    return initiation, both - initiation


def timing_class(instruction: Instruction, op_class: OpClass, machine: Machine) -> OpClass:
    """The row to take: a commit costs what a wait does, a shared matrix move a shared access, what
    would abort the launch and is passed a return that is passed. What sleeps for a known time, or
    orders the launch and another one, is issued like a branch.
    """
    name = name_of(instruction)
    if name in _LIKE_BRANCHES or _sleep(instruction) is not None:
        return OpClass.BRANCH
    if name in _LIKE_OTHERS:
        return _LIKE_OTHERS[name]
    if instruction.control is ControlEffect.TRAP and instruction.guard is not None:
        return OpClass.RETURN
    if op_class is OpClass.ASYNC_COPY and name not in _ACTUAL_COPIES:
        return OpClass.ASYNC_WAIT
    if name in _CLOSING:
        return OpClass.ASYNC_WAIT
    if (
        op_class is OpClass.MATRIX_MOVE
        and instruction.space is Space.SHARED
        and isinstance(machine.timings[op_class], OpTiming)
    ):
        return OpClass.LOAD_SHARED if instruction.writes else OpClass.STORE_SHARED
    return op_class


def _sleep(instruction: Instruction) -> int | None:
    """The nanoseconds that a thread is told to sleep, if they are a literal."""
    if instruction.op_class is not OpClass.NANOSLEEP:
        return None
    (time,) = instruction.operands
    return int(time.value) & 0xFFFFFFFF if isinstance(time, Immediate) else None


def _sleeping(
    instruction: Instruction, timed: TimedInstruction, machine: Machine
) -> TimedInstruction:
    """A sleep: by the PTX ISA it takes at most twice the time that it is told."""
    cycles = _slept_cycles(instruction, machine)
    latency = timed.latency_cycles + cycles
    return replace(timed, latency_cycles=latency, bubble_cycles=cycles)


def _slept_cycles(instruction: Instruction, machine: Machine) -> int:
    """What a sleep takes at most beside what a branch takes; by a machine's row, nothing."""
    time = _sleep(instruction)
    least = max(time or 0, _LEAST_NANOSECONDS)
    return 0 if time is None else -(-2 * least * machine.clock_mhz // 1000)


_LEAST_NANOSECONDS = 27
"""To sleep for 0 an H200 takes 79 cycles, 103 of 16 warps (docs/experiments/silicon-h200.md)."""


def name_of(instruction: Instruction) -> str:
    """The name of its opcode; as it is written where it has none."""
    return instruction.opcode.name if instruction.opcode is not None else instruction.mnemonic


def timed_as(
    instruction: Instruction,
    timing: OpTiming,
    machine: Machine,
    origin: int,
    *,
    bubble: int = 0,
    waits: Iterable[str] = (),
    copies: tuple[str, ...] = (),
) -> TimedInstruction:
    """An instruction at a row: it waits for what it names and ``waits``, writes ``copies``, too."""
    stalled = _stalled(machine)
    return TimedInstruction(
        timing.unit,
        timing.initiation_cycles,
        timing.latency_cycles,
        reads=(*instruction.reads, *waits, *stalled),
        writes=(*instruction.writes, *copies, *(stalled if timing.stalls else ())),
        conditional=instruction.guard is not None or bool(copies),
        bubble_cycles=bubble,
        origin=origin,
    )


def _stalled(machine: Machine) -> tuple[str, ...]:
    """The pseudo register that a fence writes and every instruction reads, where fences stall."""
    fence = machine.timings[OpClass.FENCE]
    return _STALLED if isinstance(fence, OpTiming) and fence.stalls else ()


def _barrier(
    instruction: Instruction,
    timed: TimedInstruction,
    block_threads: int | None,
    operands: tuple[Operand, ...],
) -> Barrier | PartialBarrier | Diagnostic:
    """``operands``: its number, and its threads where it says so."""
    if instruction.guard is not None:
        return unproved(instruction, "lanes or warps for which the guard is false skip it")
    name, *rest = operands
    if not isinstance(name, Immediate):
        return unproved(instruction, "its number is in a register")
    if name.value not in range(16):
        return unproved(instruction, f"its number {name.value} is none of 0 to 15")
    waits = instruction.control is ControlEffect.BARRIER
    if not rest:
        return Barrier(timed, str(name.value))
    (count,) = rest
    threads = count.value if isinstance(count, Immediate) else None
    if block_threads is None or not isinstance(threads, int):
        return unproved(instruction, "how many threads it is for is in a register")
    whole = -(-block_threads // WARP_SIZE) * WARP_SIZE
    if waits and threads in (block_threads, whole):
        return Barrier(timed, str(name.value), counts=True)
    if threads % WARP_SIZE or not 0 < threads <= whole:
        return unproved(instruction, f"{threads} threads are no number of warps of the block")
    return PartialBarrier(timed, str(name.value), threads // WARP_SIZE, waits)


def unproved(instruction: Instruction, reason: str) -> Diagnostic:
    """The refusal of what waits for others, of which no bound is proved (PW403)."""
    return Diagnostic(
        "PW403",
        f"{instruction.mnemonic}: no bound is proved for this barrier: {reason}",
        instruction.span,
        notes=("which warps arrive at a barrier must be known without running the kernel",),
    )


def refused_by(
    instruction: Instruction, op_class: OpClass, reason: str, machine: Machine
) -> Diagnostic:
    """The refusal of an instruction for which a machine has no timing."""
    return Diagnostic(
        "PW402",
        f"{instruction.mnemonic} has no timing on machine {machine.name}: {reason}",
        instruction.span,
        notes=(f"its op class is {op_class.value}",),
    )
