"""Logic, shifts and bit fields of the PTX ISA, from the manual's pseudo code."""

from __future__ import annotations

from collections.abc import Callable

from isa_types import S32, U32, Operation, Type, ones, signed

Words = tuple[str, ...]


def _logic(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    function: Callable[[int, int], int] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }[words[0]]
    return Operation((of, of), (of,), function)


def _not(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of,), (of,), lambda a: a ^ ones(of.bits))


def _cnot(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of,), (of,), lambda a: int(a == 0))


def _lop3(words: Words, types: list[Type], sources: int) -> Operation | None:
    if sources != 4:
        return None

    def function(a: int, b: int, c: int, table: int) -> int:
        found = 0
        for bit in range(32):
            row = ((a >> bit) & 1) * 4 + ((b >> bit) & 1) * 2 + ((c >> bit) & 1)
            found |= ((table >> row) & 1) << bit
        return found

    return Operation((U32, U32, U32, U32), (U32,), function)


def _shl(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    plain = Type("u", of.bits)
    return Operation((plain, U32), (of,), lambda a, b: a << b if b < of.bits else 0)


def _shr(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of, U32), (of,), lambda a, b: a >> min(b, of.bits))


def _shf(words: Words, types: list[Type], sources: int) -> Operation:
    """``shf.l`` gives the high word of the pair b:a shifted left, ``shf.r`` the low one."""
    wraps, left = "wrap" in words, "l" in words

    def function(a: int, b: int, c: int) -> int:
        n = c & 31 if wraps else min(c, 32)
        pair = (b << 32) | a
        return (pair << n) >> 32 if left else pair >> n

    return Operation((U32, U32, U32), (U32,), function)


def _popc(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of,), (U32,), lambda a: bin(a).count("1"))


def _clz(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of,), (U32,), lambda a: of.bits - a.bit_length())


def _bfind(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]

    def function(a: int) -> int:
        if of.kind == "s" and a < 0:
            a = ~a
        place = a.bit_length() - 1
        if place < 0:
            return ones(32)
        return of.bits - 1 - place if "shiftamt" in words else place

    return Operation((of,), (U32,), function)


def _brev(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    return Operation((of,), (of,), lambda a: int(format(a, f"0{of.bits}b")[::-1], 2))


def _fns(words: Words, types: list[Type], sources: int) -> Operation:
    def function(mask: int, base: int, offset: int) -> int:
        if offset == -(1 << 31):  # it has no magnitude: so do GPUs
            return 0
        if offset == 0:
            return base if base < 32 and (mask >> base) & 1 else ones(32)
        step = 1 if offset > 0 else -1
        place, left = base, abs(offset)
        while 0 <= place < 32:
            left -= (mask >> place) & 1
            if left == 0:
                return place
            place += step
        return ones(32)

    return Operation((U32, U32, S32), (U32,), function)


def _eight(number: int, bits: int) -> int:
    """Of places and lengths: ptxas' code for 64 bits reads them whole."""
    return number if bits == 64 else number & 255


def _bfe(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    top = of.bits - 1

    def function(a: int, b: int, c: int) -> int:
        raw, place, size = a & ones(of.bits), _eight(b, of.bits), _eight(c, of.bits)
        signless = of.kind == "u" or size == 0
        sign = 0 if signless else (raw >> min(place + size - 1, top)) & 1
        found = 0
        for i in range(of.bits):
            inside = i < size and place + i <= top
            found |= ((raw >> (place + i)) & 1 if inside else sign) << i
        return found

    return Operation((of, U32, U32), (of,), function)


def _bfi(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    top = of.bits - 1

    def function(a: int, b: int, c: int, d: int) -> int:
        place, size = _eight(c, of.bits), _eight(d, of.bits)
        found = b
        for i in range(min(size, of.bits)):
            if place + i > top:
                break
            bit = 1 << (place + i)
            found = (found & ~bit) | (bit if (a >> i) & 1 else 0)
        return found

    return Operation((of, of, U32, U32), (of,), function)


def _szext(words: Words, types: list[Type], sources: int) -> Operation:
    of = types[0]
    wraps = "wrap" in words

    def function(a: int, b: int) -> int:
        size = b & 31 if wraps else min(b, 32)
        if size == 0:
            return 0
        raw = a & ones(32)
        if size == 32:
            return raw
        return signed(raw, size) if of.kind == "s" else raw & ones(size)

    return Operation((of, U32), (of,), function)


def _bmsk(words: Words, types: list[Type], sources: int) -> Operation:
    wraps = "wrap" in words

    def function(a: int, b: int) -> int:
        place = a & 31 if wraps else min(a, 32)
        size = b & 31 if wraps else min(b, 32)
        return ones(size) << place

    return Operation((U32, U32), (U32,), function)


_PRMT_MODES = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}


def _prmt(words: Words, types: list[Type], sources: int) -> Operation:
    mode = next((word for word in words if word in _PRMT_MODES), None)

    def function(a: int, b: int, c: int) -> int:
        pool = [(((b << 32) | a) >> (8 * i)) & 255 for i in range(8)]
        if mode is not None:
            chosen = _PRMT_MODES[mode][c & 3]  # most significant byte first
            return sum(pool[source] << (8 * (3 - i)) for i, source in enumerate(chosen))
        found = 0
        for i in range(4):
            selector = (c >> (4 * i)) & 15
            byte = pool[selector & 7]
            if selector & 8:
                byte = 255 if byte & 128 else 0
            found |= byte << (8 * i)
        return found

    return Operation((U32, U32, U32), (U32,), function)


BITS = {
    **dict.fromkeys(("and", "or", "xor"), _logic),
    "not": _not,
    "cnot": _cnot,
    "lop3": _lop3,
    "shl": _shl,
    "shr": _shr,
    "shf": _shf,
    "popc": _popc,
    "clz": _clz,
    "bfind": _bfind,
    "brev": _brev,
    "fns": _fns,
    "bfe": _bfe,
    "bfi": _bfi,
    "szext": _szext,
    "bmsk": _bmsk,
    "prmt": _prmt,
}
