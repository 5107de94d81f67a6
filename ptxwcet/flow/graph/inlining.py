"""Calls replaced by the bodies of the functions called.

Each call gets a copy of its own of the function: registers, labels, local and ``.param`` variables
renamed, formal ``.param`` parameters replaced by the caller's variables. The call becomes a branch
into it and its ``ret`` a branch to what follows, both with their own op classes. Positions stay
those of the text, so that messages name the function's lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from ptxwcet.ir.kernel import (
    CARRY,
    Directive,
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
from ptxwcet.ir.verifier import rewritten
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

ASSERTION = "__assertfail"
"""The function that a failed assertion calls. It never returns, though nvcc does not declare so."""


def inline_calls(kernel: Kernel, module: Module) -> Kernel:
    """The kernel with functions in place of their calls, itself if it has no calls.

    Calls by an alias are calls of the function. A call of a function without a body that never
    returns aborts the launch, as ``trap`` does. A call stays that cannot be replaced: of another
    function without a body, through a register, of a function by itself, with arguments that do not
    fit; it is refused where it is reached. Cost: linear in the instructions of all copies.
    """
    if not any(one.control is ControlEffect.CALL for one in kernel.instructions):
        return kernel
    inliner = _Inliner(kernel, module)
    inliner.splice(kernel, _Site("", {}, None, (kernel.name,)))
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
    """A copy of a body: the prefix of its names, its parameters, where it returns to, callers."""

    prefix: str
    parameters: Mapping[str, str]
    after: str | None
    active: tuple[str, ...]

    def name(self, function: Kernel, name: str) -> str:
        """The name that an operand of the function's has in the copy."""
        if name in self.parameters:
            return self.parameters[name]
        if name == CARRY:  # a thread has one, and instructions do not name it
            return name
        own = any(name in t for t in (function.registers, function.labels, function.branch_tables))
        spaces = {v.space for v in function.variables if v.name == name}
        if "shared" in spaces and self.prefix:  # one for all copies, not that of another function
            return f"{function.name}:{name}"
        return self.prefix + name if own or spaces else name


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
        self._copies = 0
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.variables: dict[str, Variable] = {}
        self.recursions: dict[int, tuple[str, ...]] = {}

    def splice(self, function: Kernel, site: _Site) -> None:
        """Appends a copy of a body."""
        labels_at: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            labels_at.setdefault(index, []).append(label)
        for name, kind in function.registers.items():
            self.registers[site.name(function, name)] = kind
        for variable in function.variables:
            name = site.name(function, variable.name)
            self.variables[name] = replace(variable, name=name)
        for table, names in function.branch_tables.items():
            self.tables[site.prefix + table] = tuple(site.prefix + name for name in names)
        for index, instruction in enumerate(function.instructions):
            for label in labels_at.get(index, ()):
                self.labels[site.prefix + label] = len(self.instructions)
            self._instruction(function, instruction, site)
        for label in labels_at.get(len(function.instructions), ()):
            self.labels[site.prefix + label] = len(self.instructions)

    def _instruction(self, function: Kernel, instruction: Instruction, site: _Site) -> None:
        names = tuple(site.name(function, name) for name in instruction.names)
        targets = tuple(site.prefix + target for target in instruction.targets)
        copy = instruction._replace(names=names, targets=targets)
        if instruction.control is ControlEffect.CALL:
            if not self._call(copy, site):
                callee = copy.callee or ""
                if callee in site.active:
                    cycle = site.active[site.active.index(callee) :]
                    self.recursions[len(self.instructions)] = (*cycle, callee)
                elif callee in self._never_return:
                    copy = copy._replace(form=replace(copy.form, control=ControlEffect.TRAP))
                self.instructions.append(copy)
        elif instruction.control is ControlEffect.RETURN and site.after is not None:
            self._branch(copy, site.after, inverted=False)
        else:
            self.instructions.append(copy)

    def _branch(self, at: Instruction, target: str, *, inverted: bool) -> None:
        """A branch with the guard of ``at``, or its opposite, and the op class of ``at``."""
        guard = at.guard
        kind = 0 if guard is None else 1 + (guard.negated != inverted)
        model = _models("bra L;", "@%p bra L;", "@!%p bra L;")[kind]
        names = {"L": target, "%p": "" if guard is None else guard.register}
        self.instructions.append(
            at._replace(
                form=replace(model.form, op_class=at.op_class),
                names=tuple(names[name] for name in model.names),
                immediates=(),
                targets=(target,),
            )
        )

    def _call(self, call: Instruction, site: _Site) -> bool:
        """Splices in the function that is called; False if that cannot be."""
        function = self._functions.get(call.callee or "")
        if function is None or function.name in site.active:
            return False
        results, arguments = _actuals(call)
        pairs = _paired(function, results, arguments)
        if pairs is None:
            return False
        self._copies += 1
        prefix = f"{function.name}#{self._copies}:"
        after = prefix + "return"
        aliases = {
            formal.name: actual.name for formal, actual in pairs if isinstance(actual, SymbolRef)
        }
        inner = _Site(prefix, aliases, after, (*site.active, function.name))
        count = len(function.results)
        copied = [(one, into) for one, into in pairs[:count] if isinstance(into, Register)]
        past = prefix + "past" if copied else after  # only those that have called copy results
        if call.guard is not None:
            self._branch(call, past, inverted=True)
        else:
            self._branch(call, prefix + "entry", inverted=False)
        self.labels[prefix + "entry"] = len(self.instructions)
        for formal, actual in pairs[count:]:
            if not isinstance(actual, SymbolRef):
                self._copy(call, Register(prefix + formal.name), actual, formal.type)
        self.splice(function, inner)
        self.labels[after] = len(self.instructions)
        for formal, into in copied:
            self._copy(call, into, Register(prefix + formal.name), formal.type)
        if copied and call.guard is not None:
            self.labels[past] = len(self.instructions)
        return True

    def _copy(self, at: Instruction, target: Register, value: Operand, kind: str) -> None:
        """A ``mov`` at the place of the call."""
        self.registers.setdefault(target.name, kind)
        names = {f"%to_{kind}": target.name}
        if isinstance(value, Register):
            self.registers.setdefault(value.name, kind)
            names[f"%from_{kind}"] = value.name
            (model,) = _models(f"mov.{kind} %to_{kind}, %from_{kind};")
            numbers: tuple[Immediate, ...] = ()
        else:
            assert isinstance(value, Immediate)
            (model,) = _models(f"mov.{kind} %to_{kind}, {value.text};")
            numbers = (value,)
        copy = at._replace(form=model.form, immediates=numbers, targets=())
        self.instructions.append(copy._replace(names=tuple(names[name] for name in model.names)))


def _actuals(call: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Results and arguments of a direct call."""
    groups: list[tuple[Operand, ...]] = [(), ()]
    place = 0
    for operand in call.operands:
        if isinstance(operand, SymbolRef) and operand.name == call.callee:
            place = 1
        elif isinstance(operand, Arguments):
            groups[place] = operand.elements
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


@cache
def _models(*statements: str) -> tuple[Instruction, ...]:
    """Statements that name ``%p``, ``L`` and registers ``%to_u32``, ``%from_u32``, as parsed."""
    kinds = (
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f32", "f64", "pred"
    )  # fmt: skip
    declared = " ".join(f".reg .{kind} %to_{kind}, %from_{kind};" for kind in kinds)
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n.entry k()\n{\n"
        f".reg .pred %p; {declared}\nL:\n" + "\n".join(statements) + "\nret;\n}\n"
    )
    kernel = parse_module(SourceFile("models", text)).kernels[0]
    return kernel.instructions[:-1]
