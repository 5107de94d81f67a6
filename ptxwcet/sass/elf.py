"""Reads cubins: an ELF file's properties of each kernel of machine code, and its instructions.

A file may be damaged, truncated or malicious: whatever sizes it states, the cost is at most a few
times its length, and any inconsistency is one diagnostic (PW123).
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

MARK = b"\x7fELF"
ARCHITECTURES = (75, 80, 86, 87, 89, 90)
"""The architectures whose code is read: encodings and words differ on others."""

_CUDA, _EXECUTABLE = 190, 2  # machine number and type of file
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
# in the header of a file of 32 and of 64 bits, which byte 4 distinguishes
_FLAGS_AT = {1: 36, 2: 48}
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS, _NO_BITS = 2, 8  # types of sections
_FUNCTION = 2  # type of a symbol
_VARIABLES = (1, 13)  # types of others: in all ELF files, and in older cubins
_SPACES = {".nv.constant3": "const", ".nv.global": "global", ".nv.global.init": "global"}
_BANK_BYTES = 1 << 16
_KERNEL = 0x10  # of a symbol's "other": the host starts it
_INSTRUCTION_BYTES = 16
_LAUNCH_BYTES = 24  # of constant bank 0, with the sizes of blocks and grid
_NEW_LAYOUT = 8  # version of the layout from which on the flags hold the architecture in byte 1
_CODE = ".text."
_SECOND_FORM = ".nv.merc."  # from sm_100 on, on the bytes of others; never read
PTX = ".nv_debug_ptx_txt"
"""The prefix of sections with PTX, each of a linked file."""

# relocations: types of sections, with the layout of an entry; their types
_RELOCATIONS = {4: struct.Struct("<QIIq"), 9: struct.Struct("<QII")}
_HALVES = {0x38: "lo", 0x39: "hi"}  # of an address, written into an instruction
_CALLS = (0x3A, 0x4B)
_LONGEST_NAME, _MOST_OF_NAMES = 4096, 16
_NAME = re.compile(rf"[\w$.@]{{1,{_LONGEST_NAME}}}", re.ASCII)
_PARTS = "split the file: compile the kernels in several"
_BARE, _SIZED = 1, 4  # formats of attributes: nothing more, and one with a size
# numbers of attributes
_MOST_THREADS, _CONSTANTS, _THREADS, _FRAME = 0x05, 0x0A, 0x10, 0x11
_PARAMETER, _REGISTERS, _BRANCHES = 0x17, 0x2F, 0x34
_CLUSTER, _IN_CLUSTERS = 0x3D, 0x3E


class Argument(NamedTuple):
    """A parameter: its place among the parameters and its size, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel, or a function after one in its section, at an address there."""

    name: str
    start: int
    is_kernel: bool


@dataclass(frozen=True, slots=True)
class CodeSection:
    """The code of a kernel and of its functions, with the compiler's information on the kernel.

    ``threads`` are the block that the kernel requires, ``most_threads`` the largest one, and
    ``cluster`` the number of blocks that start together, zeros where the launch specifies it; None
    where unspecified. ``parameters_at`` is the place of the parameters in constant bank 0.
    ``branches`` has the targets of each indexed branch, by its address. ``relocated`` has the
    operands of instructions that the loader completes with an address of this file, ``unresolved``
    the address of the first one that gets any other operand.
    """

    name: str
    code: bytes
    functions: tuple[Function, ...]
    registers: int
    shared_bytes: int
    local_bytes: int
    parameters: tuple[Argument, ...]
    parameters_at: int
    threads: tuple[int, int, int] | None
    most_threads: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    branches: Mapping[int, tuple[int, ...]]
    relocated: Mapping[int, str]
    unresolved: int | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether the section holds a kernel; others hold functions that kernels call."""
        return any(function.is_kernel for function in self.functions)


class HeldVariable(NamedTuple):
    """A variable of the file, in space ``const`` (constant bank 3) or ``global``.

    ``offset`` is its place among the others of its space. ``initial`` are its first bytes, empty
    where they are zeros.
    """

    name: str
    space: str
    offset: int
    size: int
    initial: bytes


@dataclass(frozen=True, slots=True)
class Cubin:
    """A file of machine code for one architecture, as ``86``.

    ``sections`` are of kernels and of functions that they call in other sections, ``others`` the
    names of all other sections with code. ``ptx`` is the PTX that the compiler kept, with the names
    of sections, in order.
    """

    architecture: int
    sections: tuple[CodeSection, ...]
    others: frozenset[str] = frozenset()
    variables: tuple[HeldVariable, ...] = ()
    ptx: tuple[tuple[str, bytes], ...] = ()


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


