"""Heads of functions against each other and against calls: what ptxas says does not match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ptxwcet.ir.kernel import (
    Arguments,
    Immediate,
    Instruction,
    Operand,
    Parameter,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Variable,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operation import number_type
from ptxwcet.ptx.functions import FunctionHead
from ptxwcet.ptx.scopes import FunctionNames

_ARGUMENTS = (SymbolRef, Register, Immediate, SpecialRegister, Sink)
_TOGETHER = (
    (".maxntid", ".reqntid"),
    (".maxclusterrank", ".reqnctapercluster"),
)


@dataclass(frozen=True, slots=True)
class Signature:
    """Results and parameters of a function, and its linkage."""

    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    linkage: str

    @staticmethod
    def of(head: FunctionHead) -> Signature:
        """The signature in a function's head."""
        results = tuple(parameter for parameter, _ in head.results)
        return Signature(results, tuple(one for one, _ in head.parameters), head.linkage)

    def conflict(self, earlier: Signature, *, has_body: bool) -> str:
        """What differs from an earlier head of the function; empty if nothing that counts does."""
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
    """What has to be equal where a function is declared twice."""
    return parameter.space, parameter.type, parameter.size_bytes, parameter.alignment


def performance_conflict(head: FunctionHead, version: tuple[int, int]) -> str:
    """What is wrong with the performance directives of an entry together; empty if nothing is."""
    given = {one.keyword for one in head.performance}
    for pair in _TOGETHER:
        if given.issuperset(pair):
            return f"{pair[0]} and {pair[1]} exclude each other"
    if ".blocksareclusters" in given and not given.issuperset((".reqntid", ".reqnctapercluster")):
        return ".blocksareclusters needs .reqntid and .reqnctapercluster"
    if ".maxnctapersm" in given and version >= (2, 1):
        return ".maxnctapersm ended with PTX 2.1: it is .minnctapersm"
    return ""


def wrong_calls(
    instructions: Sequence[Instruction],
    signatures: Mapping[str, Signature],
    names: FunctionNames,
    variables: Sequence[Variable],
) -> Iterator[tuple[Instruction, str]]:
    """Calls that do not fit a head of what they may call, each with the reason.

    Cost: linear in calls and the functions that are listed for them.
    """
    sizes = {one.name: one for one in variables}
    for one in instructions:
        if one.control is not ControlEffect.CALL:
            continue
        callees = names.call_lists.get(one.target_list, (one.callee or "",))
        for callee in dict.fromkeys(callees):
            message = _wrong_call(one, callee, signatures.get(callee), names.types, sizes)
            if message:
                yield one, message
                break


def _wrong_call(
    call: Instruction,
    callee: str,
    signature: Signature | None,
    types: Mapping[str, str],
    variables: Mapping[str, Variable],
) -> str:
    first = call.operands[0] if call.operands else None
    has_results = isinstance(first, Arguments)
    groups = [one.elements for one in call.operands if isinstance(one, Arguments)]
    results = groups.pop(0) if has_results else ()
    arguments = groups[0] if groups else ()
    if not all(isinstance(one, _ARGUMENTS) for one in (*results, *arguments)):
        return "an argument of a call is a register, a literal or a variable"
    if signature is None:
        return ""
    for given, wanted, what in (
        (results, signature.results, "result"),
        (arguments, signature.parameters, "argument"),
    ):
        if len(given) != len(wanted):
            plural = "" if len(wanted) == 1 else "s"
            return f"'{callee}' has {len(wanted)} {what}{plural}, {len(given)} given"
        for value, parameter in zip(given, wanted, strict=True):
            if not _fits(value, parameter, types, variables):
                return f"the {what} for '{parameter.name}' is no .{parameter.type}"
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
