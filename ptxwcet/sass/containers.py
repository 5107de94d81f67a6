"""Finds machine code in binaries: the cubins of fat binaries, in files of any kind.

A fat binary is a header followed by entries, each a cubin or PTX. Executables, objects and
libraries contain it unchanged, so its mark is searched. A file may be damaged or malicious: any
inconsistency is one diagnostic (PW123), and no file costs more than linear time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ptxwcet.sass.elf import architecture_of, damaged, is_cubin, read_cubin
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass

_MARK = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # with version and size of the header
_HEAD_BYTES = 16  # the size of all entries is the last half of it
_ENTRY = struct.Struct("<HHIQ12xI8xQ16x")  # kind, version, header, size, architecture, flags
_CUBIN = 2  # kind of an entry
_COMPRESSED = 0x2000 | 0x8000  # flags: by LZ4, by Zstandard
_REMEDY = "build it anew, or give the cubin: 'nvcc -cubin -arch=sm_86 -lineinfo kernel.cu'"


@dataclass(frozen=True, slots=True)
class HeldCode:
    """A cubin in a binary: its architecture, as ``86``, its bytes and its kernels.

    ``data`` is None for a compressed one. ``kernels`` are None for an unreadable one: reading it
    reports the reason.
    """

    architecture: int
    data: bytes | None
    kernels: tuple[str, ...] | None


def held_code(name: str, data: bytes) -> list[HeldCode]:
    """Returns the cubins in a file, or the file if it is a cubin. Raises PtxwcetError (PW123)."""
    if is_cubin(data):
        return [_described(name, data, architecture_of(data))]
    held: list[HeldCode] = []
    place = data.find(_MARK)
    while place >= 0:
        begin = place + _HEAD_BYTES
        end = begin + int.from_bytes(data[place + 8 : begin], "little")
        if end > len(data):
            raise damaged(name, "a fat binary ends behind the file: it is cut short", _REMEDY)
        held += _entries(name, data, begin, end)
        place = data.find(_MARK, end)
    return held


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