class _Symbol(NamedTuple):
    name: str
    kind: int
    other: int
    section: int
    value: int
    size: int


def read_cubin(name: str, data: bytes) -> Cubin:
    """Reads a cubin. Raises PtxwcetError (PW123) for other files. Cost: linear in the file."""
    try:
        return _Reader(name, data).cubin()
    except (struct.error, IndexError, OverflowError):
        raise damaged(name, "it ends before what its headers speak of") from None


def architecture_of(data: bytes) -> int:
    """Returns the architecture of a cubin, as ``86``; 0 for a file that is not a cubin."""
    at = _FLAGS_AT.get(data[4]) if is_cubin(data) and len(data) >= _HEADER.size else None
    return 0 if at is None else data[at + (data[8] >= _NEW_LAYOUT)]


def require_architecture(name: str, architecture: int) -> None:
    """Raises PtxwcetError (PW125) for an architecture whose machine code is not read."""
    if architecture in ARCHITECTURES:
        return
    why = "which is not among the architectures"
    if architecture < ARCHITECTURES[0]:
        why = "which is older than the architectures"
    elif architecture > ARCHITECTURES[-1]:
        why = "which is newer than the architectures"
    supported = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
    raise PtxwcetError(
        Diagnostic(
            "PW125",
            f"'{name}' is machine code for sm_{architecture}, {why} that are read",
            notes=(f"machine code is read for {supported}",),
            help="compile the source for one of these, or bound the kernel from its PTX",
        )
    )


def is_cubin(data: bytes) -> bool:
    """Returns whether a file claims to be an ELF file of a GPU, as a cubin is. Cost: constant."""
    return data[:4] == MARK and data[18:20] == _CUDA.to_bytes(2, "little")


def damaged(name: str, why: str, help_text: str = "") -> PtxwcetError:
    """Returns the error of a file that is not a readable cubin."""
    remedy = help_text or "make it anew: 'nvcc -cubin -arch=sm_86 -lineinfo kernel.cu'"
    return PtxwcetError(Diagnostic("PW123", f"'{name}' is no cubin to read: {why}", help=remedy))


