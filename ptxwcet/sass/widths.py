"""Counts the registers of 32 bits of an instruction's operands, by its modifiers."""

from __future__ import annotations

_PAIRS = frozenset(("DADD", "DMUL", "DFMA", "DSETP", "LEPC"))
_LOADS = ("LDG", "LD", "LDS", "LDL", "LDC", "ULDC")
_OTHERS = ("STG", "ST", "STS", "STL", "ATOMS", "ATOMG", "ATOM", "RED", "REDG")
_DOUBLES = frozenset(("64", "F64", "S64", "U64"))
# result, two factors, addend, of matrix products, by the first modifier
_HALVES = {"16816": (4, 4, 2, 4), "1688": (4, 2, 1, 4)}
_INTEGERS = {"16816": (4, 2, 1, 4), "16832": (4, 4, 2, 4), "8816": (2, 1, 1, 2)}
_TENSOR_FLOATS = {"1688": (4, 4, 2, 4), "1684": (4, 2, 1, 4)}


def register_counts(name: str, words: list[str]) -> tuple[int, ...] | None:
    """Returns counts for all operands but predicates, in order; the last applies to the rest.

    ``words`` follow the name. None where they leave it open.
    """
    modifiers = frozenset(words)
    if name == "F2F":
        floats = [kind for kind in words if kind in ("F16", "F32", "F64", "BF16")]
        counts = tuple(1 + (kind == "F64") for kind in floats)
        return counts if len(counts) == 2 else None
    if name in ("HMMA", "IMMA", "BMMA", "DMMA"):
        return _matrix(name, modifiers)
    if name in _LOADS or name in _OTHERS:
        count = 4 if "128" in modifiers else 2 if modifiers & _DOUBLES else 1
        return (count, 1) if name in ("LDC", "ULDC") else (count,)
    if name in ("LDSM", "STSM"):
        return (4 if "4" in modifiers else 2 if "2" in modifiers else 1,)
    if name in ("IMAD", "UIMAD") and modifiers & {"WIDE", "HI"}:
        return 1 + ("WIDE" in modifiers), 1, 1, 2
    if name in _PAIRS or (name == "UIADD3" and "64" in modifiers):
        return (2,)
    if name == "MATCH":
        return 1, 2 if "U64" in modifiers else 1
    if name == "CS2R":
        return (1,) if "32" in modifiers else (2,)
    is_double, is_long = "F64" in modifiers, bool(modifiers & {"S64", "U64"})
    return {
        "FRND": (1 + is_double, 1 + is_double),
        "F2I": (1 + is_long, 1 + is_double),
        "I2F": (1 + is_double, 1 + is_long),
    }.get(name, (1,))


def _matrix(name: str, modifiers: frozenset[str]) -> tuple[int, ...] | None:
    shape = next((word for word in modifiers if word[0].isdigit()), "")
    if name == "DMMA":
        return (4, 2, 2, 4) if shape in ("884", "8x8x4") else None
    if name == "BMMA":
        return (4, 4, 2, 4) if shape == "168256" else None
    if name == "IMMA":
        return _INTEGERS.get(shape)
    if "TF32" in modifiers:
        return _TENSOR_FLOATS.get(shape)
    counts = _HALVES.get(shape)
    if counts is None or "F32" in modifiers:
        return counts
    return (2, *counts[1:3], 2) if "F16" in modifiers else None


def has_wide_addresses(words: list[str]) -> bool:
    """Returns whether registers in the brackets of a mnemonic hold addresses of 64 bits."""
    return "E" in words[1:]
