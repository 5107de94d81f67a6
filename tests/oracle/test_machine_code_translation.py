"""The kernel that analyses read of machine code against the code: registers, addresses, claims.

Both are executed side by side (``translation_oracle.py``), on kept listings in every run of the
tests, and the claims of the analyses are held to the executions (``machine_code_containment.py``).
Mistakes that somebody could make in the translation are seen (``translation_breaks.tsv``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
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
from ptxwcet.ir.kernel import Kernel, Module, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.sass import translation
from ptxwcet.sass.lowering import read_program
from ptxwcet.support.source import SourceFile

POINTERS = ("pointers_86", "pointers_90")
BREAKS = SASS / "translation_breaks.tsv"


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
    for listing in POINTERS:
        for kernel in listed(listing).kernels:
            yield listing, kernel, listed(listing), launch_of_pointers(kernel.name)
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


@pytest.mark.parametrize("listing", POINTERS)
def test_registers_and_addresses_are_those_of_the_code(listing: str) -> None:
    checked = addresses = 0
    for kernel in listed(listing).kernels:
        found = beside(kernel, listed(listing), launch_of_pointers(kernel.name))
        assert found.wrong == [], kernel.name
        checked, addresses = checked + found.checked, addresses + found.addresses
    assert checked > 3_000
    assert addresses > 100


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


def test_calls_are_refused() -> None:
    """A function works on the registers of its caller, which nothing here follows."""
    listing = (SASS / "control_86.sass").read_text(encoding="utf-8")
    module = read_program(SourceFile("k.cubin", listing))
    calling = {
        one.name
        for one in module.kernels
        if any(it.control is ControlEffect.CALL for it in one.instructions)
    }
    assert calling
    for one in translation.translated_program(module).kernels:
        if one.name in calling:
            assert isinstance(one, UnreadKernel)
            assert one.failure.code == "PW125"
            assert "calls a function" in one.failure.message


# --- claims ---------------------------------------------------------------------------------------


def total(rows: list[Held]) -> Held:
    """The sums of what was compared."""
    names = [one.name for one in fields(Held) if one.type == "int"]
    return Held(**{name: sum(getattr(row, name) for row in rows) for name in names})


@pytest.mark.parametrize("listing", ["pointers_86"])
def test_executions_do_what_is_claimed(listing: str) -> None:
    rows = []
    for kernel in listed(listing).kernels:
        if kernel.name in ("sums", "parts"):
            continue  # those with pointers that nothing is known of: in the thorough tests
        found = held(kernel, listed(listing), launch_of_pointers(kernel.name))
        assert found.wrong == [], kernel.name
        rows.append(found)
    whole = total(rows)
    assert whole.states > 50
    assert whole.accesses > 20
    assert whole.branches > 5


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


def install(name: str, text: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The translation with a mistake in one of its modules."""
    module = broken(name, text, other)
    if name == "translation":
        monkeypatch.setattr(translation, "translated", module.translated)
    for one in ("wholes", "are_halves", "moved_register", "with_webs", "access_of_code"):
        if hasattr(module, one) and name != "translation":
            monkeypatch.setattr(translation, one, getattr(module, one))
    monkeypatch.setattr(sass_execution, "MOST_STEPS", 5_000)


@pytest.mark.every(8)
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
