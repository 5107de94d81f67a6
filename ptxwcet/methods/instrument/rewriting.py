"""Inserts instrumentation into PTX text, the rest stays byte for byte, and describes it.

The description (points of the kernels by number, digests, cost) is a JSON file next to the
instrumented PTX; dumps cannot be read without it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ptxwcet.ir.kernel import Kernel, Module, require_ptx
from ptxwcet.methods.instrument.buffers import (
    CHUNK_BYTES,
    HEAD,
    HEADER,
    MOST_POINTS,
    RECORD_BYTES,
    RECORDS_A_CHUNK,
    USED_OFFSET,
    VERSION,
    identity_of,
)
from ptxwcet.methods.instrument.points import KernelPoints, choose_points, refuse_kernels
from ptxwcet.ptx.functions import IS_FUNCTION, head_end
from ptxwcet.support.comments import blank_comments
from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.seals import Changed, require_seal, sealed
from ptxwcet.trace.events import Ipoint

_HEAD_NAME = re.compile(r"\.entry\s+[\w$%]+\s*")


@dataclass(frozen=True, slots=True)
class Insertion:
    """A text that is inserted before the character at ``offset`` of the original."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class InstrumentedModule:
    """The new text, with its insertions and their places, in the order of the text."""

    text: str
    names: AddedNames
    kernels: tuple[KernelPoints, ...]
    insertions: tuple[Insertion, ...]


def instrument_module(
    module: Module, kernels: Sequence[Kernel], places: Sequence[str] = ()
) -> InstrumentedModule:
    """Returns the text of a module whose ``kernels`` record when warps pass block beginnings.

    ``places``: names or PTX lines of the blocks to record; none for every block. Raises
    PtxwcetError: PW127 (machine code), PW650 (kernels that cannot be instrumented, all of them),
    PW651 (places that are not a block). Cost: linear in the text.
    """
    for kernel in kernels:
        require_ptx(kernel, "a trace is recorded by")
    refuse_kernels(module, kernels)
    names = choose_names(module.source.text)
    insertions: list[Insertion] = []
    chosen = choose_points(kernels, module, places)
    for points in chosen:
        _check_count(points)
        insertions += _insertions(module, points, names)
    ordered = tuple(sorted(insertions, key=lambda new: new.offset))  # stable: point, then end
    text = _apply(module.source.text, ordered).removeprefix("\ufeff")
    return InstrumentedModule(text, names, chosen, ordered)


def _check_count(points: KernelPoints) -> None:
    if len(points.blocks) >= MOST_POINTS:
        kernel = points.kernel
        message = f"kernel {kernel.readable} has {len(points.blocks):,} blocks"
        help_text = f"at most {MOST_POINTS - 1:,} can have points: choose them with --at"
        raise PtxwcetError.of("PW650", message, kernel.span, help=help_text)


def _insertions(module: Module, points: KernelPoints, names: AddedNames) -> Iterable[Insertion]:
    text, kernel = module.source.text, points.kernel
    for item in module.items:  # prototypes must keep agreeing with the definition
        if isinstance(item, Kernel) and item.is_entry and item.name == kernel.name:
            yield _parameters(item, names)
    start, head = _head(kernel)
    yield Insertion(start + len(head) + 1, "\n" + entry_code(names))
    for number, point in enumerate(points.blocks):
        title = f"{point.ipoint.label}, line {point.ipoint.line}"
        yield _before(text, point.offset, point_code(names, number, title))
    for end in points.ends:
        code = point_code(names, len(points.blocks), "end", end.guard)
        yield _before(text, end.offset, code)


def _before(text: str, offset: int, code: str) -> Insertion:
    """Returns an insertion of ``code`` on lines of its own before the statement at ``offset``."""
    line = text.rfind("\n", 0, offset) + 1
    if text[line:offset].strip(" \t"):
        return Insertion(offset, "\n" + code)
    return Insertion(line, code)


def _head(kernel: Kernel) -> tuple[int, str]:
    """Returns the start of a kernel's head, and its text with comments blanked."""
    text, start = kernel.span.source.text, kernel.span.start
    keyword = IS_FUNCTION.match(text, start)
    assert keyword is not None, "a kernel's span starts with its head"
    return start, blank_comments(text[start : head_end(text, keyword.end())])


