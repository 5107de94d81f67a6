"""Computes the cost of one instruction on a machine; only here do op classes become timings.

Codes: PW401 an opcode without a row, PW402 an op class that the machine refuses, PW403 a form of a
barrier or asynchronous wait for which no bound is proved; PW405 for machine code, which waits as
its control words state (:mod:`ptxwcet.timing.machine_code`).

Asynchronous copies (``cp.async``) write a pseudo register when they complete, and
``cp.async.wait_*`` reads all of them: a wait for all copies, which is never earlier than the wait
of ``wait_group N`` for all but the N youngest. More waiting than on the machine keeps the bounds
safe (docs/methods/safe.md). Products of a warpgroup are awaited in the same way
(docs/methods/warpgroups.md). A fence that stalls its warp writes a pseudo register that every later
instruction reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.flow.graph.cfg import BlockId
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
from ptxwcet.warp.program import Barrier, Node, PartialBarrier, TimedInstruction

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
"""The assumption of a bound that charges unknown opcodes their worst case."""

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
# In machine code: reconvergence of the lanes of a warp, and the compiler's padding.
_LIKE_BRANCHES = frozenset(
    {
        *(_GRID_WAIT, "griddepcontrol.launch_dependents"),
        *("BSSY", "BSYNC", "BREAK", "YIELD", "NOP", "WARPSYNC", "ENDCOLLECTIVE", "BMOV"),
    }
)
_ACTUAL_COPIES = frozenset({"cp.async", "LDGSTS"})
# ULDC moves a constant through the uniform datapath, in a fixed time.
_LIKE_OTHERS = {
    "LDSM": OpClass.LOAD_SHARED,
    "STSM": OpClass.STORE_SHARED,
    "ULDC": OpClass.MOVE,
}

# As with copies: of two products whose origins agree modulo this number, the later one waits.
PENDING = tuple(f"wgmma.{number}" for number in range(COPY_REGISTERS))
"""The pseudo registers that products write."""

LOWEST_IS_ELECTED = Assumption(
    "elected-lane-is-lowest",
    "elect.sync elects the lowest lane of its member mask, which names all lanes of the warp",
    AssumptionState.ASSUMED,
    "elections in a warp (elect.sync)",
)
"""The assumption of paths that an elected lane takes on its own."""

_ROWS = 64
_KINDS = {
    **dict.fromkeys(("f16", "bf16"), ("f16", 2)),
    "tf32": ("tf32", 4),
    **dict.fromkeys(("e4m3", "e5m2"), ("f8", 1)),
    **dict.fromkeys(("s8", "u8"), ("int8", 1)),
}
"""The rate and the bytes of a factor, by its type."""


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
    """Returns the cost of one execution of an instruction.

    ``taken``: the instruction is a branch that some lane takes. ``origin`` is its index in the
    kernel. ``block_threads`` is needed to accept a barrier that names its number of threads.
    ``readers`` are those of the kernel's registers, without which each result waits for the slowest
    reader; ``code`` has the words of machine code. Cost: constant; a refusal names the machines of
    the tool that would not refuse.
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
    """Returns the cost; a refusal for lack of a timing names the shipped machines that have one, or
    else shows the row with which a machine file of the user's own has a timing.
    """
    if not isinstance(cost, Diagnostic) or cost.code != "PW402" or op_class is None:
        return cost
    others = [other for other in _shipped() if not isinstance(cost_on(other), Diagnostic)]
    if not others:
        # This is computed for a refusal only.
        from ptxwcet.machine.new_file import timed_like_a_load

        timed = None if op_class is OpClass.TRAP else timed_like_a_load(machine, op_class)
        if timed is None or isinstance(cost_on(timed[0]), Diagnostic):
            return replace(cost, help=_NO_OTHER)
        return replace(cost, help=f"{_NO_OTHER}: {timed[1]}")
    names = [f"{m.name} (idealised)" if m.is_idealised else m.name for m in others]
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
    if instruction.control is ControlEffect.BRANCH:  # calls and returns of functions, too
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
    """Returns the cost of a warpgroup instruction. All but products cost the same as a wait."""
    product, wait = machine.timings[OpClass.MMA_ASYNC], machine.timings[OpClass.ASYNC_WAIT]
    for timing in (product, wait):
        if isinstance(timing, RefusedOp):
            return refused_by(instruction, op_class, timing.reason, machine)
    assert isinstance(product, OpTiming)
    assert isinstance(wait, OpTiming)
    if instruction.guard is not None:
        reason = "warps for which its guard is false do not wait for the others"
        return Diagnostic("PW403", f"{instruction.mnemonic}: {reason}", instruction.span)
    if not is_product(instruction):
        waits = PENDING if op_class is OpClass.ASYNC_WAIT else ()
        return timed_as(instruction, wait, machine, origin, waits=waits)
    cycles = product_cycles(instruction, product)
    if isinstance(cycles, str):
        return refused_by(instruction, op_class, f"it has no figure for {cycles}", machine)
    product = replace(product, initiation_cycles=cycles)
    pending = (PENDING[origin % len(PENDING)],)
    timed = timed_as(instruction, product, machine, origin, copies=pending)
    # The write of the accumulators is modelled by Products.
    return replace(timed, writes=pending, joins=True)


