"""IR to PTX text: ``parse(print(module))`` is the module again, and ptxas sees no difference."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxwcet.ir.kernel import (
    BodyItem,
    Directive,
    Instruction,
    Kernel,
    LabelDefinition,
    Module,
    Parameter,
    RegisterDeclaration,
    ScopeBegin,
    ScopeEnd,
    Variable,
)
from ptxwcet.ir.operands import (
    Address,
    Arguments,
    Bracket,
    Element,
    Immediate,
    Minus,
    Negated,
    Operand,
    Pair,
    Register,
    Selected,
    SpecialRegister,
    SymbolRef,
    Vector,
    WholeVector,
)

_SCOPE = re.compile(r"@[0-9]+")


def print_module(module: Module) -> str:
    """The module as PTX text. Comments are gone; everything that ptxas reads is kept.

    Cost: linear in the number of operands.
    """
    return "\n".join(_module_lines(module)) + "\n"


def print_instruction(instruction: Instruction) -> str:
    """One instruction as PTX text, names as spelled in the source, with its semicolon."""
    guard = instruction.guard
    prefix = "" if guard is None else f"@{'!' if guard.negated else ''}{spelling(guard.register)} "
    operands = ", ".join(print_operand(operand) for operand in instruction.operands)
    return f"{prefix}{instruction.mnemonic}{' ' if operands else ''}{operands};"


def print_operand(operand: Operand) -> str:
    """One operand as PTX text."""
    match operand:
        case Register(name) | SpecialRegister(name) | WholeVector(name, _):
            return spelling(name)
        case SymbolRef(name, offset):
            return spelling(name) + (f"+{offset}" if offset else "")
        case Immediate(_, text):
            return text
        case Address():
            return f"[{_address(operand)}]"
        case Element(array, index):
            return f"{print_operand(array)}[{_address(index)}]"
        case Vector(elements):
            return "{" + _join(elements) + "}"
        case Bracket(elements):
            inner = [_address(e) if isinstance(e, Address) else print_operand(e) for e in elements]
            return "[" + ", ".join(inner) + "]"
        case Arguments(elements):
            return "(" + _join(elements) + ")"
        case Pair(first, second):
            return f"{print_operand(first)}|{print_operand(second)}"
        case Negated(inner_operand):
            return "!" + print_operand(inner_operand)
        case Minus(inner_operand):
            return "-" + print_operand(inner_operand)
        case Selected(register, selector):
            return f"{print_operand(register)}.{selector}"
        case _:
            return "_"


def spelling(unique_name: str) -> str:
    """The name as the source spells it: without the ``@n`` of inner scopes."""
    return _SCOPE.sub("", unique_name) if "@" in unique_name else unique_name


def _join(elements: tuple[Operand, ...]) -> str:
    return ", ".join(print_operand(element) for element in elements)


def _address(address: Address) -> str:
    base = print_operand(address.base)
    return f"{base}+{address.offset}" if address.offset else base


def _module_lines(module: Module) -> Iterator[str]:
    major, minor = module.version
    yield f".version {major}.{minor}"
    yield f".target {', '.join((module.target, *module.target_options))}"
    if module.version >= (2, 3):  # the directive came with PTX 2.3
        yield f".address_size {module.address_size}"
    for item in module.items:
        if isinstance(item, Kernel):
            yield from _kernel_lines(item)
        elif isinstance(item, Variable):
            yield item.declaration
        else:
            yield item.text


def _kernel_lines(kernel: Kernel) -> Iterator[str]:
    words = [f".{kernel.linkage}"] if kernel.linkage else []
    words.append(".entry" if kernel.is_entry else ".func")
    before = [a for a in kernel.attributes if a.startswith(".attribute")]
    after = [a for a in kernel.attributes if not a.startswith(".attribute")]
    words += before
    if kernel.results:
        words.append(_parameters(kernel.results))
    words.append(kernel.name + _parameters(kernel.parameters))
    head = " ".join([*words, *after])
    if not kernel.has_body:
        yield head + ";"
        return
    yield head
    yield from (directive.text for directive in kernel.performance)
    yield "{"
    yield from _body_lines(kernel)
    yield "}"


def _parameters(parameters: tuple[Parameter, ...]) -> str:
    return "(" + ", ".join(parameter.declaration for parameter in parameters) + ")"


def _body_lines(kernel: Kernel) -> Iterator[str]:
    position = 0
    instructions = kernel.instructions
    for index, item in kernel.body:
        for instruction in instructions[position:index]:
            yield print_instruction(instruction)
        position = index
        yield _item_line(item)
    for instruction in instructions[position:]:
        yield print_instruction(instruction)


def _item_line(item: BodyItem) -> str:
    match item:
        case RegisterDeclaration(name, register_type, vector, count):
            width = f".v{vector} " if vector else ""
            size = "" if count is None else f"<{count}>"
            return f".reg {width}.{register_type} {name}{size};"
        case Variable():
            return item.declaration
        case LabelDefinition(name, _):
            return f"{name}:"
        case ScopeBegin():
            return "{"
        case ScopeEnd():
            return "}"
        case Directive(_, text):
            return text
