"""Calls replaced by the bodies of the functions called.

Each call gets a copy of its own of the function: registers, labels, local and ``.param`` variables
renamed, formal ``.param`` parameters replaced by the caller's variables. The call becomes a branch
into it and its ``ret`` a branch to what follows, both with their own op classes. A call through a
register with a list (``.calltargets``) is an indexed branch to the functions listed. Positions stay
those of the text, so that messages name the function's lines.

Functions that call one another twice double with each level: what all copies hold is counted, and
a kernel of which it is too much is refused. Nothing here is recursive: a chain of calls may be as
long as a text is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.instruction_set import misfit
from ptxwcet.ir.kernel import (
    CARRY,
    Directive,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Parameter,
    Register,
    SymbolRef,
    Variable,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import Arguments, Sink
from ptxwcet.ir.operation import type_bytes
from ptxwcet.ir.verifier import rewritten
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

ASSERTION = "__assertfail"
"""The function that a failed assertion calls. It never returns, though nvcc does not declare so."""

MOST_COPIED = 1 << 17
"""Instructions that copies of functions add to a kernel at most: some 30 s of analysis.

Of registers, labels and variables eight count as one."""


_MOVED = (
    "b16", "b32", "b64", "b128", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "pred"
)  # fmt: skip


def inline_calls(kernel: Kernel, module: Module) -> Kernel:
    """The kernel with functions in place of their calls, itself if it has no calls.

    Calls by an alias are calls of the function. A call of a function without a body that never
    returns aborts the launch, as ``trap`` does. A call stays that cannot be replaced: of another
    function without a body, through a register without a list, of a function by itself, with
    arguments that do not fit; it is refused where it is reached. Raises PtxwcetError (PW252) if all
    copies together hold more than ``MOST_COPIED``. Cost: linear in the instructions of all copies.
    """
    if not any(one.control is ControlEffect.CALL for one in kernel.instructions):
        return kernel
    inliner = _Inliner(kernel, module)
    inliner.run(kernel)
    whole = replace(
        kernel,
        instructions=tuple(inliner.instructions),
        labels=inliner.labels,
        registers=inliner.registers,
        branch_tables=inliner.tables,
        variables=tuple(inliner.variables.values()),
        body=(),
        recursions=inliner.recursions,
    )
    return rewritten(whole)


@dataclass(frozen=True, slots=True)
class _Site:
    """A copy of a body: the prefix of its names, its parameters, where it returns to."""

    prefix: str
    parameters: Mapping[str, str]
    after: str | None
    function: Kernel
    spaces: Mapping[str, str]

    def name(self, name: str) -> str:
        """The name that an operand of the function's has in the copy."""
        if name in self.parameters:
            return self.parameters[name]
        if name == CARRY:  # a thread has one, and instructions do not name it
            return name
        function, space = self.function, self.spaces.get(name)
        if space == "shared" and self.prefix:  # one for all copies, not that of another function
            return f"{function.name}:{name}"
        own = any(name in t for t in (function.registers, function.labels, function.branch_tables))
        return self.prefix + name if own or space is not None else name


_Callee = tuple[Kernel, list[tuple[Parameter, Operand]]]
"""A function with its formal and actual parameters."""

_Body = Iterator["_Body"]
"""A copy that is being made; it gives copies that have to be made before it goes on."""


