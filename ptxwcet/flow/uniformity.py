"""What all lanes of a warp, or all warps of a block, agree on, whatever the data.

A register has a *shape*: its value in lane ``l`` is ``u + stride * l`` where ``u`` is the same in
all lanes of a warp (``Agreement.WARP``) or in all threads of the block (``Agreement.BLOCK``) and a
multiple of ``2**align``. Stride 0 is a uniform value; a value without such a form varies. A branch
is as uniform as its guard. Agreement is among the lanes that execute together: "the n-th time that
a warp comes here". Lanes part at a branch and meet at its immediate post-dominator, so a register
that is live there and written on the way is at most as uniform as the branch: this covers the
branches of ``if`` and the lanes (or warps) that leave a loop in different iterations (temporal
divergence).

The analysis is flow-insensitive in registers and optimistic: shapes only fall, until nothing
changes. A load of one address by all lanes gives all of them the same word; that warps agree on it
is only claimed where memory does not change while the kernel runs (``param``, ``const``,
``ld.global.nc``), or on the assumption that the kernel has no data races. Votes and reductions over
a warp agree in it, those of ``bar.red`` in the block.

Cost: linear in the kernel for each round, a few rounds; blocks times branches for the regions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from ptxwcet.flow.accesses import variable_moves
from ptxwcet.flow.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.facts import WARP_SIZE, Launch
from ptxwcet.flow.transfer import register_width
from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Register,
    Sink,
    Space,
    SpecialRegister,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.op_classes import ControlEffect


class Agreement(IntEnum):
    """Who has the same value, or goes the same way."""

    NONE = 0
    WARP = 1
    BLOCK = 2


_MOST_ALIGNED = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """``u + stride * lane``; see the module docstring. ``constant`` is ``u`` where it is known."""

    agreement: Agreement
    stride: int = 0
    align: int = 0
    constant: int | None = None

    @property
    def uniform(self) -> Agreement:
        """Who agrees on the whole value."""
        return self.agreement if self.stride == 0 else Agreement.NONE

    @property
    def fits(self) -> bool:
        """Whether the lanes' part stays below the lowest bit that ``u`` may set, in 16 bits too.

        Then it carries into nothing: neither a sum nor a conversion can wrap because of it.
        """
        return 0 <= self.stride * (WARP_SIZE - 1) < 1 << min(self.align, 15)


VARYING = Shape(Agreement.NONE)


def constant(value: int) -> Shape:
    """The shape of a number."""
    return Shape(Agreement.BLOCK, 0, _trailing_zeros(value), value)


def _trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else _MOST_ALIGNED


def _uniform(agreement: Agreement, align: int = 0) -> Shape:
    return Shape(agreement, 0, align) if agreement else VARYING


class BranchAgreements:
    """:func:`branch_agreement`, computed when the first branch is asked for.

    ``without_races`` is the same for kernels without data races.
    """

    def __init__(
        self,
        kernel: Kernel,
        cfg: ControlFlowGraph,
        postdominators: tuple[BlockId | None, ...],
        launch: Launch,
    ) -> None:
        self._subject = (kernel, cfg, postdominators, launch)

    def __getitem__(self, block: int) -> Agreement:
        """Who takes the branch at the end of ``block`` alike."""
        return self._found[block]

    def without_races(self, block: int) -> Agreement:
        """The same if no thread writes what another reads between the same two barriers."""
        return self._found_without_races[block]

    @cached_property
    def _found(self) -> tuple[Agreement, ...]:
        return branch_agreement(*self._subject)

    @cached_property
    def _found_without_races(self) -> tuple[Agreement, ...]:
        return branch_agreement(*self._subject, race_free=True)


def branch_agreement(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    postdominators: tuple[BlockId | None, ...],
    launch: Launch,
    *,
    race_free: bool = False,
) -> tuple[Agreement, ...]:
    """For each block, who takes the branch at its end alike; BLOCK where there is none.

    ``race_free``: memory that some thread reads is not written by another between two barriers, so
    that the warps of the block find the same at the same address.
    """
    found = _Shapes(kernel, launch, race_free=race_free)
    live = _Liveness(kernel, cfg)
    capped: set[tuple[int, Agreement]] = set()
    while True:
        found.settle()
        agreements = tuple(found.at_end(cfg.blocks[block].end - 1) for block in _blocks(cfg))
        changed = False
        for block in cfg.reverse_postorder:
            agreement = agreements[block]
            if agreement is Agreement.BLOCK or (block, agreement) in capped:
                continue
            capped.add((block, agreement))
            for name in live.joined(block, postdominators[block]):
                changed |= found.cap(name, agreement)
        if not changed:
            return agreements


def _blocks(cfg: ControlFlowGraph) -> range:
    return range(len(cfg.blocks))


class _Shapes:
    """Shapes of all registers; ``settle`` lowers them until every instruction agrees."""

    def __init__(self, kernel: Kernel, launch: Launch, *, race_free: bool) -> None:
        self._kernel = kernel
        self._specials = _special_shapes(launch)
        self._shapes: dict[str, Shape] = {}
        self._caps: dict[str, Agreement] = {}
        parameters = frozenset(parameter.name for parameter in kernel.parameters)
        self._opaque = _Opaque(self._shapes, parameters, race_free=race_free)
        self._readers: dict[str, list[int]] = defaultdict(list)
        written: set[str] = set()
        for index, instruction in enumerate(kernel.instructions):
            written.update(instruction.writes)
            for name in instruction.reads:
                self._readers[name].append(index)
        for name in self._readers.keys() - written:
            self._shapes[name] = VARYING
        self._pending = list(range(len(kernel.instructions)))[::-1]

    def settle(self) -> None:
        """Evaluates instructions until no shape falls any more."""
        while self._pending:
            instruction = self._kernel.instructions[self._pending.pop()]
            writes = instruction.writes
            if not writes or any(name not in self._shapes for name in instruction.reads):
                continue  # comes again when what it reads has a shape
            shapes = self._evaluate(instruction)
            guard = instruction.guard
            for name, shape in zip(writes, shapes, strict=True):
                limit = self._caps.get(name, Agreement.BLOCK)
                if guard is not None:
                    limit = min(limit, self._shapes[guard.register].uniform)
                self._lower(name, _limited(shape, limit))

    def cap(self, name: str, agreement: Agreement) -> bool:
        """Limits a register for good; True if that changes its shape."""
        limit = min(agreement, self._caps.get(name, Agreement.BLOCK))
        self._caps[name] = limit
        return self._lower(name, _limited(self._shapes.get(name, VARYING), limit))

    def at_end(self, index: int) -> Agreement:
        """Who takes the branch that instruction ``index`` is alike."""
        if index < 0:
            return Agreement.BLOCK
        instruction = self._kernel.instructions[index]
        if instruction.control in (ControlEffect.NONE, ControlEffect.BARRIER, ControlEffect.ARRIVE):
            return Agreement.BLOCK
        found = Agreement.BLOCK
        guard = instruction.guard
        if guard is not None:
            found = self._shapes.get(guard.register, VARYING).uniform
        if instruction.control is ControlEffect.INDIRECT_BRANCH:
            for name in instruction.reads:
                found = min(found, self._shapes.get(name, VARYING).uniform)
        return found

    def _lower(self, name: str, shape: Shape) -> bool:
        old = self._shapes.get(name)
        new = shape if old is None else _join(old, shape)
        if new == old:
            return False
        self._shapes[name] = new
        self._pending += self._readers[name]
        return True

    def _evaluate(self, instruction: Instruction) -> tuple[Shape, ...]:
        count = len(instruction.writes)
        name = instruction.opcode.name if instruction.opcode is not None else ""
        rule = _RULES.get(name)
        operands = instruction.operands
        packs = any(isinstance(operand, Vector) for operand in operands)
        if rule is not None and count == 1 and not packs:
            return (rule(instruction, [self._operand(operand) for operand in operands[1:]]),)
        form = instruction.form
        if instruction.space is Space.PARAM and (form.implicit_reads or form.implicit_writes):
            moves = variable_moves(instruction)
            return tuple(self._moved(target, moves.get(target)) for target in instruction.writes)
        return (self._opaque.shape(instruction, name),) * count

    def _moved(self, target: str, source: Operand | None) -> Shape:
        """Through a variable of the thread: as it is, if no bits are cut off or put in front."""
        if source is None:
            return VARYING
        shape, kinds = self._operand(source), self._kernel.registers
        widths = [
            kinds[one.name] for one in (source, Register(target)) if isinstance(one, Register)
        ]
        is_whole = len(widths) == 2 and register_width(widths[0]) == register_width(widths[1])
        return shape if is_whole else _all_uniform([shape])

    def _operand(self, operand: Operand) -> Shape:
        match operand:
            case Register(name):
                return self._shapes[name]
            case Negated(inner):
                return self._operand(inner)
            case Immediate(value):
                return constant(value) if isinstance(value, int) else _uniform(Agreement.BLOCK)
            case SpecialRegister(name):
                return self._specials.get(name, VARYING)
            case SymbolRef():
                return _uniform(Agreement.BLOCK)
            case _:
                return VARYING


def _join(a: Shape, b: Shape) -> Shape:
    """A shape that both have."""
    if a.stride != b.stride or not (a.agreement and b.agreement):
        return VARYING
    same = a.constant if a.constant == b.constant else None
    return Shape(min(a.agreement, b.agreement), a.stride, min(a.align, b.align), same)


def _limited(shape: Shape, limit: Agreement) -> Shape:
    if limit is Agreement.NONE:
        return VARYING
    if shape.agreement <= limit:
        return shape
    return Shape(limit, shape.stride, shape.align, None)


def _special_shapes(launch: Launch) -> dict[str, Shape]:
    x, y, z = launch.block
    shapes = {
        f"%ntid.{axis}": constant(size) for axis, size in zip("xyz", launch.block, strict=True)
    }
    block = _uniform(Agreement.BLOCK)
    shapes |= {f"%{name}.{axis}": block for name in ("ctaid", "nctaid") for axis in "xyz"}
    shapes["%gridid"] = block
    shapes["%laneid"] = Shape(Agreement.BLOCK, 1, _MOST_ALIGNED, 0)
    shapes["%warpid"] = _uniform(Agreement.WARP)
    in_rows = x % WARP_SIZE == 0
    if x == 1:
        shapes["%tid.x"] = constant(0)
    elif in_rows or y * z == 1:
        shapes["%tid.x"] = Shape(Agreement.WARP, 1, 5)
    elif WARP_SIZE % x == 0:
        shapes["%tid.x"] = VARYING
    shapes["%tid.y"] = constant(0) if y == 1 else _uniform(_agrees(in_rows))
    shapes["%tid.z"] = constant(0) if z == 1 else _uniform(_agrees(x * y % WARP_SIZE == 0))
    return shapes


def _agrees(in_warp: bool) -> Agreement:
    return Agreement.WARP if in_warp else Agreement.NONE


# --- rules ----------------------------------------------------------------------------------------


def _all_uniform(shapes: list[Shape]) -> Shape:
    """A function of uniform values is uniform."""
    return _uniform(min((shape.uniform for shape in shapes), default=Agreement.BLOCK))


def _pure(instruction: Instruction, shapes: list[Shape]) -> Shape:
    return _all_uniform(shapes)


def _copied(instruction: Instruction, shapes: list[Shape]) -> Shape:
    (shape,) = shapes
    return shape


def _converted(instruction: Instruction, shapes: list[Shape]) -> Shape:
    """Between integer types: the lanes' part must not carry into bits that are cut or extended."""
    shape = shapes[0]
    integer = all(m[0] in "usb" for m in instruction.modifiers if m[-1].isdigit())
    if len(shapes) == 1 and integer and shape.stride and shape.fits:
        widths = [int(m[1:]) for m in instruction.modifiers if m[-1].isdigit()]
        if min(widths, default=0) >= 16 and "sat" not in instruction.modifiers:
            return Shape(shape.agreement, shape.stride, min(shape.align, min(widths)), None)
    return _all_uniform(shapes)


