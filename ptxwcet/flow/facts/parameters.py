"""Values and ranges of scalar kernel parameters, from every source that states one.

Parameters are named by 0-based index (``3``), by PTX name (``k_param_3``) or by the CUDA name when
the source is at hand (:mod:`ptxwcet.flow.facts.cuda_loops`); words of an aggregate by its name and
how many bytes they lie behind its beginning (``2+36``), or as members of a struct (``grid.size.x``,
:mod:`ptxwcet.flow.facts.cuda_structs`). Every statement is checked against the kernel, and those of
several sources against one another.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from ptxwcet.flow.facts.stated import FactSource, ParameterFact, conflict
from ptxwcet.flow.launch import ArrayRange, TensorBox
from ptxwcet.flow.values.accesses import parameters_of
from ptxwcet.flow.values.integers import integer_type
from ptxwcet.ir.kernel import Kernel, Parameter
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import nearest


@dataclass(frozen=True, slots=True)
class Alignment:
    """A pointer is a multiple of so many bytes, a power of two."""

    bytes: int


@dataclass(frozen=True, slots=True)
class ArraySize:
    """A pointer leads to an array of so many bytes."""

    bytes: int


_FLOATS = {"f16": "<e", "f32": "<f"}
Stated = int | float | tuple[int, int] | Alignment | ArraySize | TensorBox
"""What is said of a parameter: its value, the least and largest that it may have, of what it is
a multiple, how large its array is, or which box its tensor map copies.
"""


@dataclass(frozen=True, slots=True)
class ResolvedParameters:
    """By PTX parameter name values, ranges, alignments of pointers and sizes of arrays in bytes; by
    where tensor maps lie their boxes.

    A parameter has one of them.
    """

    values: Mapping[str, int | float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    alignments: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    boxes: Mapping[str, TensorBox] = field(default_factory=dict)


_LONGEST_NUMBER = 200
_LONGEST_ALIGNMENT = 9
_ALIGN = "align"
ARRAY_SIZE = "bytes"
"""Before the colon of a stated size of an array."""
_BOX = "box"
_MAP_BYTES = 128
_MAP_UNIT = 16  # bytes of which a row of a box is a multiple
_MOST_IN_BOX = 256
_MOST_ARRAY_BYTES = 1 << 48
_POINTER_BYTES = 8


def parse_parameters(assignments: Sequence[str]) -> tuple[ParameterFact, ...]:
    """``["K=1024", "4=1..7"]``: what ``--param`` states. Raises PtxwcetError (PW213)."""
    facts = []
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not name.strip():
            raise PtxwcetError(
                Diagnostic(
                    "PW213",
                    f"--param {assignment!r} is not NAME=VALUE",
                    help="for example --param 3=1024, --param n=1..4096 for a range, or "
                    "--param p=align:16 for a pointer that is a multiple of 16 bytes",
                )
            )
        source = FactSource(f"--param {assignment}")
        facts.append(ParameterFact(name.strip(), text.strip(), source))
    return tuple(facts)


def resolve_parameters(
    kernel: Kernel, facts: Sequence[ParameterFact], cuda_names: Mapping[str, str] | None
) -> ResolvedParameters:
    """What all sources say about the kernel's parameters, checked against their types.

    ``cuda_names`` are the names of the CUDA source by PTX name, or None when it is not at hand. A
    value is taken if it lies in the ranges stated beside it, and ranges are intersected.
    Raises PtxwcetError (PW213 no such parameter, PW214 does not fit, PW215 two sources that
    contradict each other). Cost: linear.
    """
    merged: dict[str, tuple[Stated, FactSource]] = {}
    for fact in facts:
        is_box = str(fact.stated).partition(":")[0].strip() == _BOX
        found = place_in_parameter(kernel, fact.name, cuda_names) if is_box else None
        parameter = found or find_parameter(kernel, fact, cuda_names)
        stated = _box(kernel, parameter, fact, cuda_names) if is_box else _parse(parameter, fact)
        earlier = merged.get(parameter.name)
        if earlier is not None:
            both = _both(earlier[0], stated)
            if both is None:
                texts = (_shown(earlier[0]), earlier[1]), (_shown(stated), fact.source)
                raise PtxwcetError(conflict(f"parameter {fact.name}", *texts))
            stated = both
        merged[parameter.name] = stated, fact.source if earlier is None else earlier[1]
    _require_agreement(kernel, merged)
    values = [(name, value) for name, (value, _) in merged.items()]
    return ResolvedParameters(
        {name: value for name, value in values if isinstance(value, int | float)},
        {name: value for name, value in values if isinstance(value, tuple)},
        {name: value.bytes for name, value in values if isinstance(value, Alignment)},
        {name: value.bytes for name, value in values if isinstance(value, ArraySize)},
        {name: value for name, value in values if isinstance(value, TensorBox)},
    )


def is_said(stated: ResolvedParameters, word: Parameter, data: bytes) -> bool:
    """Whether a word of an aggregate whose bytes are given has its value, or one in its range."""
    if word.type[0] == "f":
        return data == _bytes_of(word, stated.values[word.name])
    value = stated.values.get(word.name, 0)
    low, high = stated.ranges.get(word.name, (value, value))
    readings = (int.from_bytes(data, "little", signed=signed) for signed in (False, True))
    return any(low <= one <= high for one in readings)


def _require_agreement(kernel: Kernel, merged: Mapping[str, tuple[Stated, FactSource]]) -> None:
    """Raises PtxwcetError (PW215) if words that lie over one another have values that differ."""
    words = {one.name: one for one in parameters_of(kernel)}
    held: dict[tuple[str, int], tuple[int, tuple[str, FactSource]]] = {}
    for name, (stated, source) in merged.items():
        whole, plus, offset = name.partition("+")
        if not plus or not isinstance(stated, int | float):
            continue
        said = _shown(stated), source
        for place, byte in enumerate(_bytes_of(words[name], stated), int(offset)):
            other, by = held.setdefault((whole, place), (byte, said))
            if other != byte:
                raise PtxwcetError(conflict(f"byte {place} of {whole}", by, said))


def _bytes_of(word: Parameter, value: int | float) -> bytes:
    """What lies in memory for a value that fits its type."""
    if isinstance(value, int) and word.type[0] != "f":
        return (value & (1 << 8 * word.size_bytes) - 1).to_bytes(word.size_bytes, "little")
    return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[word.type], value)


def _both(statement: Stated, other: Stated) -> Stated | None:
    """What follows from two statements about one parameter; None if they exclude each other.

    Of two alignments the larger one follows; a pointer of which one is stated has no value, nor
    has one whose array has a size, or that leads to a tensor map.
    """
    if isinstance(statement, ArraySize | TensorBox) or isinstance(other, ArraySize | TensorBox):
        return statement if statement == other else None
    if isinstance(statement, Alignment) or isinstance(other, Alignment):
        if isinstance(statement, Alignment) and isinstance(other, Alignment):
            return Alignment(max(statement.bytes, other.bytes))
        return None
    if isinstance(statement, tuple) and isinstance(other, tuple):
        low, high = max(statement[0], other[0]), min(statement[1], other[1])
        return None if low > high else low if low == high else (low, high)
    if isinstance(statement, tuple):
        statement, other = other, statement
    if isinstance(other, tuple):
        assert not isinstance(statement, tuple)
        return statement if other[0] <= statement <= other[1] else None
    return statement if statement == other else None


def _shown(stated: Stated) -> str:
    if isinstance(stated, Alignment):
        return f"{_ALIGN}:{stated.bytes}"
    if isinstance(stated, ArraySize):
        return f"{ARRAY_SIZE}:{stated.bytes}"
    if isinstance(stated, TensorBox):
        return f"{_BOX}:{stated}"
    return f"{stated[0]}..{stated[1]}" if isinstance(stated, tuple) else str(stated)


def parameter_named(
    kernel: Kernel, name: str, cuda_names: Mapping[str, str] | None
) -> Parameter | None:
    """The parameter, or word of one, of an index, of a PTX name or of a name in the CUDA source."""
    named = {one.name: one for one in parameters_of(kernel)}
    whole, plus, offset = name.partition("+")
    if re.fullmatch(r"[0-9]{1,9}", whole, re.ASCII) and int(whole) < len(kernel.parameters):
        whole = kernel.parameters[int(whole)].name
    elif whole not in named:
        meant = {one.partition("+")[0]: one for one in named if one.endswith("+0")}
        meant |= {own: name for name, own in reversed(tuple((cuda_names or {}).items()))}
        whole = meant.get(whole, whole)
    return named.get(whole + plus + offset.strip())


def find_parameter(
    kernel: Kernel, fact: ParameterFact, cuda_names: Mapping[str, str] | None
) -> Parameter:
    """The parameter that a fact speaks of, or word of one. Raises PtxwcetError (PW213) if there is
    none.
    """
    found = parameter_named(kernel, fact.name, cuda_names)
    if found is not None:
        return found
    called = cuda_names or {}
    described = [one.described(called.get(one.name)) for one in parameters_of(kernel)]
    raise PtxwcetError(
        Diagnostic(
            "PW213",
            f"kernel {kernel.readable} has no parameter {fact.name!r}",
            fact.source.span or kernel.span,
            notes=("its parameters: " + ("; ".join(described) or "none"),),
            help=f"{nearest(fact.name, called.values())}name a parameter by index or PTX name; by "
            "CUDA name when the .cu lies beside the .ptx or is given by --source",
        )
    )


def _refused(fact: ParameterFact, message: str, remedy: str) -> PtxwcetError:
    where = f"{fact.source.name}: " if fact.source.span is None else f"{fact.name}: "
    return PtxwcetError(Diagnostic("PW214", where + message, fact.source.span, help=remedy))


def _parse(parameter: Parameter, fact: ParameterFact) -> Stated:
    kind = parameter.type
    if parameter.is_array:
        message = f"{fact.name} is an aggregate"
        remedy = "give a member its value, for example size.width=64, or the word at an offset"
        raise _refused(fact, message, f"{remedy} in bytes, {fact.name}+4=64")
    if not isinstance(fact.stated, str):
        return _number(parameter, fact, fact.stated)
    prefix, separator, number = fact.stated.partition(":")
    if separator and prefix.strip() == _ALIGN:
        return _alignment(parameter, fact, number.strip())
    if separator and prefix.strip() == ARRAY_SIZE:
        return _array_size(parameter, fact, number.strip())
    low, separator, high = fact.stated.partition("..")
    if not separator:
        return _number(parameter, fact, fact.stated)
    if kind[0] == "f":
        raise _refused(fact, "a range is of integers", f"the type is .{kind}: give its value")
    ends = _number(parameter, fact, low.strip()), _number(parameter, fact, high.strip())
    least, most = int(ends[0]), int(ends[1])
    if least > most:
        raise _refused(fact, f"the range {fact.stated} is empty", "write LEAST..MOST")
    return least if least == most else (least, most)


def _alignment(parameter: Parameter, fact: ParameterFact, text: str) -> Alignment:
    """The stated alignment of a pointer, in bytes."""
    size = int(text) if text.isdecimal() and len(text) <= _LONGEST_ALIGNMENT else 0
    if size <= 0 or size & (size - 1):
        message = f"{text!r} is no power of two"
        raise _refused(fact, message, f"write {_ALIGN}:BYTES, for example {_ALIGN}:16")
    _require_pointer(parameter, fact)
    return Alignment(size)


def refuse_alignment(fact: ParameterFact) -> None:
    """Raises PtxwcetError (PW214) for an alignment, where accesses to memory are not counted."""
    prefix, separator, _ = str(fact.stated).partition(":")
    if separator and prefix.strip() == _ALIGN:
        message = "how a pointer is aligned says how many sectors accesses take: none are counted"
        raise _refused(fact, message, "leave it out here")


def _array_size(parameter: Parameter, fact: ParameterFact, text: str) -> ArraySize:
    """Of the array that a pointer leads to."""
    is_short = re.fullmatch(r"[0-9]{1,15}", text, re.ASCII)
    size = int(text) if is_short else 0
    if not 1 <= size <= _MOST_ARRAY_BYTES:
        message = f"{text!r} is no number of bytes"
        raise _refused(fact, message, f"write {ARRAY_SIZE}:BYTES, for example {ARRAY_SIZE}:4194304")
    _require_pointer(parameter, fact)
    return ArraySize(size)


_BOX_TEXT = re.compile(r"([0-9]{1,4}(?:x[0-9]{1,4}){0,4}):([0-9]{1,2})", re.ASCII)
_BOX_HELP = (
    "write box:64x128:2, the box of cuTensorMapEncodeTiled (innermost dimension first; 1 to 256 "
    "elements each, of the innermost a multiple of 16 bytes) and the bytes of an element"
)


def place_in_parameter(
    kernel: Kernel, name: str, cuda_names: Mapping[str, str] | None
) -> Parameter | None:
    """The place in an aggregate parameter at which a tensor map may lie, whether it is loaded or
    not: of a name as :func:`parameter_named` takes it, or with an offset.
    """
    whole, _, offset = name.partition("+")
    held = parameter_named(kernel, whole, cuda_names)
    if held is None or not held.is_array or not re.fullmatch(r"[0-9]{0,6}", offset.strip()):
        return None
    at = int(offset or 0)
    fits = at + _MAP_BYTES <= held.size_bytes
    return replace(held, name=f"{held.name}+{at}", size_bytes=_MAP_BYTES) if fits else None


def _box(
    kernel: Kernel,
    parameter: Parameter,
    fact: ParameterFact,
    cuda_names: Mapping[str, str] | None,
) -> TensorBox:
    """The box of a tensor map that a parameter is, has in it, or leads to."""
    _, _, text = str(fact.stated).partition(":")
    match = _BOX_TEXT.fullmatch(text.strip())
    dimensions = tuple(map(int, match[1].split("x"))) if match else ()
    box = TensorBox(dimensions, int(match[2]) if match else 0)
    if (
        box.element_bytes not in (1, 2, 4, 8)
        or not all(1 <= one <= _MOST_IN_BOX for one in dimensions)
        or box.row_bytes % _MAP_UNIT
    ):
        raise _refused(fact, f"{text.strip()!r} is no box of a tensor map", _BOX_HELP)
    if not parameter.is_array:
        _require_pointer(parameter, fact)
    # here: few kernels copy by tensor maps
    from ptxwcet.ir.mbarriers import tensor_maps_of

    maps = tensor_maps_of(kernel)
    if parameter.name not in maps:
        called = cuda_names or {}
        places = (one.removesuffix("+0").partition("+") for one in sorted(maps))
        known = [called.get(whole, whole) + plus + at for whole, plus, at in places]
        message = f"the kernel copies by no tensor map that is {fact.name}"
        raise _refused(fact, message, f"tensor maps of its copies: {', '.join(known) or 'none'}")
    return box


def _require_pointer(parameter: Parameter, fact: ParameterFact) -> None:
    if "+" in parameter.name:  # accesses through it are not followed
        message = f"{fact.name} is no parameter of its own"
        raise _refused(fact, message, "a member of a struct has values and ranges alone")
    if parameter.size_bytes != _POINTER_BYTES or parameter.type[0] == "f":
        message = f"{fact.name} is no pointer"
        raise _refused(fact, message, f"its type is .{parameter.type}")


def _number(parameter: Parameter, fact: ParameterFact, stated: str | int | float) -> int | float:
    """A value, checked against the type of its parameter."""
    kind, text = parameter.type, str(stated)
    if kind[0] == "f":
        try:
            number = float(stated)
            struct.pack(_FLOATS.get(kind, "<d"), number)
        except ValueError:
            raise _refused(fact, f"{text!r} is not a number", f"the type is .{kind}") from None
        except OverflowError:
            message = f"{text} is beyond the type .{kind} of {fact.name}"
            raise _refused(fact, message, "write inf for an infinite value") from None
        return number
    bits = int(kind[1:]) if kind[1:].isdigit() else 0
    if kind in _OF_BITS and isinstance(pattern := _pattern(kind, text), int):
        return pattern
    try:
        if len(text) > _LONGEST_NUMBER:  # Python neither reads nor prints numbers of any length
            raise ValueError(text)
        value = stated if isinstance(stated, int) else int(text, 0)
    except ValueError:
        raise _refused(fact, f"{text!r} is not an integer", f"the type is .{kind}") from None
    # .u32 holds C's int and unsigned alike: any value that fits either reading is meant
    if not bits or not -(1 << (bits - 1)) <= value < (1 << bits):
        message = f"{value} does not fit the type .{kind} of {fact.name}"
        raise _refused(fact, message, f"give a value of at most {bits} bits")
    return value


_OF_BITS = {"b32": "<f", "b64": "<d"}
"""Types that say nothing but a size: a number with a point is one of floating point."""
_POINTED = re.compile(r"[-+]?[0-9]{0,40}\.[0-9]{0,40}(?:[eE][-+]?[0-9]{1,4})?", re.ASCII)


def _pattern(kind: str, text: str) -> int | None:
    """The bits of a number with a point; None of anything else, and of what the type cannot hold.

    So written, it is meant as one of floating point.
    """
    if _POINTED.fullmatch(text) is None or not any(map(str.isdigit, text)):
        return None
    try:
        return int.from_bytes(struct.pack(_OF_BITS[kind], float(text)), "little")
    except OverflowError:
        return None


_FORM = re.compile(r"([us](?:8|16|32|64))\s+(-?[0-9]{1,20})\s*\.\.\s*(-?[0-9]{1,20})", re.ASCII)


def resolve_arrays(
    kernel: Kernel, facts: Sequence[ParameterFact], cuda_names: Mapping[str, str] | None
) -> Mapping[str, ArrayRange]:
    """What is said of the integers in arrays, by the PTX name of the pointer to them.

    Parameters are named as in :func:`~ptxwcet.flow.facts.parameters.resolve_parameters`. Raises
    PtxwcetError (PW213 no such parameter, PW214 no pointer or no such range, PW215 two different
    ranges). Cost: linear.
    """
    ranges: dict[str, tuple[ArrayRange, FactSource]] = {}
    for fact in facts:
        parameter = find_parameter(kernel, fact, cuda_names)
        is_own = not parameter.is_array and "+" not in parameter.name
        if not is_own or parameter.size_bytes != _POINTER_BYTES:
            message = f"{fact.name} is no pointer"
            raise _refused_array(fact, message, "only pointers of 64 bits lead to arrays")
        array_range = _parsed(fact)
        earlier, by = ranges.setdefault(parameter.name, (array_range, fact.source))
        if str(earlier) != str(array_range):
            texts = (str(earlier), by), (str(array_range), fact.source)
            raise PtxwcetError(conflict(f"the range of array {fact.name}", *texts))
    return {name: row for name, (row, _) in ranges.items()}


def _parsed(fact: ParameterFact) -> ArrayRange:
    match = _FORM.fullmatch(str(fact.stated).strip())
    if match is None:
        message = f"{str(fact.stated)!r} is no type and range"
        raise _refused_array(
            fact, message, 'write "s32 LEAST..MOST": a type of PTX, s or u, 8 to 64'
        )
    name, low, high = match[1], int(match[2]), int(match[3])
    kind = integer_type(name)
    assert kind is not None
    if not kind.low <= low <= high <= kind.high:
        message = f"{low}..{high} is no range of {name}"
        raise _refused_array(
            fact, message, f"the least and the most, within {kind.low}..{kind.high}"
        )
    return ArrayRange(name, low, high, fact.source.name)


def _refused_array(fact: ParameterFact, message: str, remedy: str) -> PtxwcetError:
    text = f"{fact.source.name}: {message}"
    return PtxwcetError(Diagnostic("PW214", text, fact.source.span, help=remedy))