class _Inliner:
    def __init__(self, kernel: Kernel, module: Module) -> None:
        self._functions = {function.name: function for function in module.functions}
        self._never_return = {ASSERTION} - self._functions.keys()
        for item in module.items:
            if isinstance(item, Kernel) and not item.has_body and ".noreturn" in item.attributes:
                self._never_return |= {item.name} - self._functions.keys()
            elif isinstance(item, Directive) and item.keyword == ".alias":
                alias, _, function = item.text.removeprefix(".alias").strip(" ;").partition(", ")
                if function in self._functions:
                    self._functions[alias] = self._functions[function]
        self._spaces: dict[str, dict[str, str]] = {}  # of the variables of functions
        self._copies = self._choices = 0
        self._effort = Effort(MOST_COPIED)
        self._active = [kernel.name]  # functions that call one another, down to the one at hand
        self._is_active = {kernel.name}
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.variables: dict[str, Variable] = {}
        self.recursions: dict[int, tuple[str, ...]] = {}

    def run(self, kernel: Kernel) -> None:
        """Makes the whole kernel. Raises PtxwcetError (PW252)."""
        bodies = [self._splice(_Site("", {}, None, kernel, self._spaces_of(kernel)))]
        while bodies:
            inner = next(bodies[-1], None)
            if inner is None:
                bodies.pop()
            else:
                bodies.append(inner)

    def _splice(self, site: _Site) -> Iterator[_Body]:
        """Appends a copy of a body; gives what has to be appended where that stands still."""
        function, labels_at = site.function, dict[int, list[str]]()
        for label, index in function.labels.items():
            labels_at.setdefault(index, []).append(label)
        for name, kind in function.registers.items():
            self.registers[site.name(name)] = kind
        for variable in function.variables:
            name = site.name(variable.name)
            self.variables[name] = replace(variable, name=name)
        for table, names in function.branch_tables.items():
            self.tables[site.prefix + table] = tuple(site.prefix + name for name in names)
        for index, instruction in enumerate(function.instructions):
            for label in labels_at.get(index, ()):
                self.labels[site.prefix + label] = len(self.instructions)
            yield from self._instruction(instruction, site)
        for label in labels_at.get(len(function.instructions), ()):
            self.labels[site.prefix + label] = len(self.instructions)

    def _spaces_of(self, function: Kernel) -> dict[str, str]:
        """The state spaces of a function's variables, shared where a name has several."""
        if function.name not in self._spaces:
            rows = [(one.name, one.space) for one in function.variables]
            shared = [(name, space) for name, space in rows if space == "shared"]
            self._spaces[function.name] = dict([*rows, *shared])
        return self._spaces[function.name]

    def _instruction(self, instruction: Instruction, site: _Site) -> Iterator[_Body]:
        names = tuple(site.name(name) for name in instruction.names)
        targets = tuple(site.prefix + target for target in instruction.targets)
        copy = instruction._replace(names=names, targets=targets)
        if instruction.control is ControlEffect.CALL:
            listed = site.function.call_lists.get(instruction.target_list, (copy.callee or "",))
            if (known := self._known(copy, listed)) is None:
                if all(name in self._never_return - self._functions.keys() for name in listed):
                    copy = copy._replace(form=replace(copy.form, control=ControlEffect.TRAP))
                self.instructions.append(copy)
            elif copy.callee is None:
                yield self._choice(copy, known)
            else:
                yield self._call(copy, *known[0])
        elif instruction.control is ControlEffect.RETURN and site.after is not None:
            self._branch(copy, site.after, inverted=False)
        else:
            self.instructions.append(copy)

    def _known(self, call: Instruction, names: tuple[str, ...]) -> list[_Callee] | None:
        """What a call may call, each once, with its parameters; None where the call stays."""
        found: dict[str, _Callee] = {}
        for name in names:
            function = self._functions.get(name)
            own = name if function is None else function.name  # an alias is the function
            if own in self._is_active:
                cycle = self._active[self._active.index(own) :]
                self.recursions[len(self.instructions)] = (*cycle, own)
                return None
            pairs = None if function is None else _paired(function, *_actuals(call))
            if function is None or pairs is None:
                return None
            found[own] = function, pairs
        return list(found.values())

    def _branch(self, at: Instruction, target: str, *, inverted: bool) -> None:
        """A branch with the guard of ``at``, or its opposite, and the op class of ``at``."""
        guard = at.guard
        if guard is not None and inverted:
            guard = Guard(guard.register, not guard.negated)
        self._append("bra", (SymbolRef(target),), at, guard, (target,))

    def _append(
        self,
        mnemonic: str,
        operands: tuple[Operand, ...],
        at: Instruction,
        guard: Guard | None,
        targets: tuple[str, ...],
    ) -> None:
        """A branch at the place of ``at``, with its op class."""
        place = at.origin, at.start, at.end
        made = instruction_of(mnemonic, operands, place, guard=guard, targets=targets)
        self.instructions.append(made._replace(form=replace(made.form, op_class=at.op_class)))

    def _choice(self, call: Instruction, callees: list[_Callee]) -> Iterator[_Body]:
        """A branch to all functions that a register may hold. Raises PtxwcetError (PW252).

        Behind each but the last a jump is added past the others: dearer than the text, never
        cheaper.
        """
        self._choices += 1
        prefix = f"#{self._choices}:"  # no function has this name
        past, table = prefix + "past", prefix + "functions"
        if call.guard is not None:
            self._branch(call, past, inverted=True)
            call = call._replace(form=replace(call.form, guard_slot=-1))
        entries = tuple(f"{prefix}{function.name}" for function, _ in callees)
        self.tables[table] = entries
        (address,) = (one for one in call.operands if isinstance(one, Register))
        self._append("brx.idx", (address, SymbolRef(table)), call, None, entries)
        for entry, callee in zip(entries, callees, strict=True):
            self.labels[entry] = len(self.instructions)
            yield self._call(call, *callee, is_chosen=True)
            if entry != entries[-1]:
                self._branch(call, past, inverted=False)
        self.labels[past] = len(self.instructions)

    def _call(
        self,
        call: Instruction,
        function: Kernel,
        pairs: list[tuple[Parameter, Operand]],
        *,
        is_chosen: bool = False,
    ) -> Iterator[_Body]:
        """Splices in the function that is called; ``is_chosen``: a branch leads here.

        Raises PtxwcetError (PW252).
        """
        self._count(call, function)
        self._copies += 1
        prefix = f"{function.name}#{self._copies}:"
        after = prefix + "return"
        aliases = {
            formal.name: actual.name for formal, actual in pairs if isinstance(actual, SymbolRef)
        }
        inner = _Site(prefix, aliases, after, function, self._spaces_of(function))
        count = len(function.results)
        copied = [(one, into) for one, into in pairs[:count] if isinstance(into, Register)]
        past = prefix + "past" if copied else after  # only those that have called copy results
        if call.guard is not None:
            self._branch(call, past, inverted=True)
        elif not is_chosen:
            self._branch(call, prefix + "entry", inverted=False)
        self.labels[prefix + "entry"] = len(self.instructions)
        for formal, actual in pairs[count:]:
            if not isinstance(actual, SymbolRef):
                self._copy(call, Register(prefix + formal.name), actual, formal.type)
        self._active.append(function.name)
        self._is_active.add(function.name)
        yield self._splice(inner)
        self._active.pop()
        self._is_active.remove(function.name)
        self.labels[after] = len(self.instructions)
        for formal, into in copied:
            self._copy(call, into, Register(prefix + formal.name), formal.type)
        if copied and call.guard is not None:
            self.labels[past] = len(self.instructions)

    def _count(self, call: Instruction, function: Kernel) -> None:
        names = function.registers, function.labels, function.variables, function.branch_tables
        steps = 2 + len(function.instructions) + sum(map(len, names)) // 8
        steps += sum(map(len, function.branch_tables.values())) // 8
        try:
            self._effort.spend(steps)
        except TooMuchEffort:
            raise PtxwcetError(
                Diagnostic(
                    "PW252",
                    f"functions in place of their calls make more than {MOST_COPIED:,} "
                    f"instructions: here the copy {self._copies + 1:,} would begin",
                    call.span,
                    help="call in a loop what is called over and over, or bound the functions that "
                    "are called most as kernels of their own",
                )
            ) from None

    def _copy(self, at: Instruction, target: Register, value: Operand, kind: str) -> None:
        """A ``mov`` at the place of the call."""
        self.registers.setdefault(target.name, kind)
        if kind not in _MOVED:  # no mov has its type
            kind = f"b{max(16, 8 * type_bytes(kind))}"
        if isinstance(value, Register):
            self.registers.setdefault(value.name, kind)
        made = instruction_of(f"mov.{kind}", (target, value), (at.origin, at.start, at.end))
        if isinstance(value, Immediate) and (fault := misfit(made, {target.name: kind})):
            raise PtxwcetError(Diagnostic("PW108", f"argument {value.text}: {fault}", at.span))
        self.instructions.append(made)


