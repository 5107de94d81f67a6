"""Reads a cubin to text: the file's information on its kernels, and the disassembler's listing.

The text has the form of :mod:`ptxwcet.sass.listing`, and all later stages read it. Each word of the
listing is compared with the file, so that the analysed code is the code in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from ptxwcet.sass.disassembler import disassembled
from ptxwcet.sass.elf import (
    PTX,
    CodeSection,
    Cubin,
    architecture_of,
    damaged,
    read_cubin,
    require_architecture,
)
from ptxwcet.sass.listing import LINE
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_bytes
from ptxwcet.support.source import SourceFile

_SECTION = re.compile(r"//-+ \.text\.(\S+)\s+-+")
_LABEL = re.compile(r"(\.L_\w+):")
_INSTRUCTION = re.compile(
    r"\s*/\*([0-9a-f]{4,16})\*/\s+([^\s;][^;]*);\s*/\* 0x([0-9a-f]{16}) \*/\s*"
)
_RELOCATED = re.compile(r"(?:32@(?:lo|hi)\(.*\)|`\([\w.$@]+\))$")
"""An operand that the loader writes: the last one of its instruction."""

_SECOND_HALF = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/\s*")


def read_source(path: str | os.PathLike[str]) -> SourceFile:
    """Returns the listing of a cubin. Raises PtxwcetError: PW112 (unreadable), or :func:`listed`'s.

    Cost: one run of the disassembler.
    """
    name = os.fspath(path)
    try:
        data = read_bytes(path, MOST_TEXT_BYTES)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PtxwcetError(Diagnostic("PW112", f"cannot read '{name}': {reason}")) from None
    return listed(name, data)


def listed(name: str, data: bytes) -> SourceFile:
    """Returns the listing of a cubin's bytes. Raises PtxwcetError: PW123, PW124, PW125."""
    if architecture := architecture_of(data):
        require_architecture(name, architecture)
    cubin = read_cubin(name, data)
    if not cubin.sections:
        raise damaged(name, "it holds no kernel, or no symbols that name one")
    version, listing = disassembled(name, data)
    return SourceFile(name, "\n".join(_written(name, cubin, version, listing)) + "\n")


def _written(name: str, cubin: Cubin, version: str, listing: str) -> Iterator[str]:
    parts = _parts(name, cubin, listing)
    ptx, starts = list[str](), dict[str, int]()
    for section_name, data in cubin.ptx:
        starts[section_name] = len(ptx)
        ptx += data.decode("utf-8", "replace").removesuffix("\0").split("\0")
    yield f".target sm_{cubin.architecture}"
    yield f".disassembler {version}"
    for v in cubin.variables:
        initial = f" {v.initial.hex()}" if v.initial else ""
        yield f".variable {v.space} {v.name} {v.offset:#x} {v.size}{initial}"
    for section in cubin.sections:
        if section.name not in parts:
            raise _unlike(name, f"kernel {section.name} is missing")
        yield from _head(section)
        yield from _body(name, section, parts[section.name], starts)
    for number, text in enumerate(ptx, 1):
        if shown := " ".join(text.split()):
            yield f".ptx {number} {shown}"


def _parts(name: str, cubin: Cubin, listing: str) -> dict[str, list[str]]:
    """Returns the lines of each section of code.

    A name in the file may contain whole lines of a listing. It cannot replace an instruction: each
    section of the file begins once, and there is no code outside of them.
    """
    expected = {section.name for section in cubin.sections} | cubin.others
    parts: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in listing.splitlines():
        if line.startswith("//-"):
            begins = _SECTION.fullmatch(line)
            if begins is not None and (begins[1] in parts or begins[1] not in expected):
                raise _unlike(name, f"a section .text.{begins[1]} more than there are begins")
            lines = None if begins is None else parts.setdefault(begins[1], [])
        elif lines is not None:
            lines.append(line)
        elif _INSTRUCTION.fullmatch(line) is not None:
            raise _unlike(name, "it has code outside of its sections")
    return parts


def _head(section: CodeSection) -> Iterator[str]:
    yield ""
    yield f".section {section.name}"
    yield f".registers {section.registers}"
    yield f".shared {section.shared_bytes}"
    yield f".local {section.local_bytes}"
    if section.unresolved is not None:
        yield f".relocations {section.unresolved:#x}"
    yield f".parameters {section.parameters_at:#x}"
    for argument in section.parameters:
        yield f".parameter {argument.offset:#x} {argument.size}"
    for keyword, value in (
        ("reqntid", section.threads),
        ("maxntid", section.most_threads),
        ("reqnctapercluster", section.cluster),
    ):
        if value is not None:
            yield f".{keyword} {value[0]} {value[1]} {value[2]}"
    for at, targets in section.branches.items():
        yield f".branches {at:#x} " + " ".join(f"{target:#x}" for target in targets)


def _body(
    name: str, section: CodeSection, lines: list[str], ptx: Mapping[str, int]
) -> Iterator[str]:
    """Yields the instructions, each with its word, and the lines between them.

    ``ptx``: the number of lines of PTX before those of a section.
    """
    functions = list(section.functions)
    address, first, labels = 0, None, set[str]()
    for line in lines:
        if first is not None:
            second = _SECOND_HALF.fullmatch(line)
            if second is None:
                raise _unlike(name, f"the word at {address:#06x} is not whole")
            low, high = int(first[3], 16), int(second[1], 16)
            word = low.to_bytes(8, "little") + high.to_bytes(8, "little")
            if word != section.code[address : address + 16]:
                raise _unlike(name, f"the word at {address:#06x} is another one")
            while functions and functions[0].start == address:
                function = functions.pop(0)
                yield f".{'kernel' if function.is_kernel else 'function'} {function.name}"
            text = first[2].strip()
            if (operand := section.relocated.get(address)) is not None:
                text, count = _RELOCATED.subn(lambda _, new=operand: new, text)
                if count != 1:
                    raise _unlike(name, f"the relocated operand at {address:#06x} is missing")
            yield f"/*{address:04x}*/ {text} ; /* {high:016x}{low:016x} */"
            address, first = address + 16, None
        elif match := _INSTRUCTION.fullmatch(line):
            if int(match[1], 16) != address:
                raise _unlike(name, f"it goes on at {match[1]}, not at {address:04x}")
            first = match
        elif label := _LABEL.fullmatch(line):
            if label[1] in labels:
                raise _unlike(name, f"label {label[1]} is there twice")
            labels.add(label[1])
            yield f"{label[1]}:"
        elif place := LINE.fullmatch(line.strip()):
            before = ptx.get(place[1])
            of_ptx = f'//## File "{PTX}", line {(before or 0) + int(place[2])}'
            yield line.strip() if before is None else of_ptx
    if address != len(section.code) or first is not None:
        raise _unlike(name, f"kernel {section.name} ends at {address:#06x}")


def _unlike(name: str, why: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW124",
            f"the disassembler's listing of '{name}' is not that of its code: {why}",
            help="try another version: pip install --upgrade nvidia-cuda-nvdisasm",
        )
    )
