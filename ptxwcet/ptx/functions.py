"""Reads function heads: their extent and declarations; checks calls against them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lark import Token, Tree

from ptxwcet.ir.kernel import (
    Arguments,
    Immediate,
    Instruction,
    Operand,
    Parameter,
    PerformanceDirective,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Variable,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import Address
from ptxwcet.ir.operation import number_type
from ptxwcet.ptx.declarations import (
    Declared,
    declared,
    is_passed,
    linkage_of,
    lower_parameter,
    lower_performance,
    parts_of,
)
from ptxwcet.ptx.grammar import tokens
from ptxwcet.ptx.scopes import FunctionNames
from ptxwcet.ptx.statements import SKIP, canonical
from ptxwcet.support.comments import COMMENT, blank_comments
from ptxwcet.support.records import dataclass

_ARGUMENTS = (SymbolRef, Register, Immediate, SpecialRegister, Sink)
_TOGETHER = (
    (".maxntid", ".reqntid"),
    (".maxclusterrank", ".reqnctapercluster"),
)

IS_FUNCTION = re.compile(
    rf"(?:\.(?:extern|visible|weak|common)\b{SKIP})?\.(?:entry|func)\b", re.ASCII
)

_HEAD_MARK = re.compile(
    rf'"[^"\n]*+"|{COMMENT}|[(){{;]|\.pragma\b|'
    r"\.(?:visible|extern|weak|common|entry|func|global|const|shared|tex|section|file|alias)\b",
    re.ASCII,
)


def head_end(text: str, start: int) -> int:
    """Returns the end of the function head at ``start`` (past its keyword): at ``{``, at ``;`` or
    at the next item. The ``;`` of a ``.pragma`` belongs to the head. Cost: linear in the head.
    """
    depth = 0
    in_pragma = False
    for match in _HEAD_MARK.finditer(text, start):
        mark = match.group()
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif mark == ".pragma":
            in_pragma = True
        elif mark == ";" and in_pragma:
            in_pragma = False
        elif mark in "{;" or (mark[0] == "." and depth <= 0):
            return match.start()
    return len(text)


def function_name(head: str) -> str | None:
    """Returns the name in a function head, past its keyword, without the grammar, or None."""
    match = re.match(r"\s*(?:\([^()]*\)\s*)?([\w$%]+)", blank_comments(head), re.ASCII)
    return None if match is None else match[1]


@dataclass(frozen=True, slots=True)
class FunctionHead:
    """The text before a body or before the ``;`` of a prototype."""

    name: Declared
    is_entry: bool
    linkage: str
    attributes: tuple[str, ...]
    results: tuple[tuple[Parameter, Declared], ...]
    parameters: tuple[tuple[Parameter, Declared], ...]
    performance: tuple[PerformanceDirective, ...]


def lower_head(tree: Tree[Token], text: str) -> FunctionHead:
    """Returns the head from its tree; offsets refer to ``text``. Raises LiteralError."""
    words, trees = parts_of(tree)
    each = [*map(_attribute, trees.get("attribute", ())), *[".noreturn"] * ("noreturn" in trees)]
    return FunctionHead(
        name=declared(words["NAME"]),
        is_entry=tree.data == "entry_head",
        linkage=linkage_of(trees),
        attributes=(*each, *map(_attribute, trees.get("abi", ()))),
        results=_parameters(trees.get("results", ()), text),
        parameters=_parameters(trees.get("parameters", ()), text),
        performance=tuple(map(lower_performance, trees.get("performance", ()))),
    )


def _parameters(groups: Sequence[Tree[Token]], text: str) -> tuple[tuple[Parameter, Declared], ...]:
    """Returns the parameters in an optional pair of parentheses."""
    each = (tree for group in groups for tree in group.children if isinstance(tree, Tree))
    return tuple([lower_parameter(tree, text, index) for index, tree in enumerate(each)])


def _attribute(tree: Tree[Token]) -> str:
    """Returns ``.abi_preserve n`` or ``.attribute(.unified(1,2))`` as PTX text."""
    if tree.data == "abi":
        return " ".join(tokens(tree))
    values = []
    for child in tree.children:
        first, *numbers = tokens(child)
        values.append(f"{first}({', '.join(numbers)})" if numbers else str(first))
    return canonical(f".attribute({', '.join(values)})")


# --- heads against each other and against calls: mismatches that ptxas reports --------------------


@dataclass(frozen=True, slots=True)
class Signature:
    """The results and parameters of a function, and its linkage."""

    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    linkage: str

    @staticmethod
    def of(head: FunctionHead) -> Signature:
        """Returns the signature in a function's head."""
        results = tuple(parameter for parameter, _ in head.results)
        return Signature(results, tuple(p for p, _ in head.parameters), head.linkage)

    def conflict(self, earlier: Signature, *, has_body: bool) -> str:
        """Returns a relevant difference from an earlier head of the function; empty if none."""
        linkages = {self.linkage, earlier.linkage}
        if has_body and earlier.linkage == "extern" != self.linkage:
            return "it is .extern above"
        if linkages == {"weak", "visible"}:
            return "its linkage differs from that above"
        for mine, theirs in (
            (self.results, earlier.results),
            (self.parameters, earlier.parameters),
        ):
            if len(mine) != len(theirs):
                return "it has another number of parameters above"
            if any(shape_of(a) != shape_of(b) for a, b in zip(mine, theirs, strict=True)):
                return "its parameters have other types above"
        return ""


def shape_of(parameter: Parameter) -> tuple[str, str, int, int]:
    """Returns the properties that two declarations of a function must share."""
    return parameter.space, parameter.type, parameter.size_bytes, parameter.alignment


def performance_conflict(head: FunctionHead) -> str:
    """Returns the conflict among the performance directives of an entry; empty if none."""
    given = {directive.keyword for directive in head.performance}
    for pair in _TOGETHER:
        if given.issuperset(pair):
            return f"{pair[0]} and {pair[1]} exclude each other"
    if ".blocksareclusters" in given and not given.issuperset((".reqntid", ".reqnctapercluster")):
        return ".blocksareclusters needs .reqntid and .reqnctapercluster"
    return ""


def wrong_calls(
    instructions: Sequence[Instruction],
    signatures: Mapping[str, Signature],
    names: FunctionNames,
    variables: Sequence[Variable],
    *,
    has_abi: bool,
) -> Iterator[tuple[Instruction, str]]:
    """Yields calls that do not fit a head of a possible callee, each with the reason.

    ``has_abi``: the call is translated, as ptxas does for all that an entry calls. Cost: linear in
    calls and the functions that are listed for them.
    """
    sizes = {call.name: call for call in variables}
    for call in instructions:
        if call.control is not ControlEffect.CALL:
            continue
        callees = names.call_lists.get(call.target_list, (call.callee or "",))
        for callee in dict.fromkeys(callees):
            signature = signatures.get(callee)
            message = _wrong_call(call, callee, signature, names.types, sizes)
            if has_abi and signature is not None and not message:
                each = (*signature.results, *signature.parameters)
                small = [parameter for parameter in each if not is_passed(parameter)]
                message = f"no call passes a .{small[0].type}: declare a .b32" if small else ""
            if message:
                yield call, message
                break


def guarded_arguments(
    instructions: Sequence[Instruction], variables: Sequence[Variable]
) -> Iterator[Instruction]:
    """Yields the accesses to arguments and results of calls that have a guard. Cost: linear."""
    names = {variable.name for variable in variables if variable.space == "param"}
    for instruction in instructions if names else ():
        if instruction.guard is None or not names.intersection(instruction.names):
            continue
        bases = [place.base for place in instruction.operands if isinstance(place, Address)]
        if any(isinstance(base, SymbolRef) and base.name in names for base in bases):
            yield instruction


def _wrong_call(
    call: Instruction,
    callee: str,
    signature: Signature | None,
    types: Mapping[str, str],
    variables: Mapping[str, Variable],
) -> str:
    first = call.operands[0] if call.operands else None
    has_results = isinstance(first, Arguments)
    groups = [operand.elements for operand in call.operands if isinstance(operand, Arguments)]
    results = groups.pop(0) if has_results else ()
    arguments = groups[0] if groups else ()
    if not all(isinstance(value, _ARGUMENTS) for value in (*results, *arguments)):
        return "an argument of a call is a register, a literal or a variable"
    if signature is None:
        return ""
    for given, wanted, role in (
        (results, signature.results, "result"),
        (arguments, signature.parameters, "argument"),
    ):
        if len(given) != len(wanted):
            plural = "" if len(wanted) == 1 else "s"
            return f"'{callee}' has {len(wanted)} {role}{plural}, {len(given)} given"
        for value, parameter in zip(given, wanted, strict=True):
            if not _fits(value, parameter, types, variables):
                return f"the {role} for '{parameter.name}' is no .{parameter.type}"
    return ""


def _fits(
    value: Operand,
    parameter: Parameter,
    types: Mapping[str, str],
    variables: Mapping[str, Variable],
) -> bool:
    wanted = number_type(parameter.type)
    if isinstance(value, Register):
        given = number_type(types.get(value.name, ""))
        if wanted is None or given is None or parameter.is_array:
            return True
        return given.width == wanted.width
    variable = variables.get(value.name) if isinstance(value, SymbolRef) else None
    if variable is None or variable.space != "param":
        return True
    is_array = "[" in variable.declaration
    return (variable.size_bytes, is_array) == (parameter.size_bytes, parameter.is_array)
