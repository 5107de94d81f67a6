"""Machine code against the vendor's own view of it: registers, exits, and all that ptxas writes."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from life_ranges import life_ranges
from places import DATA, SAMPLES

from ptxwcet.ir.kernel import Instruction, Kernel, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.sass.elf import ARCHITECTURES
from ptxwcet.sass.listing import parse_listing
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.reading import read_source
from ptxwcet.support.source import SourceFile

SASS = DATA / "sass"
Found = dict[tuple[str, int], Instruction]
needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("nvdisasm", "ptxas"))), reason="no nvdisasm or ptxas on the PATH"
)


def instructions(source: SourceFile) -> Found:
    """By section and address, of all that is not refused."""
    sections = parse_listing(source).sections
    section_of = {name: s.name for s in sections for part in s.functions for name in part.names}
    found = {}
    for one in read_program(source).items:
        if isinstance(one, Kernel) and not isinstance(one, UnreadKernel):
            assert one.code is not None
            for encoded, instruction in zip(one.code.encoded, one.instructions, strict=True):
                found[section_of[one.name], encoded.address] = instruction
    return found


def agree(instruction: Instruction, reads: set[str], writes: set[str]) -> bool:
    """Whether it reads and writes these, but for what is not drawn."""
    mnemonic = instruction.mnemonic
    if mnemonic.startswith(("CALL", "R2P", "P2R")):
        return True
    pattern = re.compile(r"U?[RP]\d+")
    own_reads, own_writes = (
        {name for name in names if pattern.fullmatch(name)}
        for names in (instruction.reads, instruction.writes)
    )
    if mnemonic.startswith("LDGSTS"):  # its predicate is drawn as written, too
        writes = writes - reads
    # of the uniform registers the prologue's own are not drawn
    hidden = {f"UR{number}" for number in range(4)}
    return (own_reads - hidden, own_writes - hidden) == (reads - hidden, writes - hidden)


@pytest.mark.parametrize("name", ["control_86", "sgemm_naive_90"])
def test_registers_are_those_of_the_vendors_life_ranges(name: str) -> None:
    found = instructions(SourceFile("k.cubin", (SASS / f"{name}.sass").read_text()))
    rows = 0
    for line in (SASS / f"{name}.ranges").read_text().splitlines():
        place, reads, writes = line.split("|")
        section, address = place.split()
        instruction = found.get((section, int(address, 16)))
        if instruction is not None:
            assert agree(instruction, set(reads.split()), set(writes.split())), line
            rows += 1
    assert rows == len(found) > 100


def exits(data: bytes) -> dict[str, set[int]]:
    """Where the compiler says that kernels end: attribute 0x1c of their sections."""
    begin, size, count, names = (
        *struct.unpack_from("<Q", data, 40),
        *struct.unpack_from("<HHH", data, 58),
    )
    rows = [struct.unpack_from("<IIQQQQ", data, begin + n * size) for n in range(count)]
    found = {}
    for row in rows:
        start = rows[names][4] + row[0]
        name = data[start : data.index(b"\0", start)].decode()
        place, end = row[4], row[4] + row[5]
        while name.startswith(".nv.info.") and place < end:
            form, number, length = struct.unpack_from("<BBH", data, place)
            value = data[place + 4 : place + 4 + length] if form == 4 else b""
            if number == 0x1C and form == 4:
                places = struct.unpack(f"<{length // 4}I", value)
                found[name.removeprefix(".nv.info.")] = set(places)
            place += 4 + len(value)
    return found


@pytest.mark.parametrize(
    "name", ["control_86", "sgemm_naive_75", "sgemm_naive_86", "sgemm_naive_90"]
)
def test_kernels_end_where_the_compiler_says(name: str) -> None:
    found = instructions(SourceFile("k.cubin", (SASS / f"{name}.sass").read_text()))
    ends: dict[str, set[int]] = {}
    for (section, address), instruction in found.items():
        if instruction.control is ControlEffect.EXIT:
            ends.setdefault(section, set()).add(address)
    assert ends == exits((SASS / f"{name}.cubin").read_bytes())


@needs_tools
@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_samples_are_known_and_wait_for_what_they_read(
    architecture: int, tmp_path: Path
) -> None:
    for file in sorted(SAMPLES.glob("*.ptx")):
        text = re.sub(r"\.target sm_8\d", ".target sm_75", file.read_text())
        target = "cp.async" in text and architecture < 80
        if target:
            continue
        text = text if "cp.async" not in text else file.read_text()
        (tmp_path / "k.ptx").write_text(text)
        cubin = tmp_path / f"{file.stem}.cubin"
        command = ["ptxas", f"-arch=sm_{architecture}", str(tmp_path / "k.ptx"), "-o", str(cubin)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            assert architecture < 86  # written for newer ones
            continue
        source = read_source(cubin)
        module = read_program(source)
        assert module.warnings == (), file.name
        assert not [one for one in module.items if isinstance(one, UnreadKernel)], file.name
        drawn = life_ranges(str(cubin))
        for place, instruction in instructions(source).items():
            assert agree(instruction, *map(set, drawn[place])), instruction.span.text
