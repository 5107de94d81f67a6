"""A machine for one warp of decoded PTX, compiled: millions of basic blocks a run.

A second opinion on what the instructions of integers and predicates compute, written from the PTX
ISA manual apart from the interpreter (``isa_interpreter``), the emulator and the analysis. It runs
tables of numbers, which :mod:`fast_program` makes of a kernel. Lanes that part wait on a stack of
masks and meet at the nearest block on all ways to the end.

Registers are 64 bits a lane, as ``int64``; narrower ones have zeros above. Nothing that is stored
is kept: each load gives a number that :func:`drawn` makes of seed, place and time, as if another
block had just written it. A run stops where the ISA leaves open what a lane gets.
"""

from __future__ import annotations

from enum import IntEnum

import numba
import numpy as np


class Code(IntEnum):
    """What a micro-operation does; all but the last ones are functions of up to four numbers."""

    MOV = 0
    ADD = 1
    SUB = 2
    MUL = 3
    MUL_HI = 4
    DIV = 5
    REM = 6
    MIN = 7
    MAX = 8
    ABS = 9
    NEG = 10
    AND = 11
    OR = 12
    XOR = 13
    NOT = 14
    CNOT = 15
    LOP3 = 16
    SHL = 17
    SHR = 18
    SHF_L = 19
    SHF_R = 20
    POPC = 21
    CLZ = 22
    BFIND = 23
    BREV = 24
    BFE = 25
    BFI = 26
    SZEXT = 27
    BMSK = 28
    PRMT = 29
    SAD = 30
    DP4A = 31
    COMPARE = 32
    SELP = 33
    SLCT = 34
    SAT = 35
    ADD_SAT = 36
    SUB_SAT = 37
    MUL24 = 38
    ADD_X2 = 39
    MIN_X2 = 40
    MAX_X2 = 41
    PACK = 42
    PART = 43
    CARRY_OF_SUM = 44
    CARRY_OF_DIFFERENCE = 45
    EXTREME = 46  # the last of those that are functions
    LOAD = 50
    ACTIVE = 51
    SHUFFLE = 52
    VOTE = 53
    MATCH = 54
    REDUX = 55
    BARRIER = 56
    REDUCE = 57


COLUMNS = (
    *("code", "guard", "wanted", "to", "a", "b", "c", "d"),
    *("bits", "signed", "result_bits", "result_signed", "width", "extra", "instruction", "also"),
)
"""Of a micro-operation. Places of registers, -1 for none; ``bits`` and ``signed`` are the type in
which the first three sources are read; the result is extended or cut to ``width``. ``also`` is the
predicate that an exchange writes beside its result."""

END, LIMIT, OPEN = range(3)
"""How a run ends: at its end, after as many blocks as it may execute, where the ISA says no more
(a division by zero, lanes that are waited for elsewhere, a barrier without some)."""

FALLS, JUMPS, CHOOSES, LEAVES = range(4)
"""How a block ends."""

_MINIMUM = np.int64(-(2**63))


@numba.njit(cache=True, inline="never")
def _right(x, n):
    """Shifts zeros in."""
    return np.int64(np.uint64(x) >> np.uint64(n))


@numba.njit(cache=True, inline="never")
def _cut(x, bits):
    if bits >= 64:
        return x
    return x & ((np.int64(1) << np.int64(bits)) - np.int64(1))


@numba.njit(cache=True, inline="never")
def _signed(x, bits):
    if bits >= 64:
        return x
    n = np.int64(64 - bits)
    return (x << n) >> n


@numba.njit(cache=True, inline="never")
def _below(x, y, signed):
    if signed:
        return x < y
    return (x ^ _MINIMUM) < (y ^ _MINIMUM)


@numba.njit(cache=True, inline="never")
def _ones_of(x):
    n = np.int64(0)
    while x != 0:
        x &= x - np.int64(1)
        n += 1
    return n


@numba.njit(cache=True, inline="never")
def _high_place(x):
    """The place of the highest bit that is set, -1 if none is."""
    n = np.int64(-1)
    while x != 0:
        x = _right(x, 1)
        n += 1
    return n


