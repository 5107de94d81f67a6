"""Machine code in binaries: the cubins of fat binaries, in whatever file these lie.

A fat binary is a head, and entries one after the other, each a cubin or PTX. Executables, objects
and libraries hold them as they are, so they are found by their mark. A file may be damaged or made
to do harm: what does not fit is one diagnostic (PW123), and no file costs more than linear time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ptxwcet.sass.elf import architecture_of, damaged, is_cubin, read_cubin
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass

_MARK = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # with version and size of the head
_HEAD_BYTES = 16  # the size of all entries is the last half of them
_ENTRY = struct.Struct("<HHIQ12xI8xQ16x")  # kind, version, head, size, architecture, flags
_CUBIN = 2  # kind of an entry
_COMPRESSED = 0x2000 | 0x8000  # flags: by LZ4, by Zstandard
_REMEDY = "build it anew, or give the cubin: 'nvcc -cubin -arch=sm_86 -lineinfo kernel.cu'"


@dataclass(frozen=True, slots=True)
class HeldCode:
    """A cubin in a binary: its architecture, as ``86``, its bytes and its kernels.

    ``data`` is None of one that is compressed. ``kernels`` are None of one that cannot be read:
    whoever reads it hears why.
    """

    architecture: int
    data: bytes | None
    kernels: tuple[str, ...] | None


def held_code(name: str, data: bytes) -> list[HeldCode]:
    """The cubins that a file holds, or is, in its order. Raises PtxwcetError (PW123)."""
    if is_cubin(data):
        return [_described(name, data, architecture_of(data))]
    found: list[HeldCode] = []
    place = data.find(_MARK)
    while place >= 0:
        begin = place + _HEAD_BYTES
        end = begin + int.from_bytes(data[place + 8 : begin], "little")
        if end > len(data):
            raise damaged(name, "a fat binary ends behind the file: it is cut short", _REMEDY)
        found += _entries(name, data, begin, end)
        place = data.find(_MARK, end)
    return found


def _entries(name: str, data: bytes, begin: int, end: int) -> Iterator[HeldCode]:
    while begin + _ENTRY.size <= end:
        kind, _, head, size, architecture, flags = _ENTRY.unpack_from(data, begin)
        start, begin = begin + head, begin + head + size
        if head < _ENTRY.size or begin > end:
            raise damaged(name, "an entry of a fat binary ends behind it", _REMEDY)
        if kind == _CUBIN and flags & _COMPRESSED:
            yield HeldCode(architecture, None, None)
        elif kind == _CUBIN:
            yield _described(name, data[start:begin], architecture)


def _described(name: str, data: bytes, architecture: int) -> HeldCode:
    try:
        cubin = read_cubin(name, data)
    except PtxwcetError:
        return HeldCode(architecture, data, None)
    kernels = tuple(section.name for section in cubin.sections if section.is_kernel)
    return HeldCode(cubin.architecture, data, kernels)