class _Reader:
    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        self.letters = _MOST_OF_NAMES * len(data)  # left for names, which may overlap

    def cubin(self) -> Cubin:
        data = self.data
        if not data.startswith(MARK):
            raise damaged(self.name, "it does not begin as an ELF file")
        header = _HEADER.unpack_from(data)
        if header[2] != _CUDA:
            raise damaged(self.name, "it is an ELF file, of another machine than NVIDIA's GPUs")
        if data[4:6] != b"\x02\x01":
            raise damaged(self.name, "it is no file of 64 bits with the least byte first")
        if header[1] != _EXECUTABLE:
            raise damaged(
                self.name,
                "it is not linked, so that addresses are missing in its code",
                "link it: 'nvlink -arch=sm_86 kernel.o -o kernel.cubin', or compile it whole "
                "(without -dc and -rdc=true)",
            )
        sections = list(self.sections(header))
        symbols = list(self.symbols(sections))
        variables = tuple(self.variables(sections, symbols))
        code = tuple(self.code(sections, symbols))
        named = {s.name.removeprefix(_CODE) for s in sections if s.name.startswith(_CODE)}
        others = frozenset(named - {s.name for s in code})
        ptx = tuple(
            (s.name, data[s.offset : s.offset + s.size])
            for s in sections
            if s.name.startswith(PTX) and s.kind != _NO_BITS
        )
        return Cubin(architecture_of(data), code, others, variables, ptx)

    def sections(self, header: tuple[int, ...]) -> Iterator[_Section]:
        begin, size, count, names = header[6], header[11], header[12], header[13]
        if size != _SECTION.size:
            raise damaged(self.name, f"its section headers are of {size} bytes")
        if begin and not count:
            raise damaged(self.name, "it has more than 65,279 sections", _PARTS)
        rows = [_SECTION.unpack_from(self.data, begin + n * size) for n in range(count)]
        left = len(self.data)
        for fields in rows:
            name = self.text(rows[names][4], fields[0])
            left -= 0 if fields[1] == _NO_BITS or name.startswith(_SECOND_FORM) else fields[5]
            if fields[1] != _NO_BITS and fields[4] + fields[5] > len(self.data):
                raise damaged(self.name, "a section ends behind the file: it is cut short")
            if left < 0:
                raise damaged(self.name, "its sections overlap")
            yield _Section(name, fields[1], *fields[4:8])

    def text(self, table: int, at: int) -> str:
        """Returns a name in a table of names, empty if it is too long or has odd characters."""
        begin = table + at
        end = self.data.find(b"\0", begin, begin + _LONGEST_NAME + 1)
        self.letters -= _LONGEST_NAME if end < 0 else end - begin
        if self.letters < 0:
            raise damaged(self.name, "its names are much longer than the file")
        text = self.data[begin : max(end, begin)].decode("ascii", "replace")
        return text if _NAME.fullmatch(text) else ""

    def symbols(self, sections: list[_Section]) -> Iterator[_Symbol]:
        """Yields all symbols, by their numbers."""
        for table in sections:
            if table.kind == _SYMBOLS:
                names = sections[table.link].offset
                for number in range(table.size // _SYMBOL.size):
                    at = table.offset + number * _SYMBOL.size
                    name, kind, *place = _SYMBOL.unpack_from(self.data, at)
                    yield _Symbol(self.text(names, name), kind & 15, *place)
                return

    def variables(self, sections: list[_Section], symbols: list[_Symbol]) -> Iterator[HeldVariable]:
        """Yields the variables with names of their own, in the order of their places."""
        places = {n: s for n, s in enumerate(sections) if s.name in _SPACES}
        variables = [var for var in symbols if var.section in places and var.kind in _VARIABLES]
        names = Counter(var.name for var in variables)
        end = dict.fromkeys(places, 0)
        for var in sorted(variables, key=lambda var: var.value):
            section = places[var.section]
            space = _SPACES[section.name]
            if (
                var.value < end[var.section]
                or var.value + var.size > section.size
                or (space == "const" and section.size > _BANK_BYTES)
            ):
                raise damaged(self.name, f"the variables of section {section.name} do not fit")
            end[var.section] = var.value + var.size
            at = section.offset + var.value
            data = b"" if section.kind == _NO_BITS else self.data[at : at + var.size]
            if var.name and var.size and names[var.name] == 1:
                yield HeldVariable(var.name, space, var.value, var.size, data.rstrip(b"\0"))

    def code(self, sections: list[_Section], symbols: list[_Symbol]) -> Iterator[CodeSection]:
        by_name = {s.name: s for s in sections}
        of_file = {
            (attribute, *struct.unpack_from("<I", value)): struct.unpack_from("<I", value, 4)[0]
            for attribute, value in self.attributes(by_name.get(".nv.info"))
            if len(value) == 8
        }
        tables: dict[int, list[_Section]] = defaultdict(list)
        for section in sections:
            if section.kind in _RELOCATIONS:
                tables[section.info].append(section)
        inside: dict[int, list[Function]] = {}
        numbers: dict[str, int] = {}
        for number, s in enumerate(symbols):
            if s.kind == _FUNCTION and s.name:
                function = Function(s.name, s.value, bool(s.other & _KERNEL))
                inside.setdefault(s.section, []).append(function)
                numbers[s.name] = number
        code = {n for n, section in enumerate(sections) if section.name.startswith(_CODE)}
        names = Counter(f.name for number in code for f in inside.get(number, ()))
        kernels = {number for number in inside if any(f.is_kernel for f in inside[number])}
        waiting = sorted(kernels & code)
        seen = set(waiting)
        for number in waiting:  # grows by the sections that are called
            section = sections[number]
            kernel = section.name.removeprefix(_CODE)
            functions = sorted(inside[number], key=lambda f: f.start)
            own = self.data[section.offset : section.offset + section.size]
            starts = [f.start for f in functions]
            first = next((f for f in functions if f.is_kernel), functions[0])
            if (
                kernel != first.name
                or starts[0] != 0
                or any(start % _INSTRUCTION_BYTES or start >= len(own) for start in starts)
                or len(own) % _INSTRUCTION_BYTES
            ):
                raise damaged(self.name, f"the functions of section {section.name} do not fill it")
            attributes = list(self.attributes(by_name.get(f".nv.info.{kernel}")))
            shared = by_name.get(f".nv.shared.{kernel}")
            relocated, called, unresolved = self.relocated(number, tables[number], symbols, names)
            waiting += sorted(called & code - seen)
            seen |= called
            described = self.described(
                (kernel, 0 if shared is None else shared.size),
                own,
                tuple(functions),
                attributes if first.is_kernel else [],
                {
                    # older compilers name the registers only in the section
                    _REGISTERS: of_file.get((_REGISTERS, numbers[kernel]), section.info >> 24),
                    _FRAME: of_file.get((_FRAME, numbers[kernel]), 0),
                },
            )
            yield replace(described, relocated=relocated, unresolved=unresolved)

    def relocated(
        self, number: int, tables: list[_Section], symbols: list[_Symbol], names: Counter[str]
    ) -> tuple[dict[int, str], set[int], int | None]:
        """Returns the operands that the loader writes into a section, the sections that it calls,
        and the first address into which it writes a value from outside of this file.
        """
        operands: dict[int, str] = {}
        called, unresolved = set[int](), set[int]()
        for table in tables:
            layout = _RELOCATIONS[table.kind]
            for place in range(table.offset, table.offset + table.size, layout.size):
                at, kind, of, *more = layout.unpack_from(self.data, place)
                addend = sum(more)
                symbol = symbols[of] if of < len(symbols) else symbols[0]
                is_function = symbol.kind == _FUNCTION
                if at % _INSTRUCTION_BYTES or at in operands:
                    unresolved.add(at)
                elif kind in _HALVES:
                    is_code = more and is_function and symbol.section == number
                    of_code = f"{symbol.value + addend:#x}"
                    held = of_code if is_code else f"({symbol.name})"
                    operands[at] = f"{_HALVES[kind]}@{held}"
                elif kind in _CALLS and is_function and not addend and names[symbol.name] == 1:
                    operands[at] = f"`({symbol.name})"
                    called.add(symbol.section)
                else:
                    unresolved.add(at)
        return operands, called, min(unresolved, default=None)

    def attributes(self, section: _Section | None) -> Iterator[tuple[int, bytes]]:
        """Yields the numbers and values of the attributes with a size, and of empty ones."""
        place, end = (section.offset, section.offset + section.size) if section else (0, 0)
        while place + 4 <= end:
            form, number, size = struct.unpack_from("<BBH", self.data, place)
            place += 4
            if form == _SIZED:
                if place + size > end:
                    raise damaged(self.name, "an attribute ends behind its section")
                yield number, self.data[place : place + size]
                place += size
            elif form == _BARE:
                yield number, b""

    def described(
        self,
        of: tuple[str, int],
        code: bytes,
        functions: tuple[Function, ...],
        attributes: list[tuple[int, bytes]],
        of_kernel: Mapping[int, int],
    ) -> CodeSection:
        """Returns a kernel's section with its shared bytes, from its attributes and the file's."""
        kernel, shared_bytes = of
        single = dict(attributes)
        arguments: list[tuple[int, Argument]] = []
        branches: dict[int, tuple[int, ...]] = {}
        for attribute, value in attributes:
            if attribute == _PARAMETER:
                _, ordinal, offset, packed = struct.unpack("<IHHI", value)
                arguments.append((ordinal, Argument(offset, packed >> 18)))
            elif attribute == _BRANCHES:
                branches |= dict(_indexed(value))
        arguments.sort()
        if [ordinal for ordinal, _ in arguments] != list(range(len(arguments))):
            raise damaged(self.name, f"parameters of {kernel} are missing, or there twice")
        if not 0 < of_kernel[_REGISTERS] <= 255:
            raise damaged(self.name, f"it does not say how many registers {kernel} uses")
        constants = single.get(_CONSTANTS)
        at, size = struct.unpack("<4xHH", constants) if constants else (0, 0)
        if arguments and (at < _LAUNCH_BYTES or at % 4):
            raise damaged(self.name, f"it does not say where the parameters of {kernel} lie")
        ends = (a.offset + a.size for _, a in arguments)
        starts = (*(a.offset for _, a in arguments[1:]), size)
        if any(end > start for end, start in zip(ends, starts, strict=False)):
            raise damaged(self.name, f"the parameters of {kernel} do not fit")
        return CodeSection(
            name=kernel,
            code=code,
            functions=functions,
            registers=of_kernel[_REGISTERS],
            shared_bytes=shared_bytes,
            local_bytes=of_kernel[_FRAME],
            parameters=tuple(a for _, a in arguments),
            parameters_at=at,
            threads=_three(single.get(_THREADS)),
            most_threads=_three(single.get(_MOST_THREADS)),
            cluster=_three(single.get(_CLUSTER, bytes(12) if _IN_CLUSTERS in single else None)),
            branches=branches,
            relocated={},
        )


def _three(value: bytes | None) -> tuple[int, int, int] | None:
    if value is None:
        return None
    x, y, z = struct.unpack("<III", value)
    return x, y, z


def _indexed(value: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields the address of each indexed branch, with its targets."""
    place = 0
    while place < len(value):
        at, _, count = struct.unpack_from("<III", value, place)
        place += 12
        yield at, struct.unpack_from(f"<{count}I", value, place) if count else ()
        place += 4 * count
