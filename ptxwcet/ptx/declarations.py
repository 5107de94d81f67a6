"""Lowers syntax trees of registers, variables, parameters and heads to the IR."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from lark import Token, Tree, UnexpectedInput

from ptxwcet.ir.kernel import Parameter, PerformanceDirective, RegisterDeclaration, Variable
from ptxwcet.ir.operands import Immediate
from ptxwcet.ir.operation import number_type, type_bytes
from ptxwcet.ptx.grammar import parse_rule, tokens
from ptxwcet.ptx.literals import (
    LITERAL,
    LiteralError,
    evaluate,
    fixed_immediate,
    immediate,
    integer_value,
    literal_of,
    negated,
)
from ptxwcet.ptx.scopes import FUNCTION, VARIABLE, Scope
from ptxwcet.ptx.statements import canonical
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_MOST_REGISTERS = 1 << 28
MOST_NAMES = 1 << 16
"""The limit of names of one range of variables or vector registers, ``name<n>``."""

_RANGE = re.compile(r"<([^>]*)>;\Z")

_NUMBER = (
    r"\s*+-?(?:0[xX][0-9A-Fa-f]++|0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}|[1-9][0-9]*+|0)U?+"
    r"(?![\w.$])\s*+"
)
_TOO_DEEP = re.compile(r"\{(?:\s*\{){15}")
_FLAT_LIST = re.compile(rf"(?<=\{{)((?:{_NUMBER},)++)(?={_NUMBER}\}})", re.ASCII)


def shorten_lists(text: str) -> str:
    """Returns the text with flat lists of literals blanked up to their last element.

    Offsets are kept. A list of n literals has the syntax of a list of one: Lark need not read
    tables of megabytes. Raises LiteralError for lists nested deeper than any array.
    """
    if _TOO_DEEP.search(text):
        raise LiteralError("initialiser lists nested more than 15 deep")
    return _FLAT_LIST.sub(lambda match: " " * len(match.group()), text)


@dataclass(frozen=True, slots=True)
class Declared:
    """A name with the offsets of its token in the declaration's text."""

    name: str
    start: int
    end: int


def parts_of(tree: Tree[Token]) -> tuple[dict[str, Token], dict[str, list[Tree[Token]]]]:
    """Returns the children of a tree: tokens by terminal, trees by rule in their order."""
    words: dict[str, Token] = {}
    trees: dict[str, list[Tree[Token]]] = {}
    for child in tree.children:
        if isinstance(child, Token):
            words[child.type] = child
        else:
            trees.setdefault(str(child.data), []).append(child)
    return words, trees


def _type_of(
    words: dict[str, Token], trees: dict[str, list[Tree[Token]]]
) -> tuple[str, int, list[int]]:
    """Returns a declaration's type, elements of its vector (1: a scalar), and its alignments."""
    alignments = [_alignment(align) for align in trees.get("align", ())]
    name = words.get("TYPE") or words["PACKED"]
    return name[1:], int(words["VECTOR"][2:]) if "VECTOR" in words else 1, alignments


def linkage_of(trees: dict[str, list[Tree[Token]]]) -> str:
    """Returns the linkage in a declaration, without its dot; empty if absent."""
    return tokens(trees["linkage"][0])[0][1:] if "linkage" in trees else ""


def lower_registers(tree: Tree[Token]) -> list[tuple[RegisterDeclaration, Declared]]:
    """Returns the registers of a ``.reg`` directive, one entry per declarator."""
    words, trees = parts_of(tree)
    kind, vector, _ = _type_of(words, trees)
    _check_vector(kind, vector)
    registers: list[tuple[RegisterDeclaration, Declared]] = []
    for name, *count in map(tokens, trees["register"]):
        number = integer_value(count[0]) if count else None
        if number is not None and number > _MOST_REGISTERS:
            raise LiteralError(f"{number} registers: ptxas has no memory for so many")
        declaration = RegisterDeclaration(str(name), kind, vector if vector > 1 else 0, number)
        registers.append((declaration, declared(name)))
    return registers


def lower_variables(tree: Tree[Token], text: str) -> list[tuple[Variable, Declared]]:
    """Returns the variables of a declaration, one entry per declarator; ``text`` is its text.

    ``name<n>`` is one entry with the size of all of them: :func:`names_of` returns their names.
    Sizes are in bytes. Names are as spelled: the caller makes them unique.
    """
    words, trees = parts_of(tree)
    kind, vector, alignments = _type_of(words, trees)
    _check_vector(kind, vector)
    unit = type_bytes(kind) * vector
    alignment = alignments[-1] if alignments else unit
    common = Variable("", words["SPACE"][1:], kind, unit, alignment, linkage_of(trees), "")
    declarators = trees["declarator"]
    each = zip(declarators, _split(declarators, text), strict=True)
    return [_variable(declarator, own, common) for declarator, own in each]