def _cost_of_code(
    machine: Machine,
    instruction: Instruction,
    taken: bool,
    origin: int,
    block_threads: int | None,
    timing: OpTiming,
    code: CodeTimes,
) -> Cost:
    """Returns the cost of an instruction of machine code by the row of its op class."""
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
    """Returns the worst cost of an opcode without a row: the slowest timing, on every unit.

    Every register that it names counts as read, and as written at the latest of all times. A bound
    for this sequence holds for one instruction on any of the units (docs/methods/safe.md).
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
    """Returns whether an instruction is the product of a warpgroup."""
    return instruction.opcode is not None and instruction.opcode.name == "wgmma.mma_async"


def product_cycles(instruction: Instruction, timing: OpTiming) -> int | str:
    """Returns the initiation of a product at each of its four tensor units; or the missing figure.

    It is the longest of three: its operations at the rate of its kind, the bytes of its factors
    that are read from shared memory, and the least charge of the row for any shape; plus the cost
    of a factor in registers.
    """
    words, rates = instruction.modifiers, dict(timing.rates)
    if "sp" in words:
        return "products with a sparse factor"
    at = next(place for place, word in enumerate(words) if word.startswith("m64n"))
    columns, depth = map(int, words[at].removeprefix("m64n").split("k"))
    factor = words[at + 2]  # after the type of the product
    kind, width = _KINDS.get(factor, (factor, 0))
    if kind not in rates:
        return f"products of {kind}"
    in_registers = not isinstance(instruction.operands[1], Register)
    moved = (columns + (0 if in_registers else _ROWS)) * depth * width
    operations = 2 * _ROWS * columns * depth
    longest = max(
        timing.initiation_cycles, -(-operations // rates[kind]), -(-moved // rates["shared_bytes"])
    )
    return longest + (rates.get("register_factor", 0) if in_registers else 0)


class Products:
    """The products of a kernel, and the instructions that wait for all products in flight.

    An instruction that names an accumulator waits, whatever it does with it. So does another
    product, except one that accumulates in the same registers by the same instruction: the machine
    executes these in order. PTX requires a ``wgmma.wait_group`` before all others; where one is
    present, this waiting takes no time.
    """

    def __init__(self, instructions: Iterable[Instruction] = ()) -> None:
        self._users: dict[str, set[tuple[object, ...]]] = {}
        for product in filter(is_product, instructions):
            for name in product.writes:
                self._users.setdefault(name, set()).add(_accumulating(product))

    def waits(self, instruction: Instruction) -> tuple[str, ...]:
        """Returns the pseudo registers that an instruction waits for, by its operands. Linear."""
        if not self._users:
            return ()
        alike = {_accumulating(instruction)} if is_product(instruction) else set()
        named = (*instruction.reads, *instruction.writes)
        users = (self._users[name] for name in named if name in self._users)
        return PENDING if any(user != alike for user in users) else ()


def _accumulating(product: Instruction) -> tuple[object, ...]:
    return (*product.modifiers, *product.writes)


NO_PRODUCTS = Products()
"""The products of a kernel that has none."""


_ANY_ACCESS = transactions_of_any()


class InstructionCosts:
    """The costs of a kernel's instructions, each computed once; collects every refusal.

    ``accesses`` gives the transactions of each instruction, for machines that charge for them; an
    instruction that it does not list is charged the worst, and so are all without it. ``readers``,
    ``code``: as for :func:`cost_instruction`. ``products`` are the kernel's.
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
        """The need of the bound for :data:`UNKNOWN_OPCODES`: an unknown opcode was charged."""
        self.counts = False
        """Whether a bulk copy or an operation on an mbarrier was charged."""
        self.waits_for_launches = False
        """Whether an instruction was charged that waits for earlier launches."""
        self.most_at_path: int | None = None
        """The most cycles of an access at the path of its SM, if these are latency and not work."""
        self.is_nominal = machine.timing_meaning is TimingMeaning.EXACT and code is None
        """Whether all costs so far are the machine's nominal timings, without a charge."""

    def nodes(
        self, index: int, instruction: Instruction, *, taken: bool = False
    ) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
        """Returns the nodes that one execution of instruction ``index`` adds to a warp program.

        Empty for an instruction that is not issued or is refused; see :meth:`raise_refusals`.
        """
        if self._code is not None and index in self._code.added:
            return ()
        key = (index, taken)
        costs = self._known.get(key)
        if costs is None:
            costs = self._known[key] = self._cost(index, instruction, taken)
        return costs

    def counted(
        self, index: int, instruction: Instruction, cost: Cost
    ) -> tuple[TimedInstruction | Barrier | PartialBarrier, ...]:
        """Returns :meth:`nodes` of an instruction that counts at an mbarrier at a ``cost``."""
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

    def before(self, block: BlockId) -> tuple[Node, ...]:
        """Returns the nodes of other lanes that may precede a block, in any order."""
        return ()

    @property
    def has_refusals(self) -> bool:
        """Whether the machine has refused an instruction so far."""
        return bool(self._refusals)

    def raise_refusals(self) -> None:
        """Raises PtxwcetError with every refusal so far, in the order of the kernel."""
        if self._refusals:
            raise PtxwcetError([self._refusals[index] for index in sorted(self._refusals)])

    def outlasts_barrier(self, index: int, instruction: Instruction) -> bool:
        """Returns whether a warp that ends with an instruction may keep others waiting longer than
        a barrier would. False for an instruction that the machine refuses; True for machine code,
        whose end may wait for scoreboards.
        """
        if instruction.op_class is None or self._code is not None:
            return True
        timing = row_of(instruction, instruction.op_class, self.machine)
        barrier = self.machine.timings[OpClass.BARRIER]
        if not isinstance(timing, OpTiming) or not isinstance(barrier, OpTiming):
            return False
        charged = barrier.initiation_cycles if timing.unit == barrier.unit else 1
        last = next((node for node in self.nodes(index, instruction)), None)
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
            worst = [self._waiting(timed, instruction) for timed in unknown]
            return tuple(charge_transactions(timed, _ANY_ACCESS, self.machine) for timed in worst)
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
            transactions = self._taken(index, instruction)
            charged = charge_transactions(
                cost, transactions, self.machine, self.most_at_path, instruction.op_class
            )
            self.is_nominal &= charged == cost
            cost = charged
        return () if cost is None else (cost,)

    def _waiting(self, timed: TimedInstruction, instruction: Instruction) -> TimedInstruction:
        waits = self._products.waits(instruction)
        return replace(timed, reads=(*timed.reads, *waits)) if waits else timed

    def _taken(self, index: int, instruction: Instruction) -> Transactions:
        counted = None if self._accesses is None else self._accesses.get(index)
        if counted is not None:
            return counted
        worst = transactions_at_worst(instruction)
        if self._code is None or worst is not NO_TRANSACTIONS:
            return worst
        return _ANY_ACCESS if accesses_memory(instruction) else NO_TRANSACTIONS