def _actuals(call: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Results and arguments of a call."""
    groups: list[tuple[Operand, ...]] = [(), ()]
    place = 0
    for operand in call.operands:
        if isinstance(operand, Arguments):
            groups[place] = operand.elements
        else:
            place = 1
    return groups[0], groups[1]


def _paired(
    function: Kernel,
    results: tuple[Operand, ...],
    arguments: tuple[Operand, ...],
) -> list[tuple[Parameter, Operand]] | None:
    """Formal and actual parameters, results first; None if they do not fit.

    Nor if a variable is both: the function gets a copy of what it holds at the call, and writes
    another one, but here both names would stand for the same.
    """
    formals = (*function.results, *function.parameters)
    actuals = (*results, *arguments)
    given = {one.name for one in results if isinstance(one, SymbolRef)}
    if any(isinstance(one, SymbolRef) and one.name in given for one in arguments):
        return None
    if len(results) != len(function.results) or len(formals) != len(actuals):
        return None
    for place, (formal, actual) in enumerate(zip(formals, actuals, strict=True)):
        expected = (Register, Sink) if place < len(results) else (Register, Immediate)
        if formal.space == "param" and not isinstance(actual, SymbolRef):
            return None
        if formal.space != "param" and not isinstance(actual, expected):
            return None
    return list(zip(formals, actuals, strict=True))