_MOST = 1 << 32
"""The exclusive upper limit of numbers in directives."""


def _alignment(tree: Tree[Token]) -> int:
    value = integer_value(tokens(tree)[0])
    if not 0 < value < _MOST or value & (value - 1):
        raise LiteralError("an alignment is a power of two")
    return value


def _check_vector(name: str, vector: int) -> None:
    """Raises LiteralError if no vector has this type and size (``vector`` below 2: a scalar)."""
    if vector < 2:
        return
    if name == "pred" or vector == 8 or type_bytes(name) * vector > 16:
        raise LiteralError(f"there is no vector of {vector} times .{name}")


def _split(declarators: Sequence[Tree[Token]], text: str) -> list[str]:
    """Returns the canonical text of each declarator as a declaration of its own."""
    starts = [_start(tokens(declarator)[0]) for declarator in declarators]
    prefix = canonical(text[: starts[0]])
    ends = [*starts[1:], len(text)]
    texts = []
    for start, end in zip(starts, ends, strict=True):
        texts.append(f"{prefix} {canonical(text[start:end]).rstrip(',; ')};")
    return texts


def _variable(declarator: Tree[Token], text: str, common: Variable) -> tuple[Variable, Declared]:
    name = tokens(declarator)[0]
    sizes: list[int | None] = []
    initial: Tree[Token] | Token | None = None
    for child in declarator.children[1:]:
        if isinstance(child, Tree) and child.data == "range":
            sizes = [integer_value(tokens(child)[0])]
        elif isinstance(child, Tree) and child.data == "dimensions":
            sizes = _dimensions(child)
        else:
            initial = child
    elements = _list_length(initial, text)
    if sizes and sizes[0] is not None and elements > sizes[0]:
        raise LiteralError(f"'{name}' has {sizes[0]} elements, {elements} are given")
    count = math.prod(elements if size is None else size for size in sizes)
    variable = replace(
        common,
        name=str(name),
        size_bytes=common.size_bytes * count,
        declaration=text,
        initial=initial_bytes if "=" in text else None,
    )
    return variable, declared(name)


def _dimensions(tree: Tree[Token]) -> list[int | None]:
    """Returns array sizes in order; an empty pair of brackets is None."""
    sizes: list[int | None] = []
    for dimension in tree.children:
        size = tokens(dimension)
        sizes.append(integer_value(size[0]) if size else None)
    return sizes


def _list_length(initial: Tree[Token] | Token | None, text: str) -> int:
    """Returns the length of the outermost initialiser list; 0 for an unsized array without one."""
    flat = _FLAT_LIST.search(text)
    if flat is not None and text[: flat.start()].count("{") == 1:
        return flat.group(1).count(",") + 1
    return len(initial.children) if isinstance(initial, Tree) else 0


def names_of(variable: Variable) -> list[str]:
    """Returns the names that a variable declares: its own, or ``name0`` to ``name(n-1)``."""
    match = _RANGE.search(variable.declaration)
    if match is None:
        return [variable.name]
    count = min(integer_value(match.group(1)), MOST_NAMES)
    return [f"{variable.name}{number}" for number in range(count)]


HANDLES = frozenset(("texref", "samplerref", "surfref"))


def space_of(variable: Variable) -> str:
    """Returns the state space of a variable, or the kind of a handle such as ``texref``."""
    if variable.type in HANDLES:
        return variable.type
    return "texref" if variable.space == "tex" else variable.space.partition("[")[0]


_VECTOR = re.compile(r"\.v[248]\b")


def _is_packed(kind: str, head: str) -> bool:
    """Returns whether a ``.param`` variable is a vector or .f16x2, permitted only for arrays."""
    return "[" not in head and (kind == "f16x2" or _VECTOR.search(head) is not None)


def parameter_refusal(parameter: Parameter, *, has_body: bool) -> str:
    """Returns why ptxas would not take a parameter of a function; empty if it would."""
    kind = parameter.type
    is_unfit = kind == "pred" or _is_packed(kind, parameter.declaration)
    if has_body and parameter.space == "param" and is_unfit:
        return f"a parameter here cannot be .{kind}"
    if kind in _PACKED and has_body:
        return f".{kind} is the type of a parameter in a prototype alone"
    return ""


def is_passed(parameter: Parameter) -> bool:
    """Returns whether a call can pass it: ptxas's ABI passes no small numbers or predicates."""
    is_vector = parameter.is_array or _VECTOR.search(parameter.declaration) is not None
    return is_vector or parameter.type not in ("pred", "u8", "s8", "u16", "s16")