_LOADS = frozenset(
    {
        *(OpClass.LOAD_CONST, OpClass.LOAD_GENERIC, OpClass.LOAD_GLOBAL, OpClass.LOAD_LOCAL),
        # the lines of its global side; its accesses to shared memory are passes
        OpClass.ASYNC_COPY,
    }
)


def cycles_at_path(taken: Transactions, rules: MemoryRules, op_class: OpClass | None) -> int:
    """Returns the cycles of transactions at the memory path of an SM; 0 without lines and passes.

    ``op_class``: the instruction's; None where it is unknown.
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
    """Returns an instruction with transactions of memory, each charged at its cost on a machine.

    Its own cycles at the path, the cache and the memory after it are added to its latency.
    ``most_at_path``: if given, an access spends at most this at the path, as latency only.
    ``op_class``: the instruction's; without it, the instruction is charged as a store.
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
    """Returns whether the machine file charges a known instruction above its nominal timing."""
    op_class = instruction.op_class
    if op_class is None or op_class is OpClass.NANOSLEEP:
        return True
    row = row_of(instruction, op_class, machine)
    return isinstance(row, OpTiming) and row.is_upper


def row_of(
    instruction: Instruction, op_class: OpClass, machine: Machine, kind: Kind | None = None
) -> OpTiming | RefusedOp:
    """Returns the machine file's row for an instruction: of its form, or else of its op class.

    ``kind``: the kind of an instruction of machine code.
    """
    name = PTX_FORMS.get(instruction.mnemonic, instruction.mnemonic)
    timing = machine.timings[timing_class(instruction, op_class, machine)]
    for entry in (machine.timings.get(op_class), timing):
        figures = _form_of(entry, name) if isinstance(entry, OpTiming) and entry.forms else None
        if isinstance(entry, OpTiming) and figures is not None:
            initiation, latency = figures
            named = replace(entry, initiation_cycles=initiation, latency_cycles=latency, readers=())
            if name in dict(entry.forms):
                return named
            return as_executed(named, instruction.mnemonic, machine, kind)
    if isinstance(timing, RefusedOp):
        return timing
    return as_executed(timing, instruction.mnemonic, machine, kind)


