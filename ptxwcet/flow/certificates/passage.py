"""What a thread does from one block to another, as terms: an iteration of a loop, or a way to it.

Blocks are taken in order, each with the condition under which it is reached; where ways meet a
register is the one or the other. Of a loop in between the last iteration is followed, from a state
in which what the loop writes may be anything, but for registers to which each iteration adds a
constant (:func:`steady_steps`): they are what they were before plus so many times that, for one
number of iterations, which may be any. A loop with others in it is not followed: what it writes may
be anything behind it, as may all that comes from memory, from other threads, or from an instruction
without terms. Ways that lead elsewhere do not count. Each execution of such a passage is one choice
of values for the terms' sources.

Divisions that compilers write as products are divisions again: ``x * m >> k`` with a constant ``m``
is ``x / d``. Let ``d = ceil(2**k / m)`` and ``e = m * d - 2**k``. For ``x = a * d + b`` with ``0 <=
b < d``, ``x * m = a * 2**k + a * e + b * m``, so that ``floor(x * m / 2**k)`` is ``a`` plus
``floor((a * e + b * m) / 2**k)``.

* For ``0 <= x <= most`` that is ``a`` if ``a * e + b * m < 2**k``, which is
  ``(a + 1) * e < (d - b) * m``. With ``b = d - 1``, ``a + 1`` is at most ``(most + 1) // d``; with
  others ``most // d + 1``.
* For ``-least <= x < 0`` it is ``a - 1`` where ``b`` is 0, and ``a`` if ``-a * e <= b * m``: one
  less than the quotient rounded towards zero. With ``b = 1``, ``-a`` is at most
  ``(least + 1) // d``; with others ``least // d + 1``.

(Granlund and Montgomery, PLDI 1994.) Solvers do not find that by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.ir.kernel import CARRY, Instruction
from ptxwcet.ir.operands import Operand, Register, SpecialRegister
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.terms import Op, Term, const, fold, source, term
from ptxwcet.support.graph import reachable
from ptxwcet.support.records import dataclass


class _Product(NamedTuple):
    """A number times a constant, in bits that hold it."""

    number: Term
    factor: int
    signed: bool


def simplified(node: Term) -> Term:
    """A quotient in the place of a product that computes it; the same term if it is none.

    Cost: constant.
    """
    match node:
        case Term(op=Op.EXTRACT, args=(inner,), value=low):
            product = _product(inner)
            if product is not None and low > 0:
                return _quotient(product, low, node.width) or node
        case Term(op=Op.LSHR | Op.ASHR, args=(inner, Term(op=Op.CONST, value=by))):
            if inner.op is Op.EXTRACT:
                product, below = _product(inner.args[0]), inner.value
                is_top = inner.value + inner.width == inner.args[0].width
            else:
                product, below, is_top = _product(inner), 0, True
            if product is not None and is_top and 0 < by < node.width:
                return _shifted(product, node, below + by) or node
    return node


def _shifted(product: _Product, one: Term, by: int) -> Term | None:
    """The highest bits of a product, shifted on: its sign, or a quotient."""
    if product.signed and one.op is Op.LSHR:
        if one.args[1].value != one.width - 1:
            return None
        return product.number.less_than(0, signed=True).extended(one.width, signed=False)
    if product.signed != (one.op is Op.ASHR):
        return None
    return _quotient(product, by, one.width)


def _product(node: Term) -> _Product | None:
    """A term as a positive constant times an extended number, if that cannot overflow."""
    if node.op is not Op.MUL:
        return None
    for wide, factor in (node.args, node.args[::-1]):
        if factor.op is not Op.CONST or wide.op not in (Op.ZEXT, Op.SEXT) or factor.value < 2:
            continue
        (number,) = wide.args
        signed = wide.op is Op.SEXT
        if signed and factor.value >> (node.width - 1):
            continue  # a negative factor
        if (factor.value << (number.width - signed)) < 1 << (node.width - signed):
            return _Product(number, factor.value, signed)
    return None


def _quotient(product: _Product, by: int, width: int) -> Term | None:
    """``floor(product / 2**by)`` in so many bits, if that is a quotient of the number."""
    number, factor = product.number, product.factor
    if factor >= 1 << by:
        return None
    divisor = -(-(1 << by) // factor)
    rest = factor * divisor - (1 << by)
    end = 1 << (number.width - product.signed)
    if rest == 0 or divisor >> (number.width - 1):
        return None
    if end // divisor * rest >= factor or ((end - 1) // divisor + 1) * rest >= 2 * factor:
        return None
    if product.signed and (
        (end + 1) // divisor * rest > factor or (end // divisor + 1) * rest > 2 * factor
    ):
        return None
    quotient = number.divided_by(const(divisor, number.width), signed=product.signed)
    if product.signed:
        below = number.less_than(0, signed=True).extended(number.width, signed=False)
        quotient = quotient - below
    return quotient.resized(width, signed=product.signed)


MOST_INSTRUCTIONS = 3_000
_MOST_WIDTH = 64
_FIXED = frozenset(
    f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"
)
"""Special registers that stay as they are while a thread runs."""

OUTSIDE = BlockId(-1)
"""The end of ways that leave the blocks, wherever they lead."""

Registers = dict[str, Term]
"""What registers hold that have been written since the start."""


class NotFollowed(Exception):
    """A part of a kernel is not followed: it is too large, or has ways into its middle."""


@dataclass(frozen=True, slots=True)
class Passage:
    """All ways from a block to another one, which for an iteration is the same.

    ``arrives`` is one bit: whether a thread comes to the end at all. Sources of the terms stand for
    what registers hold at the start, and for what is not known.
    """

    arrives: Term
    _sources: _Sources
    _after: Mapping[str, Term]

    def before(self, name: str) -> Term:
        """A register at the start. Raises NotFollowed if it is no number."""
        return self._sources.before(name)

    def after(self, name: str) -> Term:
        """A register at the end. Raises NotFollowed if it is no number."""
        return self._after.get(name) or self._sources.before(name)

    def written(self) -> list[str]:
        """The registers that may not be what they were, those that are numbers."""
        return list(self._after)

    def divisors(self) -> list[int]:
        """The magnitudes of the constants by which contents of registers have been divided."""
        divisors: dict[int, None] = {}

        def note(node: Term, _: list[None]) -> None:
            if node.op in (Op.UDIV, Op.SDIV) and node.args[1].op is Op.CONST:
                by = node.args[1].value
                negative = node.op is Op.SDIV and by >> (node.width - 1)
                divisors[(1 << node.width) - by if negative else by] = None

        seen: dict[Term, None] = {}  # registers have most of their terms in common
        for term_ in self._after.values():
            fold(term_, note, seen)
        return [by for by in divisors if by > 1]


def iteration_of(graph: FlowGraph, loop: Loop) -> Passage:
    """One iteration of a loop, from its header to its header. Raises NotFollowed.

    Cost: linear in the body, times the registers that differ where ways meet.
    """
    return _follower(graph, loop.body, loop.header, loop.header).passage()


def steady_steps(graph: FlowGraph, loop: Loop) -> Mapping[str, int]:
    """What each iteration that goes back adds to registers, where that is a constant, modulo 2^w.

    None are known of a loop that is not followed. Cost: that of :func:`iteration_of`, once.
    """
    found = graph.work.of_graph[_SteadySteps]
    if loop.id not in found:
        found[loop.id] = _steady(graph, graph.forest.loops[loop.id])
    return found[loop.id]


class _SteadySteps(dict[int, Mapping[str, int]]):
    """Those of the loops that were asked for."""


def _steady(graph: FlowGraph, loop: Loop) -> dict[str, int]:
    try:
        iteration = iteration_of(graph, loop)
    except NotFollowed:
        return {}
    steps: dict[str, int] = {}
    for name in iteration.written():
        constant, rest = 0, iteration.after(name)
        while rest.op in (Op.ADD, Op.SUB) and rest.args[1].op is Op.CONST:
            sign = 1 if rest.op is Op.ADD else -1
            constant, rest = constant + sign * rest.args[1].value, rest.args[0]
        if rest.op is Op.SOURCE and rest == iteration.before(name):
            steps[name] = constant % (1 << rest.width)
    return steps


def departure_of(graph: FlowGraph, loop: Loop) -> Passage:
    """The part of an iteration that leaves a loop, from its header to all that is outside of it.

    Raises NotFollowed. Cost: as :func:`iteration_of`.
    """
    return _follower(graph, loop.body, loop.header, OUTSIDE).passage()


def way_from(graph: FlowGraph, start: BlockId, loop: Loop, *, thorough: bool = False) -> Passage:
    """The ways from a block to a loop's header, each the last part of a run that enters the loop.

    The block must dominate the header. Ways do not come back to the block, nor do they go through
    the loop before. Of a loop around that the block is outside of one iteration is followed, up to
    where the loop is entered, from a state as that of a last one. ``thorough``: of loops in between
    two iterations are followed, and there are any. Raises NotFollowed. Cost: as
    :func:`iteration_of`.
    """
    blocks, around = blocks_before(graph, start, loop)
    follower = _follower(graph, blocks, start, loop.header, around, thorough=thorough)
    passage = follower.passage()
    if thorough and not follower.followed_twice:
        raise NotFollowed
    return passage


def _follower(
    graph: FlowGraph,
    blocks: Collection[BlockId],
    start: BlockId,
    end: BlockId,
    around: Mapping[BlockId, Loop] = MappingProxyType({}),
    *,
    thorough: bool = False,
) -> _Follower:
    sources = _Sources(graph.kernel.registers)
    return _Follower(graph, blocks, start, end, sources, around, thorough=thorough)


def blocks_before(
    graph: FlowGraph, start: BlockId, loop: Loop
) -> tuple[set[BlockId], Mapping[BlockId, Loop]]:
    """The blocks on ways from a block to a loop's header, and the loops around that are entered on
    them, by header. Raises NotFollowed.
    """
    if start in loop.body or not graph.dominators.dominates(start, loop.header):
        raise NotFollowed
    around = [one for one in graph.forest.around(loop.header) if start not in one.body]
    blocks: set[BlockId] = set()
    for place, end in enumerate(around):  # from one header to the next inside
        begin = around[place + 1].header if place + 1 < len(around) else start
        ends, edges = (begin, end.header), graph.cfg
        after = reachable(edges.successors, edges.successors[begin], ends)
        before = reachable(edges.predecessors, edges.predecessors[end.header], ends)
        part = (after & before) | {begin}
        if not part.isdisjoint(end.body - {end.header}):
            raise NotFollowed
        blocks |= part
    return blocks - {loop.header}, {one.header: one for one in around[1:]}


@dataclass(slots=True)
class _Sources:
    """The sources of a passage: registers at its start, and what is not known, each a new one."""

    types: Mapping[str, str]
    _numbers: count[int] = field(default_factory=count)
    _named: dict[str, Term] = field(default_factory=dict)

    def width(self, name: str) -> int:
        """Bits of a register. Raises NotFollowed if it is no number."""
        kind = self.types.get(name, "pred" if name == CARRY else "")
        digits = "1" if kind == "pred" else kind.lstrip("usbf")
        if not digits.isdigit() or int(digits) > _MOST_WIDTH:
            raise NotFollowed
        return int(digits)

    def fresh(self, width: int) -> Term:
        """A new source, for a number of which nothing is known."""
        return source(next(self._numbers), width)

    def before(self, name: str) -> Term:
        """What a register holds at the start."""
        if name not in self._named:
            self._named[name] = self.fresh(self.width(name))
        return self._named[name]

    def special(self, register: SpecialRegister) -> Term:
        """A special register: the same number each time only if it stays as it is."""
        name = register.name
        if name not in _FIXED:
            return self.fresh(register.bits)
        return self._named.setdefault(name, self.fresh(register.bits))


@dataclass(slots=True)
class _Follower:
    """Follows blocks from a start to an end; ``waiting`` are the ways that lead into each that is
    not ``done`` yet, ``around`` the loops that are entered and not left, by header, ``begun`` the
    registers at the start. ``thorough``: see :func:`way_from`.
    """

    graph: FlowGraph
    blocks: Collection[BlockId]
    start: BlockId
    end: BlockId
    sources: _Sources
    around: Mapping[BlockId, Loop] = field(default_factory=dict)
    begun: Registers = field(default_factory=dict)
    thorough: bool = False
    waiting: dict[BlockId, list[tuple[Term, Registers]]] = field(default_factory=dict)
    done: set[BlockId] = field(default_factory=set)
    followed_twice: bool = False

    def passage(self) -> Passage:
        """All ways joined into one passage. Raises NotFollowed."""
        cfg = self.graph.cfg
        size = sum(cfg.blocks[block].end - cfg.blocks[block].start for block in self.blocks)
        if size > MOST_INSTRUCTIONS:
            raise NotFollowed
        inner = self._inner()
        done = self.done
        for block in cfg.reverse_postorder:
            if block not in self.blocks or block in done:
                continue
            loop = inner.get(block) or self.around.get(block)
            # with its last iteration, or one that comes to the end
            goes_on = loop is not None and (block in self.around or not loop.children)
            own = loop.body if loop is not None else frozenset((block,))
            if block != self.start:
                self._check_entries(block, own, done)
            done |= own if not goes_on else {block}
            reached, registers = self._met(block)
            if loop is not None and goes_on:
                self._walk(block, *self._in_last(loop, reached, registers))
            elif loop is not None:
                self._behind(loop, reached, registers)
            else:
                self._walk(block, reached, registers)
        return Passage(*self._arrived())

    def _inner(self) -> dict[BlockId, Loop]:
        """The outermost loops among the blocks, by header; not the loop that is gone round."""
        found: dict[BlockId, Loop] = {}
        for loop in self.graph.forest.loops:  # outer ones first
            is_whole = loop.header == self.start and self.end in (self.start, OUTSIDE)
            if not is_whole and loop.body <= set(self.blocks):
                known = any(loop.body <= other.body for other in found.values())
                if not known:
                    found[loop.header] = loop
        return found

    def _check_entries(
        self, block: BlockId, own: Collection[BlockId], done: Collection[BlockId]
    ) -> None:
        """Raises NotFollowed if a way leads here that has not been followed."""
        for one in own:
            for before in self.graph.cfg.predecessors[one]:
                if before not in own and (before not in done or one != block):
                    raise NotFollowed

    def _met(self, block: BlockId) -> tuple[Term, Registers]:
        """Whether a block is reached, and its registers: ways that meet are one."""
        if block == self.start:
            return const(1, 1), dict(self.begun)
        return self._merged(self.waiting.pop(block, []))

    def _merged(self, ways: list[tuple[Term, Registers]]) -> tuple[Term, Registers]:
        if not ways:
            return const(0, 1), {}
        (reached, first), *others = ways
        merged = dict(first)
        for name in dict.fromkeys(name for _, registers in others for name in registers):
            if name not in merged:
                merged[name] = self.sources.before(name)
        for condition, registers in others:
            for name, old in merged.items():
                now = registers.get(name) or self.sources.before(name)
                if now is not old:  # of a large kernel most are what they were
                    merged[name] = condition.choose(now, old)
            reached = _either(reached, condition)
        return reached, merged

    def _arrived(self) -> tuple[Term, _Sources, Registers]:
        arrives, registers = self._merged(self.waiting.pop(self.end, []))
        if self.waiting:
            raise NotFollowed
        return arrives, self.sources, registers

    def _go(self, target: BlockId, condition: Term, registers: Registers) -> None:
        """Follows an edge; what leaves the blocks is looked at if that is the end, what goes back
        in a loop is not: the iteration that is followed is the last one.
        """
        if self.end == OUTSIDE and target not in self.blocks:
            target = OUTSIDE
        inside = target in self.blocks and target != self.start and target not in self.done
        if target == self.end or inside:
            self.waiting.setdefault(target, []).append((condition, registers))

    def _in_last(self, loop: Loop, reached: Term, registers: Registers) -> tuple[Term, Registers]:
        """Whether a loop's last iteration begins, and its registers then.

        If two are followed, it is the first one, or one behind another that has gone back.
        """
        after = self._after_any(loop, registers)
        iterations = self.sources.fresh(_MOST_WIDTH)
        for name, step in steady_steps(self.graph, loop).items():
            before = self._read(registers, name)
            moved = iterations.part(0, before.width) * const(step, before.width)
            after[name] = simplified(before + moved)
        if not self.thorough or loop.header in self.around:
            return reached, after
        self.followed_twice = True
        follower = _Follower(
            self.graph, loop.body, loop.header, loop.header, self.sources, begun=after
        )
        goes_back = follower.passage()
        is_first = self.sources.fresh(1)
        behind = {name: goes_back.after(name) for name in goes_back.written()}
        return self._merged(
            [(is_first & reached, registers), (~is_first & reached & goes_back.arrives, behind)]
        )

    def _after_any(self, loop: Loop, registers: Registers) -> Registers:
        """The registers when a loop may have written anything that it writes."""
        after = dict(registers)
        for name in self.graph.writes(loop.body):
            self._forget(after, name)
        return after

    def _behind(self, loop: Loop, reached: Term, registers: Registers) -> None:
        """Goes on behind a loop, whatever it has done."""
        after = self._after_any(loop, registers)
        for source_, target in loop.exits:
            if source_ not in loop.body or target in loop.body:
                raise NotFollowed
            self._go(target, _both(reached, self.sources.fresh(1)), after)

    def _forget(self, registers: Registers, name: str) -> None:
        try:
            registers[name] = self.sources.fresh(self.sources.width(name))
        except NotFollowed:
            registers.pop(name, None)  # no number: nobody asks for it

    def _walk(self, block: BlockId, reached: Term, registers: Registers) -> None:
        """Executes a block and goes on behind it."""
        graph = self.graph
        bounds = graph.cfg.blocks[block]
        for index in range(bounds.start, bounds.end):
            self._step(registers, index)
        taken, fallthrough = graph.cfg.taken[block], graph.cfg.fallthrough[block]
        successors = dict.fromkeys(graph.cfg.successors[block])
        guard = (
            graph.kernel.instructions[bounds.end - 1].guard if bounds.end > bounds.start else None
        )
        if len(successors) == 1:
            for goes_on in (True, False):
                if guard is not None and (block, not goes_on) in graph.cfg.aborts:
                    holds = self._read(registers, guard.register)
                    reached = _both(reached, holds if goes_on != guard.negated else ~holds)
            self._go(next(iter(successors)), reached, registers)
            return
        is_guarded = guard is not None and {taken, fallthrough} == set(successors)
        for target in successors:
            condition = self.sources.fresh(1)
            if is_guarded and guard is not None:
                holds = self._read(registers, guard.register)
                condition = holds if (target == taken) != guard.negated else ~holds
            self._go(target, _both(reached, condition), dict(registers))

    def _read(self, registers: Registers, name: str) -> Term:
        return registers.get(name) or self.sources.before(name)

    def _step(self, registers: Registers, index: int) -> None:
        """What an instruction leaves in the registers."""
        instruction = self.graph.kernel.instructions[index]
        if not instruction.writes:
            return
        results = self._results(registers, index)
        guard, kept = instruction.guard, dict[str, Term]()
        if guard is not None:
            holds = self._read(registers, guard.register)
            kept = {
                name: old for name in instruction.writes if (old := self._held(registers, name))
            }
        for name in instruction.writes:
            self._forget(registers, name)
        if results is not None and len(set(instruction.writes)) == len(results):
            registers.update(zip(instruction.writes, results, strict=True))
        for name, old in kept.items():
            assert guard is not None
            yes, no = (old, registers[name]) if guard.negated else (registers[name], old)
            registers[name] = holds.choose(yes, no)

    def _held(self, registers: Registers, name: str) -> Term | None:
        """What a register holds; None if that is no number."""
        try:
            return self._read(registers, name)
        except NotFollowed:
            return None

    def _results(self, registers: Registers, index: int) -> list[Term] | None:
        """The terms of what an instruction writes; None if they are not known."""
        meaning = self.graph.meaning(index)
        if meaning is None:
            return self._loaded(self.graph.kernel.instructions[index])
        try:
            sources = [self._operand(registers, one) for one in meaning.sources]
        except NotFollowed:
            return None
        return [self._substituted(one, sources) for one in meaning.results]

    def _operand(self, registers: Registers, operand: Operand) -> Term | None:
        match operand:
            case Register(name):
                return self._read(registers, name)
            case SpecialRegister():
                return self.sources.special(operand)
        return None  # a literal, which is in the term

    def _loaded(self, instruction: Instruction) -> list[Term] | None:
        """What a load gives: some number of its type, which may be narrower than the register."""
        operation = operation_of(instruction.form)
        if operation.name != "ld" or len(operation.types) != 1:
            return None
        (kind,) = operation.types
        if not kind.is_integer:
            return None
        try:
            widths = [self.sources.width(name) for name in instruction.writes]
        except NotFollowed:
            return None
        return [
            self.sources.fresh(kind.bits).resized(width, signed=kind.is_signed) for width in widths
        ]

    def _substituted(self, root: Term, sources: list[Term | None]) -> Term:
        """A term over sources of an instruction, with terms in their place."""

        def put(node: Term, args: list[Term]) -> Term:
            match node.op:
                case Op.CONST:
                    return node
                case Op.SOURCE:
                    replacement = sources[node.value]
                    if replacement is None or replacement.width != node.width:
                        return self.sources.fresh(node.width)
                    return replacement
                case Op.ANY:
                    return self.sources.fresh(node.width)
            return simplified(term(node.op, node.width, tuple(args), node.value))

        return fold(root, put)


def _both(one: Term, two: Term) -> Term:
    if one.op is Op.CONST:
        return two if one.value else one
    return two if one is two else one & two


def _either(one: Term, two: Term) -> Term:
    if one.op is Op.CONST:
        return one if one.value else two
    return one if one is two else one | two