_PACKED = frozenset(("u16x2", "s16x2", "f32x2"))


def unfit_addresses(variable: Variable, module: Scope) -> str | None:
    """Returns why names in an initialiser are not addresses that fit, or None."""
    mark, text = variable.declaration.partition("=")[1:]
    names = [name for name in _NAMES.findall(text) if name not in ("generic", "WARP_SZ")]
    if not mark or variable.type in HANDLES or not names:
        return None
    for name in names:
        kind = module.kind(name)[0]
        space = module.function.spaces.get(name, "")
        if kind not in (VARIABLE, FUNCTION) or space == "shared":
            return f"'{name}' is no variable or function above whose address is known"
    if variable.type not in ("u32", "u64") and not (variable.type == "u8" and _MASKED.search(text)):
        return f"a .{variable.type} value is no address"
    return None


_MASKED = re.compile(r"\b[0-9]\w* ?\(")
_NAMES = re.compile(r"(?<![\w$%.])[A-Za-z_$%][\w$]*", re.ASCII)


def refusal(variable: Variable) -> str | None:
    """Returns why ptxas would reject a variable of a body or module, or None."""
    head, mark, initial = variable.declaration.partition("=")
    is_initialised = mark != ""
    sizes = "[" in head.rpartition("] .")[2]
    if variable.type in HANDLES and variable.space != "global":
        return f"a .{variable.type} is .global"
    if variable.type == "pred" or (variable.space == "param" and _is_packed(variable.type, head)):
        return f"a variable of .{variable.space} cannot be .{variable.type}"
    if ".attribute(.managed" in head and variable.space != "global":
        return "a .managed variable is .global"
    if is_initialised and variable.linkage == "extern":
        return f"the .extern variable '{variable.name}' cannot be initialised"
    if variable.linkage == "common" and variable.space != "global":
        return "a .common variable is .global"
    if sizes and "[]" not in head and not variable.size_bytes and variable.linkage != "extern":
        return f"the array '{variable.name}' has no elements"
    is_list, is_vector = initial.lstrip().startswith("{"), _VECTOR.search(head) is not None
    if is_initialised and not is_list and sizes:
        return f"the array '{variable.name}' is initialised by a list in braces"
    if is_list and not sizes and not is_vector and variable.type not in HANDLES:
        return f"'{variable.name}' is no array: it is initialised by one value"
    if is_initialised and variable.space not in ("global", "const"):
        return f"a .{variable.space} variable cannot be initialised"
    if "[]" in variable.declaration and not is_initialised and variable.linkage != "extern":
        return f"'{variable.name}' has no size; only .extern variables may omit it"
    return None


def lower_parameter(tree: Tree[Token], text: str, index: int) -> tuple[Parameter, Declared]:
    """Returns a parameter of a function head; offsets of the tree refer to ``text``."""
    words, trees = parts_of(tree)
    kind, vector, alignments = _type_of(words, trees)
    sizes = _dimensions(trees["dimensions"][0]) if "dimensions" in trees else []
    is_pointer = True if "pointer" in trees else None
    name = words["NAME"] if "NAME" in words else words["SINK"]
    start, end = _parameter_extent(tree, name, text)
    unit = type_bytes(kind) * vector
    count = math.prod(size or 0 for size in sizes)
    return Parameter(
        name=str(name),
        type=kind,
        size_bytes=unit * count,
        alignment=alignments[0] if alignments and not is_pointer else unit,
        index=index,
        count=count,
        is_array=bool(sizes),
        is_pointer=is_pointer,
        space=tokens(trees["param_space"][0])[0][1:],
        declaration=canonical(text[start:end]),
    ), declared(name)


def _parameter_extent(tree: Tree[Token], name: Token, text: str) -> tuple[int, int]:
    """Returns the extent of a parameter: from its state space to the comma or parenthesis."""
    start = text.rfind(".", 0, _start(tokens(tree)[0]) + 1)
    match = re.compile(r"[,)]").search(text, _start(name))
    return start, match.start() if match else len(text)


_FROM_ZERO = frozenset((".reqnctapercluster", ".maxclusterrank"))


def lower_performance(tree: Tree[Token]) -> PerformanceDirective:
    """Returns one performance directive of an entry, ``.pragma`` included."""
    first, *rest = tokens(tree)
    if first.type == "STRING":
        text = ".pragma " + ", ".join(str(token) for token in (first, *rest)) + ";"
        return PerformanceDirective(".pragma", (), text)
    values = tuple(integer_value(token) for token in rest)
    if any(not (first in _FROM_ZERO or value > 0) or value >= _MOST for value in values):
        raise LiteralError(f"{first} takes positive numbers below 2^32")
    text = f"{first} {', '.join(map(str, values))}".rstrip()
    return PerformanceDirective(str(first), values, text)


