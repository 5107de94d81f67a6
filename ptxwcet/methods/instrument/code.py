"""The PTX that is inserted: declarations, what a warp does once, and what it does at each point.

Nothing here branches, so the control-flow graph of the kernel stays as it is. At a point the lowest
lane of the active mask writes the record into its own chunk; if that is full, it takes a new one
from the buffer by an atomic addition. No lane waits for another, and none for memory except when it
takes a chunk.
"""

from __future__ import annotations

import re

from ptxwcet.methods.instrument.buffers import (
    HEAD,
    HEADER,
    RECORD_BYTES,
    RECORDS_A_CHUNK,
    USED_OFFSET,
)
from ptxwcet.support.records import dataclass

_SHIFT = RECORDS_A_CHUNK.bit_length() - 1

REGISTERS = {
    "pred": ("lead", "full"),
    "b32": ("warp", "next", "low", "mask"),
    "b64": ("base", "clock", "word", "limit"),
}
"""The registers added to a kernel, by type. Only ``warp`` and ``next`` live from point to point."""

_ENTRY = f"""\
mov.u32 warp, %ctaid.z;
mov.u32 mask, %nctaid.y;
mov.u32 low, %ctaid.y;
mad.lo.u32 warp, warp, mask, low;
mov.u32 mask, %nctaid.x;
mov.u32 low, %ctaid.x;
mad.lo.u32 warp, warp, mask, low;
mov.u32 next, %tid.z;
mov.u32 mask, %ntid.y;
mov.u32 low, %tid.y;
mad.lo.u32 next, next, mask, low;
mov.u32 mask, %ntid.x;
mov.u32 low, %tid.x;
mad.lo.u32 next, next, mask, low;
mov.u32 low, %ntid.y;
mul.lo.u32 mask, mask, low;
mov.u32 low, %ntid.z;
mul.lo.u32 mask, mask, low;
add.u32 mask, mask, 31;
shr.u32 mask, mask, 5;
shr.u32 low, next, 5;
mad.lo.u32 warp, warp, mask, low;
and.b32 low, next, 31;
setp.eq.u32 lead, low, 0;
ld.param.u64 word, [CHUNKS];
cvt.u64.u32 clock, warp;
setp.lt.and.u64 lead, clock, word, lead;
mov.u32 next, 0;
@lead shl.b32 next, warp, {_SHIFT};
ld.param.u64 base, [BUFFER];
cvta.to.global.u64 base, base;
mad.wide.u32 base, next, {RECORD_BYTES}, base;
mov.u32 low, %smid;
mad.lo.u32 low, low, 65536, {HEAD};
mov.b64 word, {{low, warp}};
mov.u32 low, %warpid;
cvt.u64.u32 clock, low;
@lead st.global.v2.b64 [base+{HEADER.size}], {{word, clock}};
@lead add.u32 next, next, 1;
"""
"""Once, before anything else: the warp's number in the grid, its head, and where lane 0 goes on.

A warp beyond the buffer's chunks has no head; its lanes then ask for a chunk in vain, and ``used``
tells that the buffer was too small."""

_POINT = f"""\
activemask.b32 mask;
mov.u64 clock, %clock64;
mov.u32 low, %lanemask_lt;
and.b32 low, low, mask;
LEADER;
and.b32 low, next, {RECORDS_A_CHUNK - 1};
setp.eq.and.u32 full, low, 0, lead;
ld.param.u64 base, [BUFFER];
cvta.to.global.u64 base, base;
ld.param.u64 limit, [CHUNKS];
@full atom.global.add.u64 word, [base+{USED_OFFSET}], 1;
@full setp.lt.u64 lead, word, limit;
@full cvt.u32.u64 next, word;
@full shl.b32 next, next, {_SHIFT};
mov.u32 low, %smid;
mad.lo.u32 low, low, 65536, CODE;
mov.b64 word, {{low, warp}};
mad.wide.u32 base, next, {RECORD_BYTES}, base;
@lead st.global.v2.b64 [base+{HEADER.size}], {{word, clock}};
@lead add.u32 next, next, 1;
"""
"""At each point."""

_NAME = re.compile(
    r"(?<![%.\w])(" + "|".join(name for row in REGISTERS.values() for name in row) + r")\b"
)

INSTRUCTIONS_AT_ENTRY = _ENTRY.count(";")
INSTRUCTIONS_AT_POINT = _POINT.count(";")


@dataclass(frozen=True, slots=True)
class AddedNames:
    """The names added to a file; none of them occurs in it, because ``prefix`` does not."""

    prefix: str

    @property
    def buffer(self) -> str:
        """The parameter with the address of the buffer."""
        return f"{self.prefix}_buffer"

    @property
    def chunks(self) -> str:
        """The parameter with the number of chunks that the buffer holds."""
        return f"{self.prefix}_chunks"

    @property
    def registers(self) -> dict[str, tuple[str, ...]]:
        """The registers by type."""
        return {
            kind: tuple(f"%{self.prefix}_{name}" for name in names)
            for kind, names in REGISTERS.items()
        }


def choose_names(text: str) -> AddedNames:
    """Names that ``text`` does not have, even where it was instrumented before. Cost: linear."""
    prefix, number = "ptxwcet", 1
    while prefix in text:
        number += 1
        prefix = f"ptxwcet{number}"
    return AddedNames(prefix)


def entry_code(names: AddedNames) -> str:
    """Declarations, and what each warp does once; lines of PTX, to stand behind the ``{``."""
    declared = "".join(f".reg .{kind} {', '.join(row)};\n" for kind, row in names.registers.items())
    return _marked(names, "the warp's number and first chunk", declared + _spelled(_ENTRY, names))


def point_code(names: AddedNames, number: int, what: str, guard: str = "") -> str:
    """A record of point ``number`` by one lane of those that come together; lines of PTX.

    ``guard`` is that of the ending that follows (``%p1``, ``!%p1``). The lane that leads records
    the end only if it ends itself; if it goes on, the warp ends later, and has another end.
    """
    test = f"setp.eq.and.u32 lead, low, 0, {guard}" if guard else "setp.eq.u32 lead, low, 0"
    code = _spelled(_POINT.replace("LEADER", test), names)
    return _marked(names, f"point {number}, {what}", code.replace("CODE", str(number + 1)))


def _spelled(code: str, names: AddedNames) -> str:
    code = _NAME.sub(rf"%{names.prefix}_\1", code)
    return code.replace("BUFFER", names.buffer).replace("CHUNKS", names.chunks)


def _marked(names: AddedNames, what: str, code: str) -> str:
    lines = "".join(f"\t{line}\n" for line in code.splitlines())
    return f"\t// {names.prefix}: {what}\n{lines}\t// {names.prefix}: end\n"
