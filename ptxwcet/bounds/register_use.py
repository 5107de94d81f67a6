"""Reads the registers of a thread from ptxas: its ``-v`` text, a cubin, or a run of it.

PTX has an unlimited number of registers; ptxas decides how many of the machine's registers a thread
gets, for one architecture. A text is the output of ``nvcc -Xptxas -v`` or ``ptxas -v``, with any
other contents. In a cubin the section ``.nv.info`` has an attribute of each kernel's registers
(0x2f, after the number of its symbol); cubins of today and of the last years agree.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ptxwcet.bounds.wishes import Spills
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_bytes
from ptxwcet.support.printable import printable_line
from ptxwcet.support.records import dataclass

MOST_SECONDS = 120
"""The seconds after which ptxas is stopped."""

_ELF = b"\x7fELF"
_CUDA = 190  # machine number of an ELF file of CUDA
_SYMBOLS, _INFO = 2, 0x70000000  # types of sections
_REGISTER_COUNT = 0x2F
_SIZED = 4  # format of an attribute with a size
_HEADER_BYTES, _LONGEST_NAME = 64, 1 << 12
_MOST_REGISTERS = 1024

_COMPILING = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_USED = re.compile(r"Used (\d+) registers")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class RegisterUse:
    """The registers of a thread by kernel and architecture (``sm_87``; None in a cubin).

    ``spills`` by the same keys: bytes that a thread's code stores and loads for lack of registers,
    each instruction once; a cubin does not contain them.
    """

    name: str
    found: tuple[tuple[str, str | None, int], ...]
    spills: tuple[tuple[str, str | None, Spills], ...] = ()

    def of(self, kernel: str) -> tuple[int, str]:
        """Returns the registers of a thread of a kernel, and their source.

        Raises PtxwcetError (PW317) if the kernel is missing, or the numbers differ between
        architectures.
        """
        counts = {arch: count for name, arch, count in self.found if name == kernel}
        if len(set(counts.values())) == 1:
            (count,) = set(counts.values())
            targets = ", ".join(arch for arch in counts if arch is not None)
            return count, f"{self.name}, {targets}" if targets else self.name
        if not counts:
            listed = ", ".join(dict.fromkeys(name for name, _, _ in self.found)) or "none"
            raise _problem(
                f"{self.name} says nothing of the registers of kernel {kernel}",
                f"its kernels: {listed}; compile this PTX with ptxas -v, or give --registers",
            )
        shown = ", ".join(f"{count} for {arch}" for arch, count in counts.items())
        raise _problem(
            f"{self.name} has several numbers of registers of kernel {kernel}: {shown}",
            "give that of the architecture which is meant: --registers",
        )

    def spills_of(self, kernel: str) -> Spills | None:
        """Returns the spills of a kernel; None if unknown, or different between architectures."""
        spills = {spilled for name, _, spilled in self.spills if name == kernel}
        return next(iter(spills)) if len(spills) == 1 else None


def read_register_use(path: str) -> RegisterUse:
    """Reads the register use from a file that ptxas has written: a text or a cubin.

    Raises PtxwcetError (PW317) if it cannot be read, or lists no kernel. Cost: linear.
    """
    shown = printable_line(path)
    try:
        data = read_bytes(path, MOST_TEXT_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read '{shown}', which ptxas should have written: {reason}"
        raise _problem(message, _WANTED) from None
    is_cubin = data.startswith(_ELF)
    use = RegisterUse(shown, tuple(_of_cubin(data))) if is_cubin else _of_text(shown, data)
    if not use.found:
        raise _problem(f"{shown} says of no kernel how many registers a thread uses", _WANTED)
    return use


_DROPPED, _OLDEST = b"is not defined for option 'gpu-name'", "sm_75"  # message of CUDA 13


def ask_ptxas(text: str, machine: str = "") -> RegisterUse:
    """Runs ptxas on a PTX text, for the architecture of a machine, or its ``.target``.

    If this ptxas no longer supports the target, its oldest one is used.

    Raises PtxwcetError (PW318) if there is no ptxas on the PATH, or it does not compile the text.
    Cost: one compilation, at most two minutes.
    """
    program = shutil.which("ptxas")
    if program is None:
        raise _cannot_ask("there is no ptxas on the PATH")
    target = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    arch = machine or ("" if target is None else target[1])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(text, encoding="utf-8")
        command = [program, "-v", f"-arch={arch}", str(source), "-o", str(Path(folder) / "k.cubin")]
        try:
            run = subprocess.run(command, capture_output=True, timeout=MOST_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _cannot_ask(f"ptxas failed: {type(error).__name__}") from None
    output = run.stdout + run.stderr
    if run.returncode:
        if _DROPPED in output and not machine:
            return ask_ptxas(text, _OLDEST)
        first = output.decode("utf-8", "replace").replace(str(source), "the PTX").strip()
        reason = printable_line(first.splitlines()[0]) if first else f"exit code {run.returncode}"
        raise _cannot_ask(f"ptxas does not compile it for {arch}: {reason}")
    return _of_text(f"ptxas -v for {arch}", output)


def _of_text(name: str, data: bytes) -> RegisterUse:
    """Returns the register use in a text; spills are between a kernel's head and registers."""
    kernel: tuple[str, str] | None = None
    spilling = ""
    counts, spills = [], []
    for line in data.decode("utf-8", "replace").splitlines():
        if begins := _COMPILING.search(line):
            kernel, spilling = (begins[1], begins[2]), ""
        elif kernel is None:
            continue
        elif properties := _PROPERTIES.search(line):
            spilling = properties[1]
        elif (spilled := _SPILLED.search(line)) and spilling == kernel[0]:
            spills.append((*kernel, Spills(int(spilled[1]), int(spilled[2]))))
        elif used := _USED.search(line):
            if int(used[1]):  # no kernel has 0
                counts.append((*kernel, min(int(used[1]), _MOST_REGISTERS)))
            kernel = None
    return RegisterUse(name, tuple(counts), tuple(spills))


