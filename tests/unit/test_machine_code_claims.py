"""What is reported of cubins that are old, or linked from several files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from disassembler import needs_nvdisasm
from places import DATA, SAMPLES
from programs import run_program
from refusals import refusal_of
from sass_listings import SASS, listing

from ptxwcet.ir.kernel import UnreadKernel
from ptxwcet.opened.machine_code import machine_code
from ptxwcet.opened.nvcc import Compilation
from ptxwcet.sass.elf import ARCHITECTURES, architecture_of, read_cubin
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.reading import read_source
from ptxwcet.sass.translation import translated_program
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

FAULTS = DATA / "faults"


@pytest.mark.parametrize(("name", "architecture"), [("older_61", 61), ("older_35_32_bits", 35)])
def test_cubins_of_older_architectures_are_refused_by_these(name: str, architecture: int) -> None:
    path = FAULTS / f"{name}.cubin"
    problem = refusal_of(read_source, path)
    assert problem.code == "PW125"
    assert f"sm_{architecture}, which is older" in problem.message
    assert all(f"sm_{number}" in problem.notes[0] for number in ARCHITECTURES)
    named = Compilation(f"sm_{architecture}")
    assert refusal_of(machine_code, str(path), named).message == problem.message


@pytest.mark.parametrize("architecture", [20, 21, 30, 52, 70, 72, 88, 100, 120])
def test_any_other_architecture_is_named(architecture: int, tmp_path: Path) -> None:
    data = bytearray((FAULTS / "older_61.cubin").read_bytes())
    data[48] = architecture
    path = tmp_path / "k.cubin"
    path.write_bytes(data)
    assert architecture_of(bytes(data)) == architecture
    ended = run_program(path, "--block", "32")
    assert f"error[PW125]: '{path}' is machine code for sm_{architecture}, which is" in ended.err
    kind = "older" if architecture < 75 else "not among" if architecture < 90 else "newer"
    assert kind in ended.err


def test_registers_are_read_from_the_section_where_older_compilers_write_them() -> None:
    cubin = read_cubin("c", (FAULTS / "registers_in_sh_info.cubin").read_bytes())
    assert [section.registers for section in cubin.sections] == [8]


@needs_nvdisasm
@pytest.mark.parametrize(
    "command", [["bound"], ["annotate"], ["memory"], ["simulate", "--policy", "lrr"]]
)
def test_reports_of_machine_code_say_nothing_of_ptx(command: list[str]) -> None:
    """On a machine that executes PTX by definition."""
    words = ("--machine", "orin-ecrts2025", "--block", "32", "--format", "json")
    shown = run_program(*command, FAULTS / "registers_in_sh_info.cubin", *words)
    report = json.loads(shown.out)
    assert "ptx-is-executed" not in json.dumps(report)
    of_ptx = run_program(*command, SAMPLES / "saxpy.ptx", "--param", "n=64", *words)
    assert "ptx-is-executed" in json.loads(of_ptx.out)["machine"]["by_definition"]


# --- linked files --------------------------------------------------------------------------------


def test_the_addresses_of_a_linked_file_are_read_from_its_relocations() -> None:
    caller, callee = read_cubin("c", (SASS / "linked_86.cubin").read_bytes()).sections
    assert (caller.is_kernel, callee.is_kernel) == (True, False)
    assert caller.unresolved is None
    assert not callee.relocated
    assert caller.relocated[0x20] == "lo@(table)"
    assert caller.relocated[0x160] == "lo@0x1d0"
    assert caller.relocated[0x1C0] == "`(_Z3sumiPKi)"
    assert caller.registers > callee.registers > 0


@needs_nvdisasm
def test_the_kept_listing_is_that_of_the_linked_file() -> None:
    lines = read_source(SASS / "linked_86.cubin").text.splitlines()
    assert lines[2:] == listing("linked_86").splitlines()[2:]  # without the version


def linked(*changes: tuple[str, str]) -> object:
    """The kernel of the kept listing, with changes."""
    text = listing("linked_86")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return translated_program(read_program(SourceFile("k.cubin", text))).kernels[0]


def test_calls_between_linked_files_are_followed() -> None:
    assert not isinstance(linked(), UnreadKernel)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("MOV R20, lo@0x1d0", "MOV R20, lo@0x1e0", "may not return to the next instruction"),
        ("MOV R21, hi@0x1d0", "MOV R21, 0x0", "may not return to the next instruction"),
        ("MOV R21, hi@0x1d0", "MOV R23, hi@0x1d0", "may not return to the next instruction"),
        ("MOV R21, hi@0x1d0", "MOV RZ, hi@0x1d0", "may not return to the next instruction"),
        ("RET.ABS.NODEC R20 0x0", "RET.ABS.NODEC R22 0x0", "of which nothing is known"),
        ("`(_Z3sumiPKi) ; /* 020fea0003c", "`(vprintf) ; /* 020fea0003c", "vprintf"),
        ("CALL.ABS.NOINC `(_Z3sumiPKi)", "CALL.ABS.NOINC R2", "what a register holds"),
        (
            ".local 0\n.parameters 0x160",
            ".local 0\n.relocations 0x1c0\n.parameters 0x160",
            "_Z3sum",
        ),
        (
            ".local 0\n.parameters 0x160",
            ".local 0\n.relocations 0x20\n.parameters 0x160",
            "address",
        ),
    ],
)
def test_what_is_not_proved_of_a_linked_call_is_refused(before: str, after: str, why: str) -> None:
    kernel = linked((before, after))
    assert isinstance(kernel, UnreadKernel)
    assert why in kernel.failure.message
