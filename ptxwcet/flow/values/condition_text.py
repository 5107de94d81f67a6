"""The condition of a branch in a form that people read: C-like, over parameters, indices and loads.

The guard is followed back through the instructions that compute it. A register that several
instructions write (a counter) keeps its name; what it may hold is said beside the condition.
A result is written with C's operators where that is what the instruction computes, else with the
instruction's name (``mul.hi(a, b)``). Nothing here decides anything: it is text, of what the
program says. (Terms say what that means: a minimum is a comparison and a choice there.)
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.ir.kernel import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
    place,
)
from ptxwcet.ir.operation import NumberKind, Operation, operation_of
from ptxwcet.support.records import dataclass

_DEEPEST = 8
_LONGEST = 72  # characters of a part; a longer one is cut down to its register
_MOST_REGISTERS = 3
_MOST_VALUES = 3

_COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "mul24": "*", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "div": "/", "rem": "%",
}  # fmt: skip
_ON_PREDICATES = {"and": "&&", "or": "||", "xor": "!="}
_SAME = frozenset({"mov", "cvt", "cvta"})
_PLAIN = frozenset({"lo", "wide", "rn", "rz", "rm", "rp", "ftz", "approx", "full", "global", "to"})
"""Modifiers with which an operation is still what its operator says."""
_ORDERED = frozenset({"setp", "min", "max", "div", "rem"})
_SUMS = frozenset({"mad", "fma", "mad24"})
_CALLED = frozenset({"min", "max", "abs", "selp", "clz", "popc", "bfe", "brev", "sqrt", "rcp"})
_PREFIX = {"not": "~", "neg": "-"}


@dataclass(frozen=True, slots=True)
class _Shown:
    """A piece of text, the text of its opposite if there is a simple one, and what it consists of.

    ``is_atom``: it needs no parentheses.
    """

    text: str
    is_atom: bool = True
    opposite: str | None = None

    def __str__(self) -> str:
        return self.text if self.is_atom else f"({self.text})"

    def negated(self) -> _Shown:
        """The opposite condition."""
        if self.opposite is not None:
            return _Shown(self.opposite, self.is_atom, self.text)
        return _Shown(f"!{self}", True, self.text)


class ConditionReader:
    """Reads the conditions of one kernel; ``names`` are what to call its parameters."""

    def __init__(self, kernel: Kernel, names: Mapping[str, str]) -> None:
        self._kernel = kernel
        self._names = names
        self._definitions: dict[str, list[int]] = {}
        for index, instruction in enumerate(kernel.instructions):
            for name in instruction.writes:
                self._definitions.setdefault(name, []).append(index)
        self._counters: dict[str, None] = {}

    def condition(self, guard: Guard, *, holds: bool) -> tuple[str, tuple[str, ...]]:
        """When ``guard`` holds (or does not), and what the registers named in it may hold.

        Cost: linear in the instructions that compute it, within fixed limits.
        """
        self._counters = {}
        shown = self._register(guard.register, _DEEPEST)
        if guard.negated == holds:
            shown = shown.negated()
        counters = list(self._counters)[:_MOST_REGISTERS]
        return shown.text, tuple(text for name in counters if (text := self._values(name)))

    def _values(self, name: str) -> str:
        """What the instructions that write a register put into it."""
        values: dict[str, None] = {}
        for index in self._definitions.get(name, ()):
            values[self._instruction(name, index, 2).text] = None
        text = f"{name} = " + ", or ".join(values)
        is_useful = values and len(values) <= _MOST_VALUES and name not in values
        return text if is_useful and len(text) <= _LONGEST else ""

    def _register(self, name: str, depth: int) -> _Shown:
        places = self._definitions.get(name, [])
        if len(places) != 1 or depth == 0:
            self._counters[name] = None
            return _Shown(name)
        shown = self._instruction(name, places[0], depth - 1)
        return shown if len(shown.text) <= _LONGEST else _Shown(name)

    def _instruction(self, name: str, index: int, depth: int) -> _Shown:
        """The value that one instruction puts into register ``name``."""
        instruction = self._kernel.instructions[index]
        operation = operation_of(instruction.form)
        operands = instruction.operands
        if instruction.guard is not None or operands[0] != Register(name):
            return self._opaque(index, name)
        if operation.name == "ld":
            return self._load(index)
        if operation.name == "setp":
            return self._comparison(instruction, operation, depth)
        bits = _unsigned_bits(operation)
        parts = [self._operand(one, depth, bits) for one in operands[1:]]
        is_predicate = self._kernel.registers.get(name) == "pred"
        shown = _written(operation, parts, is_predicate=is_predicate)
        return self._opaque(index, name) if shown is None else shown

    def _opaque(self, index: int, name: str) -> _Shown:
        instruction = self._kernel.instructions[index]
        if instruction.guard is not None:
            self._counters[name] = None
            return _Shown(name)
        what = instruction.mnemonic.split(".")[0].replace("ld", "loaded")
        return _Shown(f"{what}({place(self._kernel, index)})")

    def _load(self, index: int) -> _Shown:
        address = self._kernel.instructions[index].operands[-1]
        if isinstance(address, Address) and isinstance(address.base, SymbolRef):
            name = self._names.get(address.base.name)
            if name is not None and address.offset == 0:
                return _Shown(name)
        return _Shown(f"loaded({place(self._kernel, index)})")

    def _comparison(self, instruction: Instruction, operation: Operation, depth: int) -> _Shown:
        words, bits = operation.words, _unsigned_bits(operation)
        left, right, *predicates = (
            self._operand(item, depth, bits) for item in instruction.operands[1:]
        )
        symbol = _COMPARISONS.get(words[0])
        if symbol is None:  # the unordered comparisons of floating-point numbers
            symbol = _COMPARISONS.get(words[0].removesuffix("u"))
            text = f"{words[0]}({left}, {right})" if symbol is None else f"{left} {symbol} {right}"
            shown = _Shown(text if symbol is None else f"{text} or NaN", symbol is None)
        else:
            flipped = None if operation.has_floats else f"{left} {_OPPOSITES[symbol]} {right}"
            shown = _Shown(f"{left} {symbol} {right}", is_atom=False, opposite=flipped)
        for predicate, word in zip(predicates, words[1:], strict=False):
            if word in _ON_PREDICATES:
                shown = _Shown(f"{shown} {_ON_PREDICATES[word]} {predicate}", is_atom=False)
        return shown

    def _operand(self, operand: Operand, depth: int, bits: int) -> _Shown:
        match operand:
            case Register(name):
                return self._register(name, depth)
            case SpecialRegister(name):
                return _Shown(name.lstrip("%"))
            case Immediate(value):
                if bits and isinstance(value, int):
                    value %= 1 << bits
                return _Shown(str(value))
            case Negated(inner):
                return self._operand(inner, depth, bits).negated()
            case SymbolRef(name):
                return _Shown(self._names.get(name, name))
            case _:
                return _Shown("...")


def _written(operation: Operation, parts: list[_Shown], *, is_predicate: bool) -> _Shown | None:
    """An operation on what its operands are written as; None if it has no such text."""
    name = operation.name
    listed = ", ".join(part.text for part in parts)
    if name in _SAME and len(parts) == 1 and "sat" not in operation.words:
        narrow = _narrowed(operation)
        return parts[0] if narrow is None else _Shown(f"{narrow}({listed})")
    if name == "not" and is_predicate:
        return parts[0].negated()
    words = [word for word in operation.words if word not in _PLAIN]
    words += [f"{one.kind.value}{one.bits}x{one.count}" for one in operation.types if one.count > 1]
    if words:
        is_known = any(name in names for names in (_SAME, _INFIX, _SUMS, _CALLED, _PREFIX))
        return _Shown(f"{'.'.join((name, *words))}({listed})") if is_known else None
    if name in _PREFIX:
        return _Shown(f"{_PREFIX[name]}{parts[0]}")
    if name in _INFIX and len(parts) == 2:
        symbol = (_ON_PREDICATES if is_predicate else _INFIX)[name]
        return _Shown(f"{parts[0]} {symbol} {parts[1]}", is_atom=False)
    if name in _SUMS:
        return _Shown(f"{parts[0]} * {parts[1]} + {parts[2]}", is_atom=False)
    return _Shown(f"{name}({listed})") if name in _CALLED else None


def _unsigned_bits(operation: Operation) -> int:
    """Bits of an operation for which -1 is the greatest number; 0 for others."""
    kind = operation.types[-1] if operation.types else None
    if kind is None or kind.kind is not NumberKind.UNSIGNED or operation.name not in _ORDERED:
        return 0
    return kind.bits


def _narrowed(operation: Operation) -> str | None:
    """The type of a conversion that keeps the low bits alone."""
    if operation.name != "cvt" or len(operation.types) != 2:
        return None
    target, origin = operation.types
    is_cut = target.is_integer and origin.is_integer and target.bits < origin.bits
    return f"{target.kind.value}{target.bits}" if is_cut else None