def _parameters(kernel: Kernel, names: AddedNames) -> Insertion:
    """Returns two parameters at the end of the list; a kernel without a list gets one."""
    start, head = _head(kernel)
    added = f"\n\t.param .u64 {names.buffer},\n\t.param .u64 {names.chunks}"
    match = _HEAD_NAME.search(head)
    assert match is not None, "a head names its kernel"
    if head[match.end() : match.end() + 1] != "(":
        return Insertion(start + len(head[: match.end()].rstrip()), f"({added}\n)")
    closing = head.index(")", match.end())
    if not kernel.parameters:
        return Insertion(start + match.end() + 1, added + "\n")
    return Insertion(start + len(head[:closing].rstrip()), "," + added)


def _apply(text: str, insertions: Sequence[Insertion]) -> str:
    pieces, done = [], 0
    for insertion in insertions:
        pieces += [text[done : insertion.offset], insertion.text]
        done = insertion.offset
    return "".join([*pieces, text[done:]])


SCHEMA = 1


@dataclass(frozen=True, slots=True)
class SidecarKernel:
    """A kernel: its points by number, the end last; the parameters added to its own.

    ``inserted_points`` counts the places that record (several may be ends), ``added_instructions``
    the PTX instructions added to the text.
    """

    name: str
    ipoints: tuple[Ipoint, ...]
    parameters: tuple[str, str]
    inserted_points: int
    added_instructions: int


@dataclass(frozen=True, slots=True)
class Sidecar:
    """An instrumented file. ``source`` is the name of the original, ``sha256`` its digest."""

    source: str
    sha256: str
    instrumented_sha256: str
    kernels: tuple[SidecarKernel, ...]

    def readable(self, kernel: SidecarKernel) -> str:
        """Returns the kernel's name for people."""
        return readable_names(k.name for k in self.kernels)[kernel.name]

    def identity(self, kernel: SidecarKernel) -> bytes:
        """Returns the eight bytes that dumps of the kernel carry."""
        return identity_of(self.instrumented_sha256, kernel.name)


def build_sidecar(done: InstrumentedModule, source: str, sha256: str) -> Sidecar:
    """Returns the sidecar of an instrumented module. Cost: linear in the text."""
    kernels = [
        SidecarKernel(
            points.kernel.name,
            points.ipoints,
            (done.names.buffer, done.names.chunks),
            points.inserted,
            INSTRUCTIONS_AT_ENTRY + INSTRUCTIONS_AT_POINT * points.inserted,
        )
        for points in done.kernels
    ]
    return Sidecar(source, sha256, text_digest(done.text), tuple(kernels))


def text_digest(text: str) -> str:
    """Returns the SHA-256 of a text as it is written to a file."""
    return hashlib.sha256(text.encode()).hexdigest()


def sidecar_text(sidecar: Sidecar) -> str:
    """Returns the JSON text of a sidecar."""
    return json.dumps(sealed(sidecar_data(sidecar)), indent=2, ensure_ascii=False) + "\n"


def sidecar_data(sidecar: Sidecar) -> dict[str, Any]:
    """Returns the content of the JSON file; ``added`` and ``dump`` are there for people to read."""
    return {
        "schema": SCHEMA,
        "source": sidecar.source,
        "sha256": sidecar.sha256,
        "instrumented_sha256": sidecar.instrumented_sha256,
        "clock": "%clock64",
        "dump": {
            "version": VERSION,
            "header_bytes": HEADER.size,
            "chunk_bytes": CHUNK_BYTES,
            "record": f"u32 point + 1 ({HEAD}: head of a warp) | multiprocessor << 16, u32 warp, "
            "u64 clock (in a head: hardware slot)",
            "record_bytes": RECORD_BYTES,
        },
        "kernels": [_kernel_data(kernel) for kernel in sidecar.kernels],
    }


def _kernel_data(kernel: SidecarKernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "parameters": list(kernel.parameters),
        "points": [{"label": at.label, "line": at.line} for at in kernel.ipoints],
        "added": {
            "registers": {kind: len(names) for kind, names in REGISTERS.items()},
            "instructions_at_entry": INSTRUCTIONS_AT_ENTRY,
            "instructions_at_point": INSTRUCTIONS_AT_POINT,
            "inserted_points": kernel.inserted_points,
            "instructions": kernel.added_instructions,
        },
    }


