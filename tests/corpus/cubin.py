"""Sections of a cubin that tell whether two PTX texts are one program to ptxas."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

_COMPARED = re.compile(r"\.(text|nv\.constant|nv\.info|nv\.global\.init|nv\.callgraph)")
_RELOCATIONS = re.compile(r"\.(rela?)\.(?:text|nv\.constant|nv\.global)")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS, _NO_BITS, _OBJECT = 2, 8, 13
_ZEROS = 0x70000007

PTXAS = shutil.which("ptxas")


def sections(data: bytes) -> Counter[tuple[str, bytes]]:
    """(kind, bytes) of the compared sections of an ELF file; names of functions are left out."""
    return _named(data, _COMPARED)


def relocations(data: bytes) -> Counter[tuple[str, bytes]]:
    """(kind, bytes) of the sections that say which addresses code and data hold."""
    return _named(data, _RELOCATIONS)


def code(data: bytes) -> dict[str, bytes]:
    """The machine code of each kernel of an ELF file, by its name."""
    return dict(_named(data, re.compile(r"\.text\.(\w+)")).keys())


def _named(data: bytes, names_of: re.Pattern[str]) -> Counter[tuple[str, bytes]]:
    header = _HEADER.unpack_from(data)
    assert header[0][:5] == b"\x7fELF\x02", "a 64-bit ELF file"
    offset, size, count, names_index = header[6], header[11], header[12], header[13]
    table = [_SECTION.unpack_from(data, offset + index * size) for index in range(count)]
    names = table[names_index][4]
    found: Counter[tuple[str, bytes]] = Counter()
    for section in table:
        start = names + section[0]
        name = data[start : data.index(b"\0", start)].decode("ascii")
        match = names_of.match(name)
        if match is not None and section[1] != _NO_BITS:
            found[match.group(1), data[section[4] : section[4] + section[5]]] += 1
    return found


def variables(data: bytes) -> dict[str, bytes]:
    """The initial bytes of each named variable of an ELF file, zeros where it keeps none."""
    header = _HEADER.unpack_from(data)
    offset, size, count = header[6], header[11], header[12]
    table = [_SECTION.unpack_from(data, offset + index * size) for index in range(count)]
    (symbols,) = [section for section in table if section[1] == _SYMBOLS]
    names = table[symbols[6]][4]
    found = {}
    for place in range(symbols[4], symbols[4] + symbols[5], _SYMBOL.size):
        name, kind, _, index, value, length = _SYMBOL.unpack_from(data, place)
        if kind & 15 == _OBJECT:
            start = table[index][4] + value
            kept = data[start : start + length] if table[index][1] != _ZEROS else bytes(length)
            found[data[names + name : data.index(b"\0", names + name)].decode("ascii")] = kept
    return found


def architecture(text: str) -> str:
    """The ``-arch`` for a PTX text: its own target, or the oldest that CUDA 13 has."""
    found = re.search(r"\.target\s+(?:sm|compute)_(\w+)", text)
    assert found is not None
    return "sm_75" if found.group(1) < "75" and len(found.group(1)) == 2 else f"sm_{found.group(1)}"


def assemble(text: str, folder: Path, name: str) -> bytes | str:
    """The cubin that ``ptxas -c`` makes of a PTX text, or its first message if it refuses."""
    assert PTXAS is not None
    source, output = folder / f"{name}.ptx", folder / f"{name}.cubin"
    source.write_text(text, encoding="utf-8")
    command = [PTXAS, "-c", "-arch", architecture(text), str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stdout + done.stderr).strip().splitlines()[0]
    return output.read_bytes()
