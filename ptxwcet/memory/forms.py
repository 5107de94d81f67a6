"""Register values over the whole run of a block: a number in each thread, and added symbols.

A *form* is ``lanes[t] + sum(coefficient * symbol) + sum(step * n)``. Symbols are common to a block
for all of its life: its index, parameters, addresses of variables. ``n`` counts from 0 to a number
of its own: the additions to a register (the counters and pointers of loops). A register has a few
forms, one of which is true whenever it is read, modulo ``2**bits``.

Two counts are never subtracted from each other, because they may be of different times. So the
effects of one loop on two registers are taken to be independent: an over-approximation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import product

import numpy as np

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.shapes.pattern import KNOWN, Value, trailing_zeros
from ptxwcet.flow.shapes.results import is_function, speaks_of_all
from ptxwcet.flow.values.accesses import access_of
from ptxwcet.flow.values.slicing import deciding
from ptxwcet.flow.values.value import Number, wrap
from ptxwcet.ir.kernel import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Space,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Op, Term, fold
from ptxwcet.memory.executions import Executions
from ptxwcet.memory.lanes import POINTER_ALIGN, LaneAnalysis
from ptxwcet.support.records import dataclass

_MOST_FORMS, _MOST_COUNTS, _MOST_QUESTIONS = 16, 8, 2000
_MOST_NUMBER = 1 << 61
_SELF = "itself"
"""The symbol of a register in its own forms while it is written."""


@dataclass(frozen=True, eq=False, slots=True)
class Form:
    """See the module docstring. ``counts`` are pairs of a step and the largest number of it."""

    lanes: Number
    symbols: Mapping[str, int] = field(default_factory=dict)
    counts: tuple[tuple[int, int], ...] = ()

    def plus(self, other: Form, sign: int = 1) -> Form:
        """Returns the sum, or the difference."""
        symbols = dict(self.symbols)
        for name, number in other.symbols.items():
            symbols[name] = symbols.get(name, 0) + sign * number
        kept = {name: number for name, number in symbols.items() if number}
        counts = (*self.counts, *((sign * step, most) for step, most in other.counts))
        return Form(self.lanes + sign * other.lanes, kept, counts)

    def times(self, factor: int) -> Form:
        """Returns the product with a number."""
        if not factor:
            return Form(0)
        symbols = {name: number * factor for name, number in self.symbols.items()}
        counts = tuple((step * factor, most) for step, most in self.counts)
        return Form(self.lanes * factor, symbols, counts)

    @property
    def number(self) -> int | None:
        """The number that it is; None if it is not one."""
        is_one = isinstance(self.lanes, int) and not self.symbols and not self.counts
        return int(self.lanes) if is_one else None

    def interval(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
        """Returns its least and largest number; None if a symbol has no range."""
        lanes = np.asarray(self.lanes)
        low, high = int(lanes.min()), int(lanes.max())
        for name, number in self.symbols.items():
            if name not in ranges:
                return None
            ends = [number * end for end in ranges[name]]
            low, high = low + min(ends), high + max(ends)
        for step, most in self.counts:
            low, high = low + min(0, step * most), high + max(0, step * most)
        return low, high

    @property
    def zeros(self) -> int:
        """The power of two that divides it, symbols being any numbers."""
        steps = (step for step, _ in self.counts)
        return min(map(trailing_zeros, (self.lanes, *self.symbols.values(), *steps)))


Forms = tuple[Form, ...] | None
"""One of these is true; None: nothing is known."""


@dataclass(frozen=True, slots=True)
class _Added:
    """A write that adds ``step`` to a register, and how often at most since it began anew.

    ``within``: that is in one entry of this loop, the innermost one around the write.
    """

    index: int
    step: int
    most: int
    within: int | None


class RunForms:
    """The forms of the registers of a kernel that addresses depend on.

    ``ranges`` has the known ranges of symbols. Cost: linear in the kernel and the threads of a
    block, for each place at which the counter of a loop is read.
    """

    def __init__(
        self, graph: FlowGraph, launch: Launch, lanes: LaneAnalysis, executions: Executions
    ) -> None:
        self._graph, self._launch, self._lanes = graph, launch, lanes
        self._kernel, self._executions = graph.kernel, executions
        self.ranges: dict[str, tuple[int, int]] = {}
        for axis, size in zip("xyz", launch.grid or (), strict=False):
            self.ranges[f"%ctaid.{axis}"] = (0, size - 1)
        self._writers: dict[str, list[int]] = defaultdict(list)
        for index, instruction in enumerate(self._kernel.instructions):
            for name in instruction.writes:
                self._writers[name].append(index)
        self._undefined = frozenset(graph.agreements.live.undefined())
        self._sizes = {field.name: field.size_bytes for field in self._kernel.parameters}
        self._known: dict[str, Forms] = {}
        self._counters: dict[str, _Counter | None] = {}
        self._open: list[str] = []
        self._reads_itself = self._reads_through = False
        self._questions = 0
        bases = (access.address.base for _, access in lanes.accesses if access.address is not None)
        wanted = {base.name for base in bases if isinstance(base, Register)}
        for index in deciding(
            self._kernel, wanted
        ):  # in program order, so that no query recurses deeply
            for name in self._kernel.instructions[index].writes:
                self._register(name, index)

    def of_address(self, address: Address, index: int) -> Forms:
        """Returns the forms of an address of 64 bits that instruction ``index`` accesses."""
        base = address.base
        if isinstance(base, Register) and self._graph.width(base.name) != KNOWN:
            return None
        forms = self._operand(base, index)
        return None if forms is None else tuple(form.plus(Form(address.offset)) for form in forms)

    def alignment(self, symbols: Iterable[tuple[str, int]]) -> int:
        """Returns the power of two that divides a sum of symbols, each times a number."""
        zeros = (self._zeros(name) + trailing_zeros(one) for name, one in symbols)
        return min(zeros, default=KNOWN)

    def _zeros(self, symbol: str) -> int:
        """Returns the power of two that divides a symbol."""
        if symbol.startswith("&"):
            own = [one.alignment for one in self._kernel.variables if one.name == symbol[1:]]
            return trailing_zeros(own[0]) if own and own[0] else 0
        if symbol in self._launch.alignments:
            return trailing_zeros(self._launch.alignments[symbol])
        return POINTER_ALIGN if symbol in self._lanes.pointers else 0

    def _operand(self, operand: Operand, index: int) -> Forms:
        """Returns the forms of an operand of instruction ``index``."""
        match operand:
            case Register(name):
                return self._register(name, index)
            case Immediate(value):
                return (Form(value),) if isinstance(value, int) else None
            case SpecialRegister(name):
                if self.ranges.get(name, (0, 0))[1] or name not in self.ranges:
                    is_index = name.startswith("%ctaid.")
                    return (Form(0, {name: 1}),) if is_index else self._of_lanes(name)
                return (Form(0),)
            case SymbolRef(name, offset):
                return (Form(offset, {f"&{name}": 1}),)
            case _:
                return None

    def _of_lanes(self, special: str) -> Forms:
        return _of_patterns(self._lanes.special(special))

    def _register(self, name: str, index: int) -> Forms:
        if self._open and name == self._open[-1]:
            self._reads_itself = True
            return (Form(0, {_SELF: 1}),)
        if name in self._open or name in self._undefined:
            return None
        forms = _of_patterns(self._lanes.value(name))
        if forms is not None:
            return forms
        if len(self._writers[name]) != 1:
            return self._counted(name, index)
        if name in self._known:
            return self._known[name]
        (writer,) = self._writers[name]
        outer, self._reads_itself = self._reads_itself, False
        forms = self._written(name, writer)
        reads_itself, self._reads_itself = self._reads_itself, self._reads_itself or outer
        if reads_itself:
            self._reads_through = True
            return forms if self._follows(writer, index) else None
        if forms is not None or not self._open:
            self._known[name] = forms
        return forms

    def _written(self, name: str, index: int) -> Forms:
        """Returns the forms of a register as instruction ``index`` writes it."""
        instruction = self._kernel.instructions[index]
        opcode = operation_of(instruction.form).name
        if opcode == "cvta":
            is_global = "global" in instruction.modifiers
            return self._operand(instruction.operands[1], index) if is_global else None
        if instruction.space is Space.PARAM:
            return self._parameter(name, instruction)
        if not is_function(instruction):
            return None
        meant = meaning_of(instruction, self._kernel.registers)
        if meant is None or not speaks_of_all(meant, instruction):
            return None
        root = meant.results[instruction.writes.index(name)]
        sources = [self._operand(source, index) for source in meant.sources]
        found: Forms = fold(root, partial(self._meaning, sources))
        return found

    def _parameter(self, name: str, instruction: Instruction) -> Forms:
        """Returns the value loaded from a parameter of the kernel, which the launch leaves open."""
        access = access_of(instruction)
        if access is None or not isinstance(access.base, SymbolRef):
            return None
        parameter = access.base.name
        if parameter not in self._sizes or instruction.form.implicit_reads:
            return None
        for offset, element in access.places():
            if not isinstance(element, Register) or element.name != name:
                continue
            if self._graph.width(name) != access.bits:
                return None
            if offset or access.bits != 8 * self._sizes[parameter]:
                return (Form(0, {f"{parameter}+{offset}:{access.bits}": 1}),)
            if parameter in self._launch.ranges:
                self.ranges[parameter] = self._launch.ranges[parameter]
            return (Form(0, {parameter: 1}),)
        return None

    # --- registers that are written at several places ---------------------------------------------

    def _counted(self, name: str, index: int) -> Forms:
        """Returns a register with several writes: its initial forms, and the additions."""
        if name not in self._counters:
            self._questions += 1
            if self._questions > _MOST_QUESTIONS:
                return None
            outer = self._reads_itself, self._reads_through
            self._open.append(name)
            counter = self._writes_of(name)
            self._open.pop()
            self._reads_itself, self._reads_through = outer
            if counter is None and self._open:
                return None  # possibly because of a register whose query is open
            self._counters[name] = counter
        result = self._counters[name]
        if result is None:
            return None
        begun, added = result
        counts = tuple((one.step, self._times(one, index)) for one in added)
        return tuple(replace(one, counts=(*one.counts, *counts)) for one in begun)

    def _writes_of(self, name: str) -> _Counter | None:
        begun: list[Form] = []
        steps: list[tuple[int, int]] = []
        begins: list[int] = []
        for index in self._writers[name]:
            self._reads_itself = self._reads_through = False
            forms = self._written(name, index)
            if forms is None or (self._reads_through and not self._writes_alone(name, index)):
                return None
            if not self._reads_itself:
                begun += forms
                begins.append(index)
                continue
            for form in forms:
                rest = {name: number for name, number in form.symbols.items() if name != _SELF}
                step = replace(form, symbols=rest).number
                if form.symbols.get(_SELF) != 1 or step is None:
                    return None
                steps.append((index, step))
        if not begun or len(begun) > _MOST_FORMS or len(steps) > _MOST_COUNTS:
            return None
        added = [self._since(index, step, begins) for index, step in steps if step]
        known = tuple(form for form in added if form is not None)
        return (tuple(begun), known) if len(known) == len(added) else None

    def _follows(self, writer: int, index: int) -> bool:
        """Returns whether an instruction reads another's result in the same iteration."""
        one, two = self._graph.block_of(writer), self._graph.block_of(index)
        innermost = self._graph.forest.innermost
        return innermost(one) is innermost(two) and self._is_before(writer, index)

    def _writes_alone(self, name: str, index: int) -> bool:
        """Returns whether nothing else in the loop around an instruction writes the register."""
        loop = self._graph.forest.innermost(self._graph.block_of(index))
        others = (writer for writer in self._writers[name] if writer != index)
        return loop is not None and all(
            self._graph.block_of(other) not in loop.body for other in others
        )

    def _is_before(self, one: int, other: int) -> bool:
        """Returns whether an instruction is executed before another whenever that is."""
        first, second = self._graph.block_of(one), self._graph.block_of(other)
        if first == second:
            return one < other
        return self._graph.dominators.dominates(first, second)

    def _since(self, index: int, step: int, begins: Sequence[int]) -> _Added | None:
        """Returns the executions of a write that adds ``step`` since the register was set anew."""
        graph, block = self._graph, self._graph.block_of(index)
        loops = list(graph.forest.around(block))
        always = [
            graph.block_of(one) for one in begins if self._kernel.instructions[one].guard is None
        ]
        for place, loop in enumerate(loops):
            around = loops[place + 1].body if place + 1 < len(loops) else None
            if any(
                alway not in loop.body
                and (around is None or alway in around)
                and graph.dominators.dominates(alway, loop.header)
                for alway in always
            ):
                most = self._executions.in_an_entry(loop.id, block)
                within = None if place else loop.id
                return None if most is None else _Added(index, step, most, within)
        most = self._executions.most(block)
        return None if most is None else _Added(index, step, most, None)

    def _times(self, added: _Added, index: int) -> int:
        """Returns the most additions to a register before an instruction reads it."""
        if added.within is not None and self._is_before(index, added.index):
            block = self._graph.block_of(index)
            innermost = self._graph.forest.innermost(block)
            if innermost is not None and innermost.id == added.within:
                visits = self._executions.in_an_entry(added.within, block)
                return added.most if visits is None else max(0, min(added.most, visits - 1))
        return added.most

    # --- The forms of terms -----------------------------------------------------------------------

    def _meaning(self, sources: Sequence[Forms], term: Term, args: list[Forms]) -> Forms:
        if term.op is Op.SOURCE:
            return sources[term.value]
        if term.op is Op.CONST:
            return (Form(wrap(term.value, term.width)),)
        if term.op is Op.ANY:
            return None
        if term.op is Op.ITE:
            args = args[1:]
        given = [each for each in args if each is not None]
        if len(given) < len(args):
            return None
        if term.op is Op.ITE:
            return _few(given[0] + given[1])
        results = [self._result(term, each) for each in product(*given)]
        known = [result for result in results if result is not None and _is_small(result)]
        return _few(known) if len(known) == len(results) else None

    def _result(self, term: Term, args: Sequence[Form]) -> Form | None:
        a = args[0]
        match term.op:
            case Op.ADD | Op.SUB:
                return a.plus(args[1], 1 if term.op is Op.ADD else -1)
            case Op.OR if self._is_apart(args, term.width) or self._is_apart(
                args[::-1], term.width
            ):
                return a.plus(args[1])
            case Op.MUL:
                a, b = args if args[1].number is not None else args[::-1]
                return None if b.number is None else _scaled(a, b.number)
            case Op.SHL:
                amount = args[1].number
                return (
                    None if amount is None or not 0 <= amount < KNOWN else _scaled(a, 1 << amount)
                )
            case Op.EXTRACT:
                return a if term.value == 0 else None
            case Op.ZEXT | Op.SEXT:
                width = term.args[0].width
                first = 0 if term.op is Op.ZEXT else -(1 << width - 1)
                ends = a.interval(self.ranges)
                fits = ends is not None and first <= ends[0] and ends[1] < first + (1 << width)
                return a if fits else None
            case _:
                return None

    def _is_apart(self, args: Sequence[Form], width: int) -> bool:
        """Returns whether a number is a multiple of a power of two that another one stays below."""
        one, other = args
        ends = other.interval(self.ranges)
        return ends is not None and ends[0] >= 0 and ends[1] < 1 << min(one.zeros, width)


_Counter = tuple[tuple[Form, ...], tuple[_Added, ...]]
"""The initial forms of a register, and the writes that add to it."""


def _of_patterns(value: Value) -> Forms:
    """Returns the forms of a register whose number in each thread is known."""
    if not value or len(value) > _MOST_FORMS:
        return None
    if not all(one.is_known for one in value):
        return None
    return tuple(Form(one.offsets) for one in value)


def _few(forms: Sequence[Form]) -> Forms:
    return tuple(forms) if len(forms) <= _MOST_FORMS else None


def _scaled(form: Form, factor: int) -> Form | None:
    return form.times(factor) if _size(form) * abs(factor) < _MOST_NUMBER else None


def _is_small(form: Form) -> bool:
    """Returns whether nothing of it is near the end of words of 64 bits."""
    return _size(form) < _MOST_NUMBER and len(form.counts) <= _MOST_COUNTS


def _size(form: Form) -> int:
    """Returns the largest number in it."""
    lanes = np.abs(np.asarray(form.lanes, dtype=np.float64)).max()
    counted = sum(abs(step) * most for step, most in form.counts)
    return max([int(lanes), counted, *map(abs, form.symbols.values())])
