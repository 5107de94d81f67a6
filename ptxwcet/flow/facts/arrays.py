"""Ranges of the integers in arrays, from the text of a fact to the pointer that it speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ptxwcet.flow.facts.parameters import find_parameter
from ptxwcet.flow.facts.stated import FactSource, ParameterFact, conflict
from ptxwcet.flow.launch import ArrayRange
from ptxwcet.flow.values.integers import integer_type
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_POINTER_BYTES = 8
_FORM = re.compile(r"([us](?:8|16|32|64))\s+(-?[0-9]{1,20})\s*\.\.\s*(-?[0-9]{1,20})", re.ASCII)


def resolve_arrays(
    kernel: Kernel, facts: Sequence[ParameterFact], cuda_names: Sequence[str] | None
) -> Mapping[str, ArrayRange]:
    """What is said of the integers in arrays, by the PTX name of the pointer to them.

    Parameters are named as in :func:`~ptxwcet.flow.facts.parameters.resolve_parameters`. Raises
    PtxwcetError (PW213 no such parameter, PW214 no pointer or no such range, PW215 two different
    ranges). Cost: linear.
    """
    ranges: dict[str, tuple[ArrayRange, FactSource]] = {}
    for fact in facts:
        parameter = find_parameter(kernel, fact, cuda_names)
        if parameter.is_array or parameter.size_bytes != _POINTER_BYTES:
            message = f"{fact.name} is no pointer"
            raise _refused(fact, message, "only pointers of 64 bits lead to arrays")
        array_range = _parsed(fact)
        earlier, by = ranges.setdefault(parameter.name, (array_range, fact.source))
        if str(earlier) != str(array_range):
            texts = (str(earlier), by), (str(array_range), fact.source)
            raise PtxwcetError(conflict(f"the range of array {fact.name}", *texts))
    return {name: row for name, (row, _) in ranges.items()}


def _parsed(fact: ParameterFact) -> ArrayRange:
    match = _FORM.fullmatch(fact.text.strip())
    if match is None:
        message = f"{fact.text!r} is no type and range"
        raise _refused(fact, message, 'write "s32 LEAST..MOST": a type of PTX, s or u, 8 to 64')
    name, low, high = match[1], int(match[2]), int(match[3])
    kind = integer_type(name)
    assert kind is not None
    if not kind.low <= low <= high <= kind.high:
        message = f"{low}..{high} is no range of {name}"
        raise _refused(fact, message, f"the least and the most, within {kind.low}..{kind.high}")
    return ArrayRange(name, low, high, fact.source.name)


def _refused(fact: ParameterFact, message: str, remedy: str) -> PtxwcetError:
    text = f"{fact.source.name}: {message}"
    return PtxwcetError(Diagnostic("PW214", text, fact.source.span, help=remedy))