def _start(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def declared(token: Token) -> Declared:
    """Returns the name of a token, with its place."""
    return Declared(str(token), _start(token), _start(token) + len(token))


# --- The initial contents of a module's variable: its initialiser as bytes ------------------------


_DIMENSIONS = re.compile(r"(?:\[\w*\])+\Z", re.ASCII)


def initial_bytes(variable: Variable) -> bytes:
    """Returns the bytes of a variable that has an initialiser.

    Raises PtxwcetError (PW413) for initialisers with names, and for incomplete rows before others:
    ptxas appends the next row directly, C would fill them up. Cost: linear.
    """
    declared, _, text = variable.declaration.partition("=")
    try:
        data = _filled(variable, _row_sizes(variable, declared.rstrip()), text.rstrip("; \n"))
    except LiteralError as problem:
        message = f"the initialiser of {variable.name}: {problem}"
        help_text = f"give the bytes of {variable.name} in the launch file"
        raise PtxwcetError(Diagnostic("PW413", message, help=help_text)) from None
    return data.ljust(variable.size_bytes, b"\0")


def _row_sizes(variable: Variable, declared: str) -> list[int]:
    """Returns the bytes of each pair of braces, from the outermost to the innermost."""
    if (number := number_type(variable.type)) is None or number.count > 1:
        raise LiteralError(f"type .{variable.type}")
    unit = type_bytes(variable.type)
    sizes = [unit * int(width) for width in re.findall(r"\.v([248])\b", declared)]
    brackets = _DIMENSIONS.search(declared)
    for size in [] if brackets is None else brackets.group()[1:-1].split("][")[::-1]:
        inner = sizes[-1] if sizes else unit
        sizes.append(inner * integer_value(size) if size else variable.size_bytes)
    return sizes[::-1]


def _filled(variable: Variable, sizes: list[int], text: str) -> bytes:
    data, starts = bytearray(), list[int]()
    is_short = False
    for piece in re.findall(r"[{}]|[^{},]+", text):
        if piece == "{":
            starts.append(len(data))
            if len(starts) > len(sizes):
                raise LiteralError("more braces than dimensions")
        elif piece == "}":
            is_short |= len(data) < starts[-1] + sizes[len(starts) - 1]
            starts.pop()
        elif piece.strip():
            if is_short:
                raise LiteralError("rows before others are not full")
            if len(starts) != len(sizes):
                raise LiteralError("a value where a row is expected")
            data += _value_bytes(_constant(piece), variable.type)
    if len(data) > variable.size_bytes:
        raise LiteralError("more values than elements")
    return bytes(data)


def _value_bytes(value: Immediate, kind: str) -> bytes:
    """Returns a value as bytes of a type. Raises LiteralError if ptxas rejects it."""
    number, size = value.value, type_bytes(kind)
    if isinstance(number, int) and kind[0] != "f":
        return (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    is_single = value.text.lstrip("-")[:2].lower() == "0f"
    fits = kind in ("f32", "b32") or (kind in ("f64", "b64") and not is_single)
    if isinstance(number, int) or not fits:
        raise LiteralError(f"{value.text} is no value of .{kind}")
    return _float_bytes(number, value.text, size)


def _float_bytes(number: float, text: str, size: int) -> bytes:
    """Returns a float in a format of ``size`` bytes; ``0f`` and ``0d`` keep their bits."""
    spelled = text.lstrip("-").lower()
    given = {"0f": 4, "0d": 8}.get(spelled[:2])
    if given is not None:
        bits = int(spelled[2:], 16) ^ (text[0] == "-") << 8 * given - 1
        data = bits.to_bytes(given, "little")
        if given == size:
            return data
        (number,) = struct.unpack("<d", data)
    try:
        return struct.pack("<f" if size == 4 else "<d", number)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, number))


@lru_cache(maxsize=4096)
def _constant(text: str) -> Immediate:
    """Returns the value of a constant expression. Raises LiteralError if undefined or with names.

    Cost: a microsecond for a literal, one run of Lark otherwise.
    """
    match = LITERAL.fullmatch(text.strip())
    if match is not None and match.lastgroup is not None:
        return immediate(match.lastgroup, match.group())
    try:
        (node,) = parse_rule(text, "operands").children
    except (UnexpectedInput, ValueError):
        raise LiteralError(f"{text.strip()[:40]} is no number") from None
    if any(token.type in ("NAME", "SINK") for token in tokens(node)):
        raise LiteralError(f"{text.strip()[:40]} is an address, which a GPU decides")
    token, negative = literal_of(node)
    if token is None:
        return fixed_immediate(evaluate(node))
    value = immediate(token.type, token)
    return negated(value) if negative else value