# --- cubins ---------------------------------------------------------------------------------------


def _of_cubin(data: bytes) -> Iterator[tuple[str, str | None, int]]:
    """Yields the kernels of an ELF file of 64 bits; nothing for other or truncated files.

    A header may be wrong: whatever sizes it states, the cost stays linear in the file.
    """
    try:
        if data[4:6] != b"\x02\x01" or struct.unpack_from("<H", data, 18)[0] != _CUDA:
            return
        sections = list(_sections(data))
        names = _symbol_names(data, sections)
        for kind, offset, size, _ in sections:
            if kind == _INFO:
                for symbol, count in _counts(data[offset : offset + size]):
                    if symbol in names and 0 < count <= _MOST_REGISTERS:
                        yield names[symbol], None, count
    except (struct.error, IndexError, OverflowError):
        return


def _sections(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yields type, place, size and link of each section."""
    (begin,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    left = len(data)
    for number in range(count if size == _HEADER_BYTES else 0):
        header = struct.unpack_from("<IIQQQQI", data, begin + number * size)
        if header[1] in (_INFO, _SYMBOLS):
            left -= header[5]
        if left < 0:
            return
        yield header[1], header[4], header[5], header[6]


def _symbol_names(data: bytes, sections: list[tuple[int, int, int, int]]) -> dict[int, str]:
    """Returns the names of symbols by their numbers."""
    names: dict[int, str] = {}
    for kind, offset, size, link in sections:
        if kind != _SYMBOLS:
            continue
        text = sections[link][1]
        for number in range(min(size, len(data)) // 24):
            (at,) = struct.unpack_from("<I", data, offset + 24 * number)
            end = data.find(b"\0", text + at, text + at + _LONGEST_NAME)
            names[number] = data[text + at : max(end, text + at)].decode("utf-8", "replace")
    return names


def _counts(info: bytes) -> Iterator[tuple[int, int]]:
    """Yields symbols and their registers from a list of attributes: format, number, size, value."""
    place = 0
    while place + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, place)
        if form == _SIZED and attribute == _REGISTER_COUNT and size == 8:
            symbol, count = struct.unpack_from("<II", info, place + 4)
            yield symbol, count
        place += 4 + (size if form == _SIZED else 0)


_WANTED = "give what ptxas -v prints for this PTX, or the cubin that it writes, or --registers"


def _problem(message: str, help: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW317", message, help=help))


def _cannot_ask(reason: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW318",
            f"--registers ptxas: {reason}",
            help="give the number (--registers 32), or what ptxas -v printed (--registers FILE)",
        )
    )
