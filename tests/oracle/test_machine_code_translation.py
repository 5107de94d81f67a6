"""The kernel that analyses read of machine code against the code: registers, addresses, claims.

Both are executed side by side (``translation_oracle.py``), on kept listings in every run of the
tests, and the claims of the analyses are held to the executions (``machine_code_containment.py``).
Mistakes that somebody could make in the translation are seen (``translation_breaks.tsv``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import integer_programs
import numpy as np
import pytest
import sass_execution
from machine_code_containment import Held, held
from random_launches import load
from sass_execution import Program, UncoveredError, run_machine_code
from test_machine_code import needs_tools
from test_machine_code_execution import (
    BY_NAME,
    INTEGERS,
    LAUNCH,
    SAMPLES,
    SASS,
    SPECIALS,
    listed,
    run_of,
)
from test_machine_code_execution import translated as compiled
from translation_oracle import Translated

from ptxwcet.emulator.launch import Argument, EmulatedLaunch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.sass import translation
from ptxwcet.sass.lowering import read_program
from ptxwcet.support.source import SourceFile

POINTERS = ("pointers_86", "pointers_90")
REDUCED = "reduced_86"
BREAKS = SASS / "translation_breaks.tsv"


_READ = "IMAD.WIDE R8, R20, R21, R2"
HALVES = {
    "a sum": "IADD3 R2, P0, R4, R6, RZ; IADD3.X R3, R5, R7, RZ, P0, !PT",
    "its carry is overwritten": "IADD3 R2, P0, R4, R6, RZ; ISETP.GE.AND P0, PT, R0, 0x3, PT; "
    "IADD3.X R3, R5, R7, RZ, P0, !PT",
    "what is added is overwritten": "IADD3 R2, P0, R4, R6, RZ; MOV R5, R20; "
    "IADD3.X R3, R5, R7, RZ, P0, !PT",
    "what is added is the first half": "IADD3 R2, P0, R4, R6, RZ; IADD3.X R3, R2, R7, RZ, P0, !PT",
    "a half for some": "IADD3 R2, P0, R4, R6, RZ; @P1 IADD3.X R3, R5, R7, RZ, P0, !PT",
    "another half for some": "@P1 IADD3 R2, P0, R4, R6, RZ; IADD3.X R3, R5, R7, RZ, P0, !PT",
    "the high half first": "IADD3.X R3, R5, R7, RZ, P1, !PT; IADD3 R2, P0, R4, R6, RZ",
    "no carry is read": "IADD3 R2, P0, R4, R6, RZ; IADD3.X R3, R5, R7, RZ, P1, !PT",
    "a carry that is not asked": "IADD3 R2, P0, R4, R6, RZ; IADD3.X R3, R5, R7, RZ, !P0, !PT",
    "three": "IADD3 R2, P0, P2, R4, R6, R0; IADD3.X R3, R5, R7, RZ, P0, P2",
    "one of two carries": "IADD3 R2, P0, P2, R4, R6, R4; IADD3.X R3, R5, R7, R5, P0, !PT",
    "a carry twice": "IADD3 R2, P0, P2, R4, R6, R4; IADD3.X R3, R5, R7, R5, P0, P0",
    "minus": "IADD3 R2, P0, R4, -R6, RZ; IADD3.X R3, R5, ~R7, RZ, P0, !PT",
    "minus a word": "IADD3 R2, P0, R4, -R6, RZ; IADD3.X R3, R5, -0x1, RZ, P0, !PT",
    "minus zero": "IADD3 R2, P0, R4, -R6, RZ; IADD3.X R3, R5, ~RZ, RZ, P0, !PT",
    "minus and no complement": "IADD3 R2, P0, R4, -R6, RZ; IADD3.X R3, R5, R7, RZ, P0, !PT",
    "lone words": "IADD3 R2, P0, R4, 0x10, RZ; IADD3.X R3, R7, R5, R6, P0, !PT",
    "a literal below zero": "IADD3 R2, P0, R4, -0x10, RZ; IADD3.X R3, R5, -0x1, RZ, P0, !PT",
    "a literal of 32 bits": "IADD3 R2, P0, R4, -0x10, RZ; IMAD.X R3, RZ, RZ, R5, P0",
    "words of others": "IADD3 R2, P0, R4, R7, RZ; IADD3.X R3, R6, R5, RZ, P0, !PT",
    "a product in the high half": "IADD3 R2, P0, R4, R6, RZ; IMAD.X R3, R5, 0x1, R7, P0",
    "a scaled sum": "LEA R2, P0, R4, R6, 0x2; LEA.HI.X R3, R4, R7, R5, 0x2, P0",
    "a scaled sum of a sign": "LEA R2, P0, R4, R6, 0x3; LEA.HI.X.SX32 R3, R4, R7, 0x3, P0",
    "a sum with a sign": "IADD3 R2, P0, R4, R6, RZ; LEA.HI.X.SX32 R3, R4, R7, 0x1, P0",
    "a sum with the sign of the other": "IADD3 R2, P0, R6, R4, RZ; "
    "LEA.HI.X.SX32 R3, R4, R7, 0x1, P0",
    "a sum with another sign": "IADD3 R2, P0, R4, R6, RZ; LEA.HI.X.SX32 R3, R0, R7, 0x1, P0",
    "a sum with more than a sign": "IADD3 R2, P0, R4, R6, RZ; LEA.HI.X.SX32 R3, R4, R7, 0x2, P0",
    "three with a sign": "IADD3 R2, P0, R4, R6, R0; LEA.HI.X.SX32 R3, R4, R7, 0x1, P0",
    "less with a sign": "IADD3 R2, P0, R4, -R6, RZ; LEA.HI.X.SX32 R3, R4, R7, 0x1, P0",
    "scaled otherwise": "LEA R2, P0, R4, R6, 0x2; LEA.HI.X R3, R4, R7, R5, 0x3, P0",
    "another number scaled": "LEA R2, P0, R4, R6, 0x2; LEA.HI.X R3, R6, R7, R5, 0x2, P0",
    "a shift": "SHF.L.U32 R2, R4, 0x3, RZ; SHF.L.U64.HI R3, R4, 0x3, R5",
    "a shift by a product": "IMAD.SHL.U32 R2, R4, 0x8, RZ; SHF.L.U64.HI R3, R4, 0x3, R5",
    "another shift": "IMAD.SHL.U32 R2, R4, 0x8, RZ; SHF.L.U64.HI R3, R4, 0x4, R5",
    "a shift of others": "IMAD.SHL.U32 R2, R6, 0x8, RZ; SHF.L.U64.HI R3, R4, 0x3, R5",
    "a sign": "MOV R2, R4; SHF.R.S32.HI R3, RZ, 0x1f, R4",
    "another sign": "MOV R2, R4; SHF.R.S32.HI R3, RZ, 0x1f, R6",
    "not all of a sign": "MOV R2, R4; SHF.R.S32.HI R3, RZ, 0x1e, R4",
    "copies": "MOV R2, R6; IMAD.MOV.U32 R3, RZ, RZ, R7",
    "copies that change places": "MOV R2, R7; MOV R3, R6",
    "a copy of a copy": "MOV R2, R6; MOV R3, R2",
    "a copy and a sum": "IADD3 R2, R4, R6, RZ; MOV R3, R7",
    "a copy of one half": "MOV R3, R4",
    "a product as a copy": "IMAD.U32 R2, RZ, RZ, R5; IMAD R3, RZ, R0, R4",
    "all of a product": "IMAD.WIDE.U32 R2, R4, R6, RZ",
    "a product for some": "@P1 IMAD.WIDE R2, R4, R6, R4",
    "halves in turn": "MOV R2, R4; MOV R3, R5; MOV R2, R6; MOV R3, R7; MOV R3, R20",
    "not aligned": "MOV R3, R4; MOV R2, R5; IADD3 R3, P0, R3, R6, RZ; IMAD.X R2, RZ, RZ, R2, P0; "
    "IADD3 R1, P0, R2, R3, RZ; IMAD.X R2, RZ, RZ, R3, P0",
    "written where some are": "@P1 BRA `(.L_NAME); MOV R3, R7; MOV R2, R4",
    "a loop": "MOV R2, R4; MOV R3, R5; MOV R21, 0x0; .L_NAME; IADD3 R2, P0, R2, R6, RZ; "
    "IADD3 R21, R21, 0x1, RZ; IADD3.X R3, R3, R7, RZ, P0, !PT; "
    "IMAD.WIDE R8, R20, R21, R2; ISETP.GE.AND P0, PT, R21, R20, PT; @!P0 BRA `(.L_NAME)",
    "shared": "STS [R0.X4+0x20], R4; STS.64 [R0.X8+0x200], R4; STS.128 [R0.X16+0x400], R4; "
    "STS.U8 [R0+-0x0], R4; LDS R2, [R0.X4+0x20]; LDS.64 R2, [R0.X8+0x1f8]; "
    "LDS.U16 R2, [R0.X4+0x20]",
    "behind a register": "MOV R22, c[0x0][0x168]; MOV R23, c[0x0][0x16c]; IADD3 R25, RZ, -0x1, RZ; "
    "SHF.L.U32 R24, R0, 0x2, RZ; LDG.E R2, [R22.64+0x1c]; IADD3 R22, P0, R22, 0x40, RZ; "
    "IMAD.X R23, RZ, RZ, R23, P0; LDG.E.64 R2, [R22.64+-0x38]; ULDC.64 UR4, c[0x0][0x168]; "
    "LDG.E.U8 R3, [R24.U32+UR4]; LDG.E R26, [R24.U32+UR4+0x8]",
    "above the middle of 32 bits": "SHF.L.U32 R24, R0, 0x2, RZ; IADD3 R24, R24, -0x80000000, RZ; "
    "ULDC.64 UR4, c[0x0][0x168]; UIADD3 UR4, UP0, UR4, -0x80000000, URZ; "
    "UIADD3.X UR5, UR5, -0x1, URZ, UP0, !UPT; LDG.E R26, [R24.U32+UR4]",
    "under one guard": "@P1 IADD3 R22, R4, 0x1, RZ; @P1 IADD3 R23, R22, R6, RZ; "
    "@P1 STS [R0.X4+0x20], R23",
    "a guard that changes": "@P1 IADD3 R22, R4, 0x1, RZ; ISETP.GT.AND P1, PT, R0, 0x5, PT; "
    "@P1 IADD3 R5, R22, R6, RZ",
    "read by all": "@P1 IADD3 R22, R4, 0x1, RZ; @P1 IADD3 R5, R22, R6, RZ; IADD3 R6, R22, 0x3, RZ",
    "both sides": "@P1 MOV R22, R4; @!P1 MOV R22, R6; IADD3 R5, R22, R6, RZ",
    "the other side": "MOV R22, R6; @P1 MOV R22, R4; @!P1 IADD3 R5, R22, R6, RZ; "
    "@P1 IADD3 R6, R22, R5, RZ",
    "a pair under a guard": "@P1 MOV R24, 0x4; @P1 IMAD.WIDE R22, R4, R24, R6; "
    "@P1 STS [R0.X4+0x20], R23; @P1 IMAD.WIDE R4, R20, R21, R22",
    "another guard": "ISETP.GT.AND P2, PT, R0, 0x9, PT; @P1 IADD3 R22, R4, 0x1, RZ; "
    "@P2 IADD3 R5, R22, R6, RZ",
    # registers of their own: others are read elsewhere, too
    "another guard alone": "ISETP.GT.AND P2, PT, R0, 0x1, PT; @P1 IADD3 R28, R4, 0x1, RZ; "
    "@P2 IADD3 R5, R28, R6, RZ",
    "a guard that changes alone": "ISETP.GE.AND P2, PT, R0, RZ, PT; @P1 IADD3 R29, R4, 0x1, RZ; "
    "@P2 ISETP.LT.AND P1, PT, R0, 0x40, PT; @P1 STS [R0.X4+0x20], R29",
    "a guard that changes over another number": "MOV R30, R6; @P1 IADD3 R30, R4, 0x1, RZ; "
    "ISETP.LT.AND P1, PT, R0, 0x40, PT; @P1 IADD3 R5, R30, R6, RZ",
    "words of several parameters": "IADD3 R2, P0, R4, c[0x0][0x160], RZ; "
    "IADD3.X R3, R5, c[0x0][0x168], RZ, P0, !PT",
    "a word of two parameters": "MOV R2, c[0x0][0x160]; MOV R3, c[0x0][0x168]; "
    "IADD3 R2, P0, R4, c[0x0][0x164], RZ; IADD3.X R3, R5, c[0x0][0x168], RZ, P0, !PT",
}
"""What may be a number of 64 bits in R2 and R3, and what only looks so; R4 to R7 are data."""


def by_hand() -> str:
    """A listing with what is above, each followed by what reads R2 and R3 as one."""
    lines = "S2R R0, SR_TID.X; ULDC.64 UR8, c[0x0][0x118]; MOV R20, 0x3; MOV R21, 0x5; "
    lines += "SHF.L.U32 R1, R0, 0x3, RZ; IADD3 R10, P0, R1, c[0x0][0x168], RZ; "
    lines += "IMAD.X R11, RZ, RZ, c[0x0][0x16c], P0"
    for number, code in enumerate(HALVES.values()):
        lines += f"; ISETP.GT.AND P1, PT, R0, {number % 30:#x}, PT; LDG.E.64 R4, [R10.64]; "
        lines += f"LDG.E.64 R6, [R10.64+{8 * number + 8:#x}]; {code.replace('NAME', str(number))}"
        before = code.split(".L_NAME")[0]
        lines += "" if "; ." in before or "BRA" not in code else f"; .L_{number}"
        lines += f"; {_READ}"
    made = [".target sm_86", ".disassembler 13.5.37", "", ".section by_hand", ".registers 32"]
    made += [".shared 4096", ".local 0", ".parameters 0x160", ".parameter 0x0 8"]
    made += [".parameter 0x8 8", ".kernel by_hand"]
    address = 0
    for line in (*lines.split("; "), "EXIT"):
        if line.startswith("."):
            made.append(f"{line}:")
            continue
        made.append(f"/*{address:04x}*/ {line} ; /* {_WORD} */")
        address += 16
    return "\n".join(made) + "\n"


_WORD = "000fc400078e00ff000000ff00037202"


@cache
def made_by_hand() -> Module:
    """See :func:`by_hand`."""
    return read_program(SourceFile("k.cubin", by_hand()))


def launch_by_hand() -> EmulatedLaunch:
    data = np.random.default_rng(7).integers(0, 1 << 63, 128).astype("u8") * 2 + 1
    data[::5] = 0xFFFF_FFFF
    data[::7] = 0x8000_0000
    return EmulatedLaunch((40, 1, 1), (1, 1, 1), (data.copy(), data))


def test_halves_written_by_hand() -> None:
    (kernel,) = made_by_hand().kernels
    found = beside(kernel, made_by_hand(), launch_by_hand())
    assert found.wrong == []
    assert found.checked > 400


def array(seed: int, kind: str, most: int = 40, size: int = 1024) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, size).astype(kind)


def arguments(kernel: str) -> tuple[Argument, ...]:
    """What a kernel of pointers.cu is launched with."""
    a, b, c = (array(seed, "i4") for seed in (1, 2, 3))
    wide = array(4, "i8", 1 << 62)
    parts = (5).to_bytes(2, "little") + bytes((6, 7)) + (-3).to_bytes(4, "little", signed=True)
    return {
        "down": (a, b, 7),
        "moved": (a, b, 9),
        "swapped": (a, b, c, 7),
        "counted": (wide.copy(), wide, 60, 3),
        "sums": (wide.copy(), wide, 0xFFFF_FFFF_0000_0003, 5),
        "parts": (a, array(5, "i2"), parts + (60).to_bytes(8, "little"), 9, -7, 50),
        "scaled": (a, b, 6, 5),
        "shared": (a, b, 5),
    }[kernel]


def launch_of_pointers(kernel: str) -> EmulatedLaunch:
    return EmulatedLaunch((40, 1, 1), (1, 1, 1), arguments(kernel))


def launch_of_reduced() -> EmulatedLaunch:
    return EmulatedLaunch((96, 1, 1), (1, 1, 1), (array(1, "i4"), array(3, "i4"), 20))


def beside(
    kernel: Kernel, module: Module, launch: EmulatedLaunch, own: Kernel | None = None
) -> Translated:
    """A kernel executed, with its translation beside it."""
    program = Program(kernel, module)
    found = Translated(translation.translated(kernel) if own is None else own)
    program.beside = found
    run_machine_code(program, launch, b"".join(content for _, content in launch.variables))
    return found


def kept() -> Iterator[tuple[str, Kernel, Module, EmulatedLaunch]]:
    """All kernels of kept listings, with a launch; short ones first."""
    yield "by hand", made_by_hand().kernels[0], made_by_hand(), launch_by_hand()
    for listing in POINTERS:
        for kernel in listed(listing).kernels:
            yield listing, kernel, listed(listing), launch_of_pointers(kernel.name)
    for kernel in listed(REDUCED).kernels:
        yield REDUCED, kernel, listed(REDUCED), launch_of_reduced()
    for listing, name in SAMPLES.items():
        module = listed(listing)
        (kernel,) = (one for one in module.kernels if one.name == BY_NAME[name].kernel)
        yield listing, kernel, module, run_of(name, 3)[0]
    block, grid = (5, 3, 3), (2, 3, 2)
    words = np.zeros(32 * math.prod(block) * math.prod(grid), np.uint32)
    specials = EmulatedLaunch(block, grid, (words, 0x1234_5678_FFFF_FF90))
    for listing in SPECIALS:
        yield listing, listed(listing).kernels[0], listed(listing), specials
    for listing in INTEGERS:
        for kernel in listed(listing).kernels:
            yield listing, kernel, listed(listing), LAUNCH


def test_registers_and_addresses_are_those_of_the_code() -> None:
    checked = addresses = 0
    for kernel in listed("pointers_86").kernels:
        if kernel.name in ("down", "moved", "shared"):
            continue  # they are held to what is claimed of them, below
        found = beside(kernel, listed("pointers_86"), launch_of_pointers(kernel.name))
        assert found.wrong == [], kernel.name
        checked, addresses = checked + found.checked, addresses + found.addresses
    assert checked > 2_000
    assert addresses > 80


@pytest.mark.thorough
def test_registers_and_addresses_of_all_that_is_kept() -> None:
    for listing, kernel, module, launch in kept():
        assert beside(kernel, module, launch).wrong == [], (listing, kernel.name)


def test_numbers_of_64_bits_are_read_as_one() -> None:
    """Pointers in loops are sums of whole numbers: no access rests on halves put together."""
    kernel = next(one for one in listed("pointers_86").kernels if one.name == "swapped")
    own = translation.translated(kernel)
    assert own.code is not None
    wide = [name for name in own.registers if ":" in name]
    assert wide
    assert all(own.registers[name] == "b64" for name in wide)
    assert own.code.added


# --- claims ---------------------------------------------------------------------------------------


def total(rows: list[Held]) -> Held:
    """The sums of what was compared."""
    names = [one.name for one in fields(Held) if one.type == "int"]
    return Held(**{name: sum(getattr(row, name) for row in rows) for name in names})


def test_executions_do_what_is_claimed() -> None:
    rows = []
    for kernel in listed("pointers_86").kernels:
        if kernel.name in ("down", "moved", "shared"):  # all others in the thorough tests
            found = held(kernel, listed("pointers_86"), launch_of_pointers(kernel.name))
            assert found.wrong == [], kernel.name
            rows.append(found)
    whole = total(rows)
    assert whole.states > 30
    assert whole.accesses > 10
    assert whole.branches > 5


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ["any_left", "all_done", "counted"])
def test_what_a_block_reduces_is_alike_for_its_warps(name: str) -> None:
    """They leave a loop with barriers for it, together."""
    kernel = next(one for one in listed(REDUCED).kernels if one.name == name)
    assert beside(kernel, listed(REDUCED), launch_of_reduced()).wrong == []
    found = held(kernel, listed(REDUCED), launch_of_reduced())
    assert (found.refused, found.wrong) == ("", [])
    assert found.uniform >= 2


@pytest.mark.thorough
def test_executions_of_all_that_is_kept_do_what_is_claimed() -> None:
    for listing, kernel, module, launch in kept():
        constants = b"".join(content for _, content in launch.variables)
        found = held(kernel, module, launch, constants)
        assert found.wrong == [], (listing, kernel.name)


# --- mistakes -------------------------------------------------------------------------------------


def breaks() -> Iterator[list[str]]:
    """Module, text, another one."""
    for line in BREAKS.read_text(encoding="utf-8").splitlines()[1:]:
        yield [one.replace("\\n", "\n") for one in line.split("\t")]


def broken(name: str, text: str, other: str) -> ModuleType:
    """A module of the translation with one mistake."""
    right = import_module(f"ptxwcet.sass.{name}")
    source = Path(str(right.__file__)).read_text(encoding="utf-8")
    assert text in source
    found = ModuleType("broken")
    exec(compile(source.replace(text, other, 1), "broken", "exec"), found.__dict__)
    return found


def is_seen() -> bool:
    """Whether a kernel that is kept shows the mistake."""
    for _, kernel, module, launch in kept():
        try:
            if beside(kernel, module, launch).wrong:
                return True
        except UncoveredError:
            continue
        except (AssertionError, KeyError, ValueError, StopIteration):
            return True  # it cannot be translated, or a load is beyond a parameter
    return False


FUNCTIONS = (
    *("wholes", "are_halves", "moved_register"),
    *("with_webs", "speculated", "access_of_code"),
)
"""What the translation takes of the modules in which mistakes are made."""


def install(name: str, text: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The translation with a mistake in one of its modules."""
    module = broken(name, text, other)
    if name == "translation":
        monkeypatch.setattr(translation, "translated", module.translated)
    for one in FUNCTIONS:
        if hasattr(module, one) and name != "translation":
            monkeypatch.setattr(translation, one, getattr(module, one))
    monkeypatch.setattr(sass_execution, "MOST_STEPS", 5_000)