def _form_of(timing: OpTiming, name: str) -> tuple[int, int] | None:
    """Returns the initiation and latency of an instruction that a row names. PTX leaves the order
    of its modifiers open: another order than the row's is charged no less than the class.
    """
    exact = dict(timing.forms).get(name)
    if exact is not None:
        return exact
    words = sorted(name.split("."))
    figures = [pair for form, pair in timing.forms if sorted(form.split(".")) == words]
    if not figures:
        return None
    initiation = max(timing.initiation_cycles, *(pair[0] for pair in figures))
    both = max(timing.initiation_cycles + timing.latency_cycles, *(sum(pair) for pair in figures))
    return initiation, both - initiation


def timing_class(instruction: Instruction, op_class: OpClass, machine: Machine) -> OpClass:
    """Returns the op class whose row applies: a commit costs as much as a wait, a shared matrix
    move a shared access, a guarded abort a return. An instruction that sleeps for a known time, or
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
    """Returns the nanoseconds of a sleep, if they are a literal."""
    if instruction.op_class is not OpClass.NANOSLEEP:
        return None
    (time,) = instruction.operands
    return int(time.value) & 0xFFFFFFFF if isinstance(time, Immediate) else None


def _sleeping(
    instruction: Instruction, timed: TimedInstruction, machine: Machine
) -> TimedInstruction:
    """Returns a timed sleep: by the PTX ISA it takes at most twice the time that it states."""
    cycles = _slept_cycles(instruction, machine)
    latency = timed.latency_cycles + cycles
    return replace(timed, latency_cycles=latency, bubble_cycles=cycles)


def _slept_cycles(instruction: Instruction, machine: Machine) -> int:
    """Returns the most cycles of a sleep beyond a branch; 0 if the machine has a row for it."""
    time = _sleep(instruction)
    least = max(time or 0, _LEAST_NANOSECONDS)
    return 0 if time is None else -(-2 * least * machine.clock_mhz // 1000)


_LEAST_NANOSECONDS = 27
"""To sleep for 0 an H200 takes 79 cycles, 103 of 16 warps (docs/experiments/silicon-h200.md)."""


def name_of(instruction: Instruction) -> str:
    """Returns the name of an instruction's opcode; the mnemonic as written if it has none."""
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
    """Returns an instruction by a row: it also waits for ``waits`` and writes ``copies``."""
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
    """Returns the pseudo register that a fence writes and every instruction reads, if it stalls."""
    fence = machine.timings[OpClass.FENCE]
    return _STALLED if isinstance(fence, OpTiming) and fence.stalls else ()


def _barrier(
    instruction: Instruction,
    timed: TimedInstruction,
    block_threads: int | None,
    operands: tuple[Operand, ...],
) -> Barrier | PartialBarrier | Diagnostic:
    """Returns a barrier. ``operands``: its number, and its thread count if stated."""
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
    """Returns the refusal of an instruction that waits for others, unproved (PW403)."""
    return Diagnostic(
        "PW403",
        f"{instruction.mnemonic}: no bound is proved for this barrier: {reason}",
        instruction.span,
        notes=("which warps arrive at a barrier must be known without running the kernel",),
    )


def refused_by(
    instruction: Instruction, op_class: OpClass, reason: str, machine: Machine
) -> Diagnostic:
    """Returns the refusal of an instruction for which a machine has no timing."""
    return Diagnostic(
        "PW402",
        f"{instruction.mnemonic} has no timing on machine {machine.name}: {reason}",
        instruction.span,
        notes=(f"its op class is {op_class.value}",),
    )