@numba.njit(cache=True, inline="never")
def _high_word(x, y, signed):
    """The upper 64 bits of a product of 128."""
    low = np.int64(0xFFFFFFFF)
    x0, x1 = x & low, _right(x, 32)
    y0, y1 = y & low, _right(y, 32)
    middle = x1 * y0 + _right(x0 * y0, 32)
    other = x0 * y1 + (middle & low)
    found = x1 * y1 + _right(middle, 32) + _right(other, 32)
    if signed:
        if x < 0:
            found -= y
        if y < 0:
            found -= x
    return found


@numba.njit(cache=True, inline="never")
def _saturated(x, bits, signed):
    """The nearest number of a type with fewer than 64 bits, or the number itself."""
    if signed:
        most = (np.int64(1) << np.int64(bits - 1)) - np.int64(1)
        return min(max(x, -most - np.int64(1)), most)
    return min(max(x, np.int64(0)), _cut(np.int64(-1), bits))


@numba.njit(cache=True, inline="never")
def _extracted(x, place, size, bits, signed):
    """``bfe``: a field, with the sign of its top bit or of the word's if it goes beyond."""
    found = np.int64(0)
    sign = np.int64(0)
    if signed and size > 0:
        sign = _right(x, min(place + size - 1, bits - 1)) & np.int64(1)
    for i in range(bits):
        bit = sign
        if i < size and place + i < bits:
            bit = _right(x, place + i) & np.int64(1)
        found |= bit << np.int64(i)
    return found


@numba.njit(cache=True, inline="never")
def _permuted(a, b, selectors):
    found = np.int64(0)
    for i in range(4):
        selector = _right(selectors, 4 * i) & np.int64(15)
        word = b if selector & 4 else a
        byte = _right(word, 8 * (selector & 3)) & np.int64(255)
        if selector & 8:
            byte = np.int64(255) if byte & 128 else np.int64(0)
        found |= byte << np.int64(8 * i)
    return found


@numba.njit(cache=True, inline="never")
def _compared(x, y, relation, signed):
    """Relations: eq, ne, lt, le, gt, ge as 0 to 5."""
    if relation == 0:
        return x == y
    if relation == 1:
        return x != y
    if relation == 2:
        return _below(x, y, signed)
    if relation == 3:
        return not _below(y, x, signed)
    if relation == 4:
        return _below(y, x, signed)
    return not _below(x, y, signed)