@pytest.mark.every(100)
@pytest.mark.parametrize(("name", "text", "other"), list(breaks()))
def test_a_break_of_the_translation_is_seen(
    name: str, text: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(name, text, other, monkeypatch)
    assert is_seen()


# --- with the tools -------------------------------------------------------------------------------


@needs_tools
@pytest.mark.thorough
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("architecture", [80, 86, 90])
def test_all_samples(architecture: int, level: int, tmp_path: Path) -> None:
    modules: dict[str, Module] = {}
    for kind in BY_NAME.values():
        if kind.file not in modules:
            text = load(kind.file).source.text.replace(".target sm_86", ".target sm_80")
            (tmp_path / "k.ptx").write_text(text, encoding="utf-8")
            modules[kind.file] = compiled(tmp_path / "k.ptx", architecture, level)
        (kernel,) = (one for one in modules[kind.file].kernels if one.name == kind.kernel)
        if any(one.control is ControlEffect.CALL for one in kernel.instructions):
            continue
        launch, _ = run_of(kind.name, 1)
        assert beside(kernel, modules[kind.file], launch).wrong == [], kind.name
        constants = b"".join(content for _, content in launch.variables)
        assert held(kernel, modules[kind.file], launch, constants).wrong == [], kind.name


@needs_tools
@pytest.mark.thorough
@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("architecture", [80, 86, 90])
def test_random_programs(architecture: int, level: int, tmp_path: Path) -> None:
    pool = integer_programs.taken(integer_programs.integer_statements(), tmp_path)
    seeds = range(1000 * architecture, 1000 * architecture + 20)
    text = integer_programs.program(seeds, pool)
    (tmp_path / "k.ptx").write_text(text, encoding="utf-8")
    module, launch = compiled(tmp_path / "k.ptx", architecture, level), integer_programs.launch(9)
    for kernel in module.kernels:
        if any(one.control is ControlEffect.CALL for one in kernel.instructions):
            continue
        try:
            assert beside(kernel, module, launch).wrong == [], kernel.name
        except UncoveredError:
            continue