def _sum(instruction: Instruction, shapes: list[Shape]) -> Shape:
    return _combined(shapes[0], shapes[1], 1) if _is_ring(instruction) else _all_uniform(shapes)


def _differing(instruction: Instruction, shapes: list[Shape]) -> Shape:
    return _combined(shapes[0], shapes[1], -1) if _is_ring(instruction) else _all_uniform(shapes)


def _is_ring(instruction: Instruction) -> bool:
    """Whether the result is the low word of the integers' sum or product."""
    words = instruction.modifiers
    kinds = {word[0] for word in words if word[-1].isdigit()}
    return kinds <= {"u", "s", "b"} and not {"sat", "cc", "hi", "x2"} & set(words)


def _combined(a: Shape, b: Shape, sign: int) -> Shape:
    if not (a.agreement and b.agreement):
        return VARYING
    known = None
    if a.constant is not None and b.constant is not None:
        known = a.constant + sign * b.constant
    stride = a.stride + sign * b.stride
    return Shape(min(a.agreement, b.agreement), stride, min(a.align, b.align), known)


def _product(instruction: Instruction, shapes: list[Shape]) -> Shape:
    if not _is_ring(instruction):
        return _all_uniform(shapes)
    a, b = shapes[:2]
    if b.stride or b.constant is None:
        a, b = b, a
    wide = "wide" in instruction.modifiers
    if a.stride == 0 and b.stride == 0:
        agreement = min(a.agreement, b.agreement)
        known = None
        if a.constant is not None and b.constant is not None and not wide:
            known = a.constant * b.constant
        if not agreement:
            return VARYING
        return Shape(agreement, 0, 0 if wide else a.align + b.align, known)
    if b.stride or b.constant is None or not a.agreement or (wide and not a.fits):
        return VARYING
    return Shape(a.agreement, a.stride * b.constant, a.align + b.align)