def read_sidecar(data: bytes, name: str) -> Sidecar:
    """Returns the sidecar in the file ``name``. Raises PtxwcetError (PW652). Cost: linear."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise _refused(name, "it is not JSON") from None
    try:
        require_seal(content)
        if content["schema"] != SCHEMA:
            raise _refused(name, f"schema {content['schema']!r} is not known, only {SCHEMA}")
        return Sidecar(
            _text(content["source"]),
            _text(content["sha256"]),
            _text(content["instrumented_sha256"]),
            tuple(_kernel(k) for k in content["kernels"]),
        )
    except Changed as error:
        raise _refused(name, str(error)) from None
    except KeyError as missing:
        raise _refused(name, f"{missing} is missing") from None
    except (TypeError, ValueError, AttributeError):
        raise _refused(name, "a value has the wrong type") from None


def _kernel(data: dict[str, Any]) -> SidecarKernel:
    buffer, chunks = data["parameters"]
    ipoints = tuple(Ipoint(_text(p["label"]), _count(p["line"])) for p in data["points"])
    if not 2 <= len(ipoints) <= MOST_POINTS:
        raise ValueError(len(ipoints))
    added = data["added"]
    return SidecarKernel(
        _text(data["name"]),
        ipoints,
        (_text(buffer), _text(chunks)),
        _count(added["inserted_points"]),
        _count(added["instructions"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(value)
    return value


def _refused(name: str, reason: str) -> PtxwcetError:
    return PtxwcetError.of(
        "PW652",
        f"'{name}' is not the description of an instrumented file: {reason}",
        help="ptxwcet instrument writes it beside the instrumented PTX (.json)",
    )


# Nothing here branches, so the control-flow graph of the kernel is unchanged. At a point the lowest
# lane of the active mask writes the record into its own chunk; if that is full, it takes a new one
# from the buffer by an atomic addition. No lane waits for another, and none for memory except when
# it takes a chunk.


_SHIFT = RECORDS_A_CHUNK.bit_length() - 1

REGISTERS = {
    "pred": ("lead", "full"),
    "b32": ("warp", "next", "low", "mask"),
    "b64": ("base", "clock", "word", "limit"),
}
"""The registers added to a kernel, by type. Only ``warp`` and ``next`` live between points."""

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
"""The code at the entry: the warp's number in the grid, its head, and lane 0's next record.

A warp beyond the buffer's chunks has no head; its lanes request chunks in vain, and ``used`` shows
that the buffer was too small.
"""

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
"""The code at each point."""

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
    """Returns names that ``text`` does not have, even if it is instrumented. Cost: linear."""
    prefix, number = "ptxwcet", 1
    while prefix in text:
        number += 1
        prefix = f"ptxwcet{number}"
    return AddedNames(prefix)


def entry_code(names: AddedNames) -> str:
    """Returns declarations and the code at a warp's entry; lines of PTX, after the ``{``."""
    declared = "".join(f".reg .{kind} {', '.join(own)};\n" for kind, own in names.registers.items())
    return _marked(names, "the warp's number and first chunk", declared + _spelled(_ENTRY, names))


def point_code(names: AddedNames, number: int, title: str, guard: str = "") -> str:
    """Returns the record of point ``number`` by one of the arriving lanes; lines of PTX.

    ``guard`` is that of the ending that follows (``%p1``, ``!%p1``). The leading lane records the
    end only if it ends itself; if it continues, the warp ends later, and has another end.
    """
    test = f"setp.eq.and.u32 lead, low, 0, {guard}" if guard else "setp.eq.u32 lead, low, 0"
    code = _spelled(_POINT.replace("LEADER", test), names)
    return _marked(names, f"point {number}, {title}", code.replace("CODE", str(number + 1)))


def _spelled(code: str, names: AddedNames) -> str:
    code = _NAME.sub(rf"%{names.prefix}_\1", code)
    return code.replace("BUFFER", names.buffer).replace("CHUNKS", names.chunks)


def _marked(names: AddedNames, title: str, code: str) -> str:
    lines = "".join(f"\t{line}\n" for line in code.splitlines())
    return f"\t// {names.prefix}: {title}\n{lines}\t// {names.prefix}: end\n"
