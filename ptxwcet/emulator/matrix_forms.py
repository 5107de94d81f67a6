"""Decides which forms of matrix instructions are executed, and decodes them.

The table has forms that the PTX ISA describes; all others are refused, among them some of the ISA
that nothing here computes (sparse matrices, block scales, formats of less than eight bits in floats
and in ``wmma``). A form is spelled with its modifiers in one order, because PTX lets kinds of
modifiers change places, but not two of a kind (``row.col``, ``.xor.popc``, the types of D, A, B and
C).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product

from ptxwcet.emulator.registers import Unsupported
from ptxwcet.emulator.rows import elements_of
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operands import Operand
from ptxwcet.support.records import dataclass

BITS = {
    "b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16,
    "tf32": 32, "f32": 32, "s32": 32, "f64": 64,
}  # fmt: skip
"""The bits of an element."""
_SHAPE = re.compile(r"m(\d+)n(\d+)(?:k(\d+))?\Z")
_LAYOUTS = ("row", "col")
_COUNTS = ("x1", "x2", "x4")
_KINDS = (
    ("sync",), ("aligned",), ("a", "b", "c", "d"), _LAYOUTS, (*BITS, "b16", "b8"), _COUNTS,
    ("trans",), ("global", "shared", "shared::cta"),
)  # fmt: skip
ROUNDINGS = ("rn", "rz", "rm", "rp")
"""The rounding modifiers of f64 products."""


@dataclass(frozen=True, slots=True)
class Form:
    """M, N and K (for a move M and N), layouts, types in order, and all modifiers."""

    shape: tuple[int, ...]
    layouts: tuple[str, ...]
    types: tuple[str, ...]
    words: frozenset[str]


@cache
def _kind(word: str) -> int:
    """Returns the place of a modifier's kind in a spelling: shapes first, unknown kinds last."""
    if _SHAPE.match(word):
        return -1
    return next((place for place, kind in enumerate(_KINDS) if word in kind), len(_KINDS))


def _spelling(words: Iterable[str]) -> str:
    return ".".join(sorted(words, key=_kind))


def _forms(*columns: str) -> Iterator[str]:
    """Yields the forms that take one alternative of each column; ``-`` is the empty word."""
    for chosen in product(*(column.split() for column in columns)):
        words = ".".join(word for word in chosen if word != "-")
        yield _spelling(("sync", "aligned", *words.split(".")))


def _types(sums: str, factors: str) -> str:
    """Returns types of products: D equals C, A and B in all combinations."""
    names = factors.split()
    return " ".join(f"{d}.{a}.{b}.{d}" for d in sums.split() for a in names for b in names)


_MIXES = "row.row row.col col.row col.col"
_TILES = "m16n16k16 m8n32k16 m32n8k16"
_PLACES = "- global shared shared::cta"
_ROUNDED = "- " + " ".join(ROUNDINGS)
_HALVES = "f16.f16.f16.f16 f32.f16.f16.f32 f32.bf16.bf16.f32"

_PRODUCTS = frozenset((
    *_forms("m16n8k8 m16n8k16", "row.col", _HALVES),
    *_forms("m16n8k4 m16n8k8", "row.col", "f32.tf32.tf32.f32"),
    *_forms("m16n8k16 m16n8k32", "row.col", _types("f16 f32", "e4m3 e5m2")),
    *_forms("m16n8k32", "row.col", _types("f16 f32", "e4m3 e5m2"), "kind::f8f6f4"),
    *_forms("m8n8k4 m16n8k4 m16n8k8 m16n8k16", "row.col", "f64.f64.f64.f64", _ROUNDED),
    *_forms("m8n8k16 m16n8k16 m16n8k32", "row.col", _types("s32", "s8 u8"), "- satfinite"),
    *_forms("m8n8k32 m16n8k32 m16n8k64", "row.col", _types("s32", "s4 u4"), "- satfinite"),
    *_forms("m8n8k128 m16n8k128 m16n8k256", "row.col", "s32.b1.b1.s32", "xor.popc and.popc"),
))  # fmt: skip
_EIGHT_BY_EIGHT = frozenset(
    _forms("m8n8", "b16", " ".join(_COUNTS), "- trans", "- shared shared::cta")
)
_SUMS = (
    (_TILES, "f16 f32 s32"),
    ("m16n16k8", "f32"),
    ("m8n8k4", "f64"),
)
_TILE_PRODUCTS = frozenset((
    *_forms(_TILES, _MIXES, "f16.f16 f16.f32 f32.f16 f32.f32 f32.bf16.bf16.f32"),
    *_forms(_TILES, _MIXES, "s32.s8.s8.s32 s32.u8.u8.s32", "- satfinite"),
    *_forms("m16n16k8", _MIXES, "f32.tf32.tf32.f32"),
    *_forms("m8n8k4", _MIXES, "f64.f64.f64.f64", _ROUNDED),
))  # fmt: skip

PERMITTED = {
    "mma": _PRODUCTS,
    "ldmatrix": frozenset((
        *_EIGHT_BY_EIGHT, *_forms("m16n16", "b8", "x1 x2", "trans", "- shared shared::cta")
    )),
    "stmatrix": _EIGHT_BY_EIGHT,
    "movmatrix": frozenset(_forms("m8n8", "b16", "trans")),
    "wmma.load": frozenset((
        *_forms("a b", _TILES, "row col", "f16 bf16 s8 u8", _PLACES),
        *_forms("a b", "m16n16k8", "row col", "tf32", _PLACES),
        *_forms("a b", "m8n8k4", "row col", "f64", _PLACES),
        *(form for tile, of in _SUMS for form in _forms("c", tile, "row col", of, _PLACES)),
    )),
    "wmma.store": frozenset(
        form for tile, of in _SUMS for form in _forms("d", tile, "row col", of, _PLACES)
    ),
    "wmma.mma": _TILE_PRODUCTS,
}  # fmt: skip
"""The forms of each opcode, spelled in one order."""


def form_of(instruction: Instruction) -> Form:
    """Decodes the modifiers. Raises Unsupported, with the modifier's name if only one is wrong."""
    opcode = instruction.opcode.name if instruction.opcode else ""
    words, permitted = instruction.modifiers, PERMITTED[opcode]
    if _spelling(words) not in permitted:
        for place, word in enumerate(words):
            if _spelling(words[:place] + words[place + 1 :]) in permitted:
                raise Unsupported(f"modifier .{word} here")
        raise Unsupported("these modifiers together")
    shape = next(match for match in map(_SHAPE.match, words) if match)
    return Form(
        tuple(int(size) for size in shape.groups() if size),
        tuple(word for word in words if word in _LAYOUTS),
        tuple(word for word in words if word in BITS),
        frozenset(words),
    )


def register_bits(name: str) -> int:
    """Returns the bits of a register that holds elements of a type."""
    return 64 if name == "f64" else 32


def registers_of(operand: Operand, count: int) -> tuple[Operand, ...]:
    """Returns the registers of a fragment. Raises Unsupported unless it is such a vector."""
    elements = elements_of(operand) or ()
    if len(elements) != count:
        raise Unsupported(f"a fragment that is no vector of {count}")
    return elements