def _multiply_add(instruction: Instruction, shapes: list[Shape]) -> Shape:
    if not _is_ring(instruction):
        return _all_uniform(shapes)
    return _combined(_product(instruction, shapes[:2]), shapes[2], 1)


def _shifted_left(instruction: Instruction, shapes: list[Shape]) -> Shape:
    value, amount = shapes
    if amount.constant is None or not 0 <= amount.constant < 32 or not value.agreement:
        return _all_uniform(shapes)
    known = None if value.constant is None else value.constant << amount.constant
    stride = value.stride << amount.constant
    return Shape(value.agreement, stride, value.align + amount.constant, known)


def _shifted_right(instruction: Instruction, shapes: list[Shape]) -> Shape:
    """The lanes' part is lost if it is below the bits of ``u`` and below those that stay."""
    value, amount = shapes
    if value.stride == 0 or amount.constant is None or not 0 <= amount.constant < 64:
        return _all_uniform(shapes)
    lanes = value.stride * (WARP_SIZE - 1)
    if not value.agreement or not value.fits or lanes >= 1 << amount.constant:
        return VARYING
    return Shape(value.agreement, 0, max(0, value.align - amount.constant))


def _masked(instruction: Instruction, shapes: list[Shape]) -> Shape:
    value, mask = shapes
    if value.stride == 0 or mask.constant is None or mask.stride or not value.fits:
        return _all_uniform(shapes)
    if mask.constant % (1 << min(value.align, 62)) == 0:
        return _uniform(value.agreement, _trailing_zeros(mask.constant))
    lanes = (1 << (value.stride * (WARP_SIZE - 1)).bit_length()) - 1
    low = mask.constant & ((1 << min(value.align, 32)) - 1)
    if low & lanes == lanes and mask.constant == low:
        return Shape(Agreement.BLOCK, value.stride, _MOST_ALIGNED, 0)
    return VARYING