@numba.njit(cache=True, inline="never")
def computed(code, bits, signed, extra, a, b, c, d):
    """What a micro-operation computes of the raw bits of its sources; any bits above its type."""
    x, y, z = _cut(a, bits), _cut(b, bits), _cut(c, bits)
    if signed:
        x, y, z = _signed(x, bits), _signed(y, bits), _signed(z, bits)
    if code == 0:
        return x
    if code == 1:
        return x + y + z  # the third is a carry, or 0
    if code == 2:
        return x - y - z
    if code == 3:
        return x * y
    if code == 4:
        if bits == 64:
            return _high_word(x, y, signed)
        if signed:
            return (x * y) >> np.int64(bits)
        return _right(x * y, bits)
    if code == 5 or code == 6:
        if y == 0:
            return np.int64(0)
        if signed and y == -1:
            return -x if code == 5 else np.int64(0)
        if signed:
            if x == _MINIMUM or y == _MINIMUM:
                quotient = _quotient_at_edges(x, y)
            else:
                quotient = abs(x) // abs(y)
                if (x < 0) != (y < 0):
                    quotient = -quotient
        else:
            quotient = np.int64(np.uint64(x) // np.uint64(y))
        return quotient if code == 5 else x - quotient * y
    if code == 7:
        return x if _below(x, y, signed) else y
    if code == 8:
        return y if _below(x, y, signed) else x
    if code == 9:
        return -x if x < 0 else x
    if code == 10:
        return -x
    if code == 11:
        return x & y
    if code == 12:
        return x | y
    if code == 13:
        return x ^ y
    if code == 14:
        return ~x
    if code == 15:
        return np.int64(x == 0)
    if code == 16:
        found = np.int64(0)
        for row in range(8):
            if (d >> np.int64(row)) & 1:
                p = x if row & 4 else ~x
                q = y if row & 2 else ~y
                r = z if row & 1 else ~z
                found |= p & q & r
        return found
    if code == 17:
        n = _cut(b, 32)
        return np.int64(0) if n >= bits else x << n
    if code == 18:
        n = min(_cut(b, 32), np.int64(bits))
        if signed:
            return x >> min(n, np.int64(63))
        return np.int64(0) if n >= 64 else _right(x, n)
    if code == 19 or code == 20:
        n = _cut(c, 32)
        n = n & np.int64(31) if extra else min(n, np.int64(32))
        pair = (y << np.int64(32)) | x
        if code == 20:
            return _right(pair, n)
        return y if n == 0 else x if n == 32 else _right(pair << n, 32)
    if code == 21:
        return _ones_of(x)
    if code == 22:
        return np.int64(bits) - np.int64(1) - _high_place(x)
    if code == 23:
        word = _cut(~x, bits) if signed and x < 0 else x
        place = _high_place(word)
        return np.int64(bits) - np.int64(1) - place if extra and place >= 0 else place
    if code == 24:
        found = np.int64(0)
        for i in range(bits):
            found |= (_right(x, i) & np.int64(1)) << np.int64(bits - 1 - i)
        return found
    if code == 25:
        return _extracted(_cut(a, bits), b & np.int64(255), c & np.int64(255), bits, signed)
    if code == 26:
        found, place, size = y, c & np.int64(255), d & np.int64(255)
        for i in range(bits):
            if i < size and place + i < bits:
                bit = np.int64(1) << (place + np.int64(i))
                found = found | bit if _right(x, i) & 1 else found & ~bit
        return found
    if code == 27:
        n = _cut(b, 32)
        n = n & np.int64(31) if extra else min(n, np.int64(32))
        if n == 0:
            return np.int64(0)
        return _signed(x, n) if signed else _cut(x, n)
    if code == 28:
        place, size = _cut(a, 32), _cut(b, 32)
        if extra:
            place, size = place & np.int64(31), size & np.int64(31)
        place, size = min(place, np.int64(32)), min(size, np.int64(32))
        return ((np.int64(1) << size) - np.int64(1)) << place
    if code == 29:
        return _permuted(x, y, z)
    if code == 30:
        return z + (y - x if _below(x, y, signed) else x - y)
    if code == 31:
        found = c
        for i in range(4):
            p = _right(a, 8 * i) & np.int64(255)
            q = _right(b, 8 * i) & np.int64(255)
            p = _signed(p, 8) if extra & 1 else p
            q = _signed(q, 8) if extra & 2 else q
            found += p * q
        return found
    if code == 32:  # extra: relation, how it is joined with c, whether it is negated before
        holds = _compared(x, y, extra & 7, signed) != (extra >> np.int64(5) & 1 == 1)
        joined = extra >> np.int64(3) & 3
        other = c & 1 == 1
        if joined == 1:
            holds = holds and other
        elif joined == 2:
            holds = holds or other
        elif joined == 3:
            holds = holds != other
        return np.int64(holds)
    if code == 33:
        return x if c & 1 else y
    if code == 34:
        return x if _signed(c, 32) >= 0 else y
    if code == 35:  # extra: bits and sign of the type that cuts
        target, has_sign = extra & 127, extra >> np.int64(7) == 1
        if target == 64:
            if signed and not has_sign:
                return max(x, np.int64(0))
            if not signed and has_sign and x < 0:  # at least 2^63
                return ~_MINIMUM
            return x
        if not signed and x < 0:
            return _saturated(~_MINIMUM, target, has_sign)
        return _saturated(x, target, has_sign)
    if code == 36:
        return _saturated(x + y, bits, signed)
    if code == 37:
        return _saturated(x - y, bits, signed)
    if code == 38:
        p, q = _cut(a, 24), _cut(b, 24)
        if signed:
            p, q = _signed(p, 24), _signed(q, 24)
        return (p * q) >> np.int64(16) if extra else p * q
    if code == 39 or code == 40 or code == 41:
        found = np.int64(0)
        for i in range(2):
            p, q = _right(a, 16 * i) & np.int64(0xFFFF), _right(b, 16 * i) & np.int64(0xFFFF)
            if extra:
                p, q = _signed(p, 16), _signed(q, 16)
            half = p + q if code == 39 else min(p, q) if code == 40 else max(p, q)
            found |= _cut(half, 16) << np.int64(16 * i)
        return found
    if code == 42:
        return x | (y << np.int64(bits))
    if code == 43:
        return _right(a, extra)
    if code == 44:  # of unsigned numbers, and of a carry
        total = x + y + z
        if bits < 64:
            return _right(total, bits)
        over = _below(total, x, np.int64(0)) or (total == x and z == 1)
        return np.int64(over)
    if code == 45:
        return np.int64(_below(x, y, np.int64(0)) or (x == y and z == 1))
    return np.int64(0)


@numba.njit(cache=True, inline="never")
def _quotient_at_edges(x, y):
    """A signed quotient where a number is -2^63, whose size no number of 64 bits has."""
    if y == _MINIMUM:
        return np.int64(x == _MINIMUM)
    size = np.uint64(x if x == _MINIMUM else abs(x)) // np.uint64(abs(y))
    return -np.int64(size) if y > 0 else np.int64(size)


# --- data -----------------------------------------------------------------------------------------


@numba.njit(cache=True, inline="never")
def mixed(a, b):
    """A number that looks like chance, of two others (the finalizer of splitmix64)."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(x ^ (x >> np.uint64(31)))


CONSTANT, SMALL, TINY, LARGE, EDGES, ANY, MIXED, RARELY = range(8)
"""How the numbers that an instruction loads are chosen; RARELY: a constant, rarely something
else."""


@numba.njit(cache=True, inline="never")
def drawn(seed, modes, values, windows, instruction, visit, address, bits):
    """The number of so many bits that an instruction loads in its n-th execution.

    ``windows`` has rows of first and last address, size in bits, least and greatest number, sign.
    """
    mode = modes[instruction]
    chance = mixed(mixed(seed, instruction), mixed(visit, address))
    more = _right(mixed(chance, np.int64(1)), 1)
    if mode == 7:
        mode = np.int64(6) if more % 64 == 0 else np.int64(0)
    if mode == 6:
        mode = np.int64(1) + _right(chance, 1) % 5
    if mode == 0:
        found = values[instruction]
    elif mode == 1:
        found = more % 48
    elif mode == 2:
        found = more % 9 - 1
    elif mode == 3:
        top = (np.int64(1) << np.int64(bits - 1)) - np.int64(1)
        found = -1 - more % 48 if more & 64 else top - more % 8
    elif mode == 4:
        found = (np.int64(1) << np.int64(more % bits)) + (more >> np.int64(8)) % 3 - 1
    else:
        found = mixed(chance, np.int64(2))
    found = _cut(found, bits)
    for i in range(windows.shape[0]):
        low, high, has_sign = windows[i, 3], windows[i, 4], windows[i, 5]
        if windows[i, 0] <= address <= windows[i, 1] and windows[i, 2] == bits:
            number = _signed(found, bits) if has_sign else found
            if _below(number, low, has_sign) or _below(high, number, has_sign):
                pick = more % 3
                between = low + more % (high - low + 1)
                found = _cut(low if pick == 0 else high if pick == 1 else between, bits)
    return found


# --- the run --------------------------------------------------------------------------------------


@numba.njit(cache=True, inline="never")
def _source(way, lane, distance, c):
    """The lane that ``shfl`` reads (up, down, bfly, idx as 0 to 3), -1 if out of range."""
    clamp, segment = c & 31, _right(c, 8) & 31
    last = (lane & segment) | (clamp & ~segment & 31)
    if way == 0:
        other = lane - distance
        return other if other >= last else np.int64(-1)
    if way == 1:
        other = lane + distance
    elif way == 2:
        other = lane ^ distance
    else:
        other = (lane & segment) | (distance & ~segment & 31)
    return other if other <= last else np.int64(-1)


@numba.njit(cache=True, inline="never")
def _exchanged(registers, op, mask, alive, found, inside):
    """What lanes get of one another; False where the ISA says it of none or not of all."""
    code, bits, extra, place = op[0], op[8], op[13], op[7]
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        group = mask
        if place >= 0:  # with sync: those here that name the same members, and no other
            members = _cut(registers[place, lane], 32)
            if not members >> lane & 1:
                return False
            group = np.int64(0)
            for other in range(32):
                if mask >> other & 1 and _cut(registers[place, other], 32) == members:
                    group |= np.int64(1) << np.int64(other)
            group &= members
            if members & alive & ~group and code != 52:
                return False
        inside[lane] = 1
        if code == 52:
            distance, c = registers[op[5], lane] & 31, registers[op[6], lane]
            other = _source(extra, np.int64(lane), distance, c)
            inside[lane] = other >= 0
            if other >= 0 and not group >> other & 1:
                return False
            found[lane] = registers[op[4], other if other >= 0 else lane]
            continue
        count, size, same = np.int64(0), np.int64(0), np.int64(0)
        total = np.int64(0)
        mine = _cut(registers[op[4], lane], bits)
        for other in range(32):
            if not group >> other & 1:
                continue
            value = _cut(registers[op[4], other], bits)
            if value == mine:
                same |= np.int64(1) << np.int64(other)
            if op[9]:
                value = _signed(value, bits)
            if code == 53:
                count += value & 1
                total |= (value & 1) << np.int64(other)
            elif code == 55:
                if size == 0:
                    total = value
                elif extra == 0:
                    total += value
                elif extra == 1:
                    total = min(total, value)
                elif extra == 2:
                    total = max(total, value)
                elif extra == 3:
                    total &= value
                elif extra == 4:
                    total |= value
                else:
                    total ^= value
            size += 1
        if code == 53:  # all, any, uni, ballot
            if extra == 0:
                total = np.int64(count == size)
            elif extra == 1:
                total = np.int64(count > 0)
            elif extra == 2:
                total = np.int64(count == 0 or count == size)
        elif code == 54:
            total = same
            if extra:
                inside[lane] = same == group
                total = group if same == group else np.int64(0)
        found[lane] = total
    return True


@numba.njit(cache=True, inline="never")
def _reduced(registers, op, mask):
    """Popc, and, or of a predicate over the block, which is this warp."""
    count, size = np.int64(0), np.int64(0)
    for lane in range(32):
        if mask >> lane & 1:
            count += registers[op[4], lane] & 1
            size += 1
    if op[13] == 0:
        return count
    return np.int64(count == size) if op[13] == 1 else np.int64(count > 0)


@numba.njit(cache=True, inline="never")
def _write(registers, op, lane, value):
    bits, width = op[10], op[12]
    value = _signed(value, bits) if op[11] and bits < width else _cut(value, bits)
    registers[op[3], lane] = _cut(value, width)


@numba.njit(cache=True, inline="never")
def _operate(registers, op, mask, alive, visit, settings, modes, values, windows, found, inside):
    """Executes a micro-operation for lanes; False if the run stops there."""
    if op[1] >= 0:
        for lane in range(32):
            if mask >> lane & 1 and (registers[op[1], lane] & 1) != op[2]:
                mask &= ~(np.int64(1) << np.int64(lane))
    if mask == 0:
        return True
    code = op[0]
    if code == 50:
        is_same = settings[2] or op[13] >> np.int64(32)  # alike whenever and by whom it is read
        for lane in range(32):
            if mask >> lane & 1:
                address = registers[op[4], lane] + _cut(op[13], 32)
                instruction = np.int64(0) if is_same else op[14]
                when = np.int64(0) if is_same else visit
                value = drawn(
                    settings[0], modes, values, windows, instruction, when, address, op[8]
                )
                _write(registers, op, lane, value)
        return True
    if code == 51:
        for lane in range(32):
            if mask >> lane & 1:
                _write(registers, op, lane, mask)
        return True
    if code == 56:
        return mask == alive
    if code == 57:
        if mask != alive:
            return False
        value = _reduced(registers, op, mask)
        for lane in range(32):
            if mask >> lane & 1:
                _write(registers, op, lane, value)
        return True
    if code >= 52:
        if not _exchanged(registers, op, mask, alive, found, inside):
            return False
        for lane in range(32):
            if mask >> lane & 1:
                if op[3] >= 0:
                    _write(registers, op, lane, found[lane])
                if op[15] >= 0:
                    registers[op[15], lane] = inside[lane]
        return True
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        a = registers[op[4], lane] if op[4] >= 0 else np.int64(0)
        b = registers[op[5], lane] if op[5] >= 0 else np.int64(0)
        c = registers[op[6], lane] if op[6] >= 0 else np.int64(0)
        d = registers[op[7], lane] if op[7] >= 0 else np.int64(0)
        if (code == 5 or code == 6) and _cut(b, op[8]) == 0:
            return False
        _write(registers, op, lane, computed(code, op[8], op[9], op[13], a, b, c, d))
    return True


@numba.njit(cache=True)
def run(ops, blocks, targets, registers, lanes, settings, modes, values, windows, counts):
    """Executes a warp; how the run ends, and how many blocks it has executed.

    ``blocks`` has rows of first micro-operation, one behind the last, how it ends, guard, its
    wanted value, first of its targets, how many, register of the index, next block, meeting block.
    ``settings``: seed, most blocks, whether data never change, whether the last way goes first.
    """
    end = blocks.shape[0]
    places = np.zeros((1100, 4), np.int64)  # block, where it stops, mask, frame below
    places[0, 1] = end
    places[0, 2] = lanes
    places[0, 3] = -1
    top = 0
    alive = lanes
    total = np.int64(0)
    found = np.zeros(32, np.int64)
    inside = np.zeros(32, np.int64)
    ways = np.zeros((33, 2), np.int64)
    while top >= 0:
        block, mask = places[top, 0], places[top, 2]
        if mask == 0 or block == places[top, 1] or block == end:
            if block == end:
                alive &= ~mask
            below = places[top, 3]
            if below >= 0:
                places[below, 2] |= mask
            top -= 1
            continue
        if total >= settings[1]:
            return LIMIT, total
        total += 1
        counts[block] += 1
        row = blocks[block]
        for i in range(row[0], row[1]):
            if not _operate(
                registers,
                ops[i],
                mask,
                alive,
                counts[block],
                settings,
                modes,
                values,
                windows,
                found,
                inside,
            ):
                return OPEN, total
        taken = np.int64(0)
        if row[2] != 0:
            for lane in range(32):
                if mask >> lane & 1 and (row[3] < 0 or (registers[row[3], lane] & 1) == row[4]):
                    taken |= np.int64(1) << np.int64(lane)
        if row[2] == 3:
            alive &= ~taken
            places[top, 2] = mask & ~taken
            places[top, 0] = row[8]
            continue
        n = 0
        if row[2] == 1 and taken:
            ways[0, 0], ways[0, 1] = targets[row[5]], taken
            n = 1
        elif row[2] == 2:
            for lane in range(32):
                if not taken >> lane & 1:
                    continue
                index = _cut(registers[row[7], lane], 32) % row[6]
                target = targets[row[5] + index]
                place = n
                for k in range(n):
                    if ways[k, 0] == target:
                        place = k
                if place == n:
                    ways[n, 0], ways[n, 1] = target, 0
                    n += 1
                ways[place, 1] |= np.int64(1) << np.int64(lane)
        rest = mask & ~taken
        for k in range(n):  # a branch to the next block is no other way, and comes last
            if ways[k, 0] == row[8]:
                rest |= ways[k, 1]
                ways[k, 1] = 0
        kept = 0
        for k in range(n):
            if ways[k, 1]:
                ways[kept, 0], ways[kept, 1] = ways[k, 0], ways[k, 1]
                kept += 1
        n = kept
        if rest:
            ways[n, 0], ways[n, 1] = row[8], rest
            n += 1
        if n == 1:
            places[top, 0] = ways[0, 0]
            continue
        parent = top
        places[parent, 0], places[parent, 2] = row[9], 0
        for k in range(n):  # the last that is put on the stack goes first
            way = k if settings[3] else n - 1 - k
            top += 1
            places[top, 0], places[top, 2] = ways[way, 0], ways[way, 1]
            places[top, 1], places[top, 3] = row[9], parent
    return END, total