def _compared(instruction: Instruction, shapes: list[Shape]) -> Shape:
    a, b, *rest = shapes
    if instruction.modifiers[0] in ("eq", "ne") and _is_ring(instruction):
        difference = _combined(a, b, -1)
        return _all_uniform([difference, *rest])
    return _all_uniform(shapes)


_PURE = (
    *("addc", "subc", "madc", "fma", "mul24", "mad24", "div", "rem", "min", "max", "sad", "abs"),
    *("neg", "copysign", "dp4a", "dp2a", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"),
    *("tanh", "testp", "set", "or", "xor", "not", "cnot", "lop3", "shf", "popc", "clz", "bfind"),
    *("brev", "fns", "bfe", "bfi", "szext", "bmsk", "prmt", "cvt.pack", "isspacep", "selp", "slct"),
)

_RULES = {
    **dict.fromkeys(_PURE, _pure),
    "mov": _copied,
    "cvta": _copied,
    "cvt": _converted,
    "add": _sum,
    "sub": _differing,
    "mul": _product,
    "mad": _multiply_add,
    "shl": _shifted_left,
    "shr": _shifted_right,
    "and": _masked,
    "setp": _compared,
}

_LOADS = frozenset({"ld", "ldu"})
_SEVERAL = frozenset({"setp", "mov"})  # with two predicates, or packing and unpacking registers
_WARP_WIDE = frozenset({"vote", "activemask", "redux"})


class _Opaque:
    """Results that are not functions of registers alone: loads, exchanges, several results."""

    def __init__(
        self, shapes: dict[str, Shape], parameters: frozenset[str], *, race_free: bool
    ) -> None:
        self._shapes = shapes
        self._parameters = parameters
        self._race_free = race_free

    def shape(self, instruction: Instruction, name: str) -> Shape:
        """The shape of every register that the instruction writes."""
        if name in _LOADS:
            return self._load(instruction)
        if name in _WARP_WIDE or (name == "match" and "all" in instruction.modifiers):
            return _uniform(Agreement.WARP)
        if instruction.control is ControlEffect.BARRIER:  # of all threads: no count is given
            return _uniform(Agreement.BLOCK) if len(instruction.operands) == 3 else VARYING
        if name == "shfl" and "idx" in instruction.modifiers:
            return self._one_lane(instruction)
        if name in _SEVERAL and not self._has_special(instruction):
            return _all_uniform([self._shapes[register] for register in instruction.reads])
        return VARYING

    def _has_special(self, instruction: Instruction) -> bool:
        return any(isinstance(operand, SpecialRegister) for operand in instruction.operands)

    def _load(self, instruction: Instruction) -> Shape:
        words = instruction.modifiers
        if instruction.space is Space.LOCAL or {"volatile", "relaxed", "acquire"} & set(words):
            return VARYING
        address = instruction.operands[1]
        if not isinstance(address, Address):
            return VARYING
        if instruction.space is Space.PARAM:  # variables for calls are a thread's own
            is_kernels = (
                isinstance(address.base, SymbolRef) and address.base.name in self._parameters
            )
            return _uniform(Agreement.BLOCK) if is_kernels else VARYING
        found = Agreement.BLOCK
        if isinstance(address.base, Register):
            found = self._shapes[address.base.name].uniform
        fixed = self._race_free or instruction.space is Space.CONST or "nc" in words
        return _uniform(found if fixed else min(found, Agreement.WARP))

    def _one_lane(self, instruction: Instruction) -> Shape:
        """``shfl.idx`` in which all lanes of the warp read the same lane; no result that may be
        out of range.
        """
        operands = instruction.operands
        source, clamp = operands[2], operands[3]
        if not isinstance(operands[0], (Register, Sink)) or not isinstance(clamp, Immediate):
            return VARYING
        if clamp.value != WARP_SIZE - 1:
            return VARYING
        if isinstance(source, Register):
            return _uniform(min(self._shapes[source.name].uniform, Agreement.WARP))
        return _uniform(Agreement.WARP) if isinstance(source, Immediate) else VARYING


# --- where lanes meet -----------------------------------------------------------------------------


class _Liveness:
    """Which registers are live at the start of a block, as bit sets."""

    def __init__(self, kernel: Kernel, cfg: ControlFlowGraph) -> None:
        self._cfg = cfg
        numbers: dict[str, int] = {}
        uses: list[int] = []
        kills: list[int] = []
        self._writes: list[int] = []
        for block in cfg.blocks:
            used = written = killed = 0
            for index in range(block.start, block.end):
                instruction = kernel.instructions[index]
                for name in instruction.reads:
                    bit = 1 << numbers.setdefault(name, len(numbers))
                    used |= bit & ~killed
                for name in instruction.writes:
                    bit = 1 << numbers.setdefault(name, len(numbers))
                    written |= bit
                    if instruction.guard is None:
                        killed |= bit
            uses.append(used)
            self._writes.append(written)
            kills.append(killed)
        self._names = tuple(numbers)
        self._live = [0] * len(cfg.blocks)
        self._live = _solve(cfg, uses, kills)

    def joined(self, branch: BlockId, meeting: BlockId | None) -> list[str]:
        """The registers written between a branch and the block where its sides meet, live there.

        Without such a block: all that are written behind the branch.
        """
        seen: set[BlockId] = set()
        pending = list(self._cfg.successors[branch])
        written = 0
        while pending:
            block = pending.pop()
            if block == meeting or block in seen:
                continue
            seen.add(block)
            written |= self._writes[block]
            pending += self._cfg.successors[block]
        bits = written if meeting is None else written & self._live[meeting]
        return [name for position, name in enumerate(self._names) if bits >> position & 1]


def _solve(cfg: ControlFlowGraph, uses: list[int], kills: list[int]) -> list[int]:
    """Registers live before each block, from those used and overwritten in it."""
    live = [0] * len(cfg.blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(cfg.reverse_postorder):
            after = 0
            for target in cfg.successors[block]:
                after |= live[target]
            before = uses[block] | after & ~kills[block]
            changed |= before != live[block]
            live[block] = before
    return live
