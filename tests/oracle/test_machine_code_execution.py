"""The oracle by translation: PTX in the emulator and ptxas's code of it leave the same memory.

The machine code is executed by its terms (``sass_execution.py``): each integer opcode that has a
term is so compared with what its PTX computes, on listings that are kept, and with the tools at
hand on all samples and on random programs.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import integer_programs
import numpy as np
import pytest
import sass_execution
from numpy.typing import NDArray
from parsing import parse_text
from places import DATA
from random_launches import KINDS, Kind, load, random_launch
from sass_execution import Program, UncoveredError, run_machine_code
from test_machine_code import needs_tools

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.ranges import interval_of
from ptxwcet.flow.values.transfer import compile_transfer
from ptxwcet.flow.values.value import Known, Value
from ptxwcet.ir.kernel import Instruction, Kernel, Module, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import Operand, Register, SpecialRegister
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Meaning, Op
from ptxwcet.sass import meanings
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.meanings import has_terms
from ptxwcet.sass.opcodes import ROWS
from ptxwcet.sass.reading import read_source
from ptxwcet.sass.splicing import with_copies
from ptxwcet.sass.translation import translated_program
from ptxwcet.support.source import SourceFile

if TYPE_CHECKING:
    from ptxwcet.flow.values.lane_state import LaneState

SASS = DATA / "sass"
BY_NAME = {kind.name: kind for kind in KINDS if kind.file.startswith("samples")}
SAMPLES = {
    "mandelbrot_86": "mandelbrot",
    "saxpy_80": "saxpy",
    "sgemm_naive_75": "sgemm_naive",
    "sgemm_naive_86": "sgemm_naive",
    "sgemm_naive_90": "sgemm_naive",
    "vector_add_90": "vector_add",
}
SPECIALS = ("specials_75", "specials_86", "specials_90")
INTEGERS = ("integers_86", "integers_90", "minima_90")
Buffers = Sequence[NDArray[Any] | None]


@cache
def listed(name: str) -> Module:
    return read_program(SourceFile("k.cubin", (SASS / f"{name}.sass").read_text(encoding="utf-8")))


def executed(kernel: Kernel, module: Module, launch: EmulatedLaunch) -> Buffers:
    found = execute(kernel, module, launch, options=EmulatorOptions())
    assert found.is_complete
    return found.buffers


def differs(kernel: Kernel, module: Module, launch: EmulatedLaunch, expected: Buffers) -> bool:
    """Whether machine code leaves anything else; numbers of floating point may differ a little.

    Raises UncoveredError where that depends on bits that its terms leave open.
    """
    constants = b"".join(content for _, content in launch.variables)
    program = Program(kernel, module)
    found = run_machine_code(program, launch, constants)
    if alike(found, expected):
        return False
    if program.has_open_bits and not alike(found, run_machine_code(program, launch, constants)):
        raise UncoveredError("bits that are left open")
    return True


def alike(found: Buffers, expected: Buffers) -> bool:
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            assert one is other
        elif one.dtype.kind == "f":
            if not np.allclose(one, other.reshape(one.shape), 1e-5, 1e-6, equal_nan=True):
                return False
        elif not np.array_equal(one, other.reshape(one.shape)):
            return False
    return True


@cache
def run_of(name: str, seed: int) -> tuple[EmulatedLaunch, Buffers]:
    """A launch of a sample, and what it leaves."""
    kind = BY_NAME[name]
    kernel, _, launch, _ = random_launch(kind, seed)
    return launch, executed(kernel, load(kind.file), launch)


def of_sample(kind: Kind, module: Module, seed: int) -> bool:
    launch, expected = run_of(kind.name, seed)
    (translated,) = (one for one in module.kernels if one.name == kind.kernel)
    return differs(translated, module, launch, expected)


@pytest.mark.parametrize("name", SAMPLES)
def test_kept_samples_leave_the_memory_of_their_ptx(name: str) -> None:
    assert not of_sample(BY_NAME[SAMPLES[name]], listed(name), 3)


def of_specials(listing: str) -> bool:
    block, grid = (5, 3, 3), (2, 3, 2)
    words = np.zeros(32 * math.prod(block) * math.prod(grid), np.uint32)
    launch = EmulatedLaunch(block, grid, (words, 0x1234_5678_FFFF_FF90))
    ptx, module = parse_text((SASS / "specials.ptx").read_text("utf-8")), listed(listing)
    return differs(module.kernels[0], module, launch, executed(ptx.kernels[0], ptx, launch))


@pytest.mark.parametrize("listing", SPECIALS)
def test_special_registers_and_signs(listing: str) -> None:
    assert not of_specials(listing)


def with_tables(name: str, turned: bool, block: int, *numbers: int) -> bool:
    """Whether a kernel with constant bank 2, or with its words turned round, leaves what its PTX
    does.
    """
    listing, file = f"{name}_{'90' if name == 'uniform' else '80'}", SASS / f"{name}.ptx"
    content = (SASS / f"{listing}.tables").read_text(encoding="utf-8").split()[1]
    tables = np.frombuffer(bytes.fromhex(content), np.uint32)[:: -1 if turned else 1].tobytes()
    ptx, module = parse_text(file.read_text(encoding="utf-8")), listed(listing)
    words = np.zeros(6 * 2 * block, np.uint32)
    launch = EmulatedLaunch((block, 1, 1), (2, 1, 1), (words, *numbers))
    expected = executed(ptx.kernels[0], ptx, launch)
    found = run_machine_code(Program(module.kernels[0], module, tables), launch)
    return alike(found, expected)


@pytest.mark.parametrize("turned", [False, True])
def test_indexed_branches_of_a_whole_warp(turned: bool) -> None:
    numbers = [(11 + 3 * case, 4 + 9 * case, case) for case in range(4)]
    assert all(with_tables("uniform", turned, 40, *one) for one in numbers) != turned


@pytest.mark.parametrize("turned", [False, True])
def test_literals_of_64_bits_lie_in_a_bank_of_the_compiler(turned: bool) -> None:
    assert with_tables("literals", turned, 40, 0x1234_5678_9ABC_DEF0) != turned


# --- every row of the table -----------------------------------------------------------------------

LAUNCH = integer_programs.launch(1)


@cache
def left_by(listing: str) -> dict[str, Buffers]:
    """What the kept integer programs leave, by the name of the kernel."""
    module = parse_text((SASS / f"{listing}.ptx").read_text(encoding="utf-8"))
    return {one.name: executed(one, module, LAUNCH) for one in module.kernels}


@pytest.mark.parametrize("name", INTEGERS)
def test_kept_programs_leave_the_memory_of_their_ptx(name: str) -> None:
    module, memory = listed(name), left_by(name)
    assert {one.name for one in module.kernels} == memory.keys()
    for kernel in module.kernels:
        assert not differs(kernel, module, LAUNCH, memory[kernel.name]), kernel.name


def of_copies(spoil: Callable[[Kernel], Kernel] = lambda kernel: kernel) -> bool:
    """Whether a kernel whose function is copied into it leaves other memory than its PTX."""
    module, memory = listed("integers_86"), left_by("integers_86")
    (kernel,) = (one for one in module.kernels if one.name == "k105")
    whole = spoil(with_copies(kernel, {one.name: one for one in module.functions}))
    assert len(whole.instructions) > len(kernel.instructions)
    assert all(one.callee is None for one in whole.instructions)
    assert all(one.control is not ControlEffect.RETURN for one in whole.instructions)
    return differs(whole, replace(module, items=(whole,)), LAUNCH, memory["k105"])


def test_copies_of_functions_do_what_calls_do() -> None:
    assert not of_copies()


def test_a_copy_that_returns_elsewhere_is_seen() -> None:
    def later(kernel: Kernel) -> Kernel:
        (behind,) = (name for name in kernel.labels if name.endswith("behind"))
        return replace(kernel, labels={**kernel.labels, behind: kernel.labels[behind] + 1})

    assert of_copies(later)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("calls", "a function that writes R20, by which it or a caller returns"),
        ("unknown", "a call of"),
    ],
)
def test_calls_of_which_the_return_is_not_proved_are_refused(name: str, why: str) -> None:
    kernels = {one.name: one for one in translated_program(listed("control_86")).kernels}
    refused = kernels[name]
    assert isinstance(refused, UnreadKernel)
    assert refused.failure.code == "PW125"
    assert why in refused.failure.message


def first_with(name: str) -> Iterator[tuple[str, Kernel]]:
    """The listings and kernels that have an opcode, the short ones first."""
    for listing in dict.fromkeys(("vector_add_90", "saxpy_80", *INTEGERS, *SAMPLES)):
        for kernel in listed(listing).kernels:
            if any(one.opcode and one.opcode.name == name for one in kernel.instructions):
                yield listing, kernel


@pytest.mark.every(3)
@pytest.mark.parametrize("name", list(filter(has_terms, ROWS)))
def test_an_altered_row_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # zeros that the sample loads are of floating point: one bit is less than is compared
    bits = -1 if name == "CS2R" else 1

    def altered(instruction: Instruction, registers: Mapping[str, str]) -> Meaning | None:
        """The results of this opcode with their lowest bit turned around."""
        found = meaning_of(instruction, registers)
        if found is None or instruction.opcode is None or instruction.opcode.name != name:
            return found
        results = tuple(one if one.op is Op.ANY else one ^ bits for one in found.results)
        return Meaning(results, found.sources)

    monkeypatch.setattr(sass_execution, "meaning_of", altered)
    monkeypatch.setattr(sass_execution, "MOST_STEPS", 3_000)
    assert any(is_seen(*place) for place in first_with(name)), f"nothing that is kept sees {name}"


def is_seen(listing: str, kernel: Kernel) -> bool:
    """Whether a kept kernel leaves other memory than it should."""
    module = listed(listing)
    try:
        if listing in SAMPLES:
            return of_sample(BY_NAME[SAMPLES[listing]], module, 3)
        if listing in SPECIALS:
            return of_specials(listing)
        return differs(kernel, module, LAUNCH, left_by(listing)[kernel.name])
    except (AssertionError, KeyError):  # it does not end, leaves memory, or the code
        return True


def breaks() -> Iterator[list[str]]:
    """Mistakes that somebody could make: signs, halves, orders of operands, limits."""
    for line in (SASS / "breaks.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        yield [one.replace("\\n", "\n") for one in line.split("\t")]


@pytest.mark.thorough
@pytest.mark.parametrize(("text", "other"), list(breaks()))
def test_a_break_of_a_builder_is_seen(
    text: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ModuleType("broken")
    source = Path(meanings.__file__).read_text(encoding="utf-8")
    assert text in source
    exec(compile(source.replace(text, other, 1), "broken", "exec"), broken.__dict__)
    rows = {name: broken.meaning_of_opcode(name) for name in ROWS}

    def altered(instruction: Instruction, registers: Mapping[str, str]) -> Meaning | None:
        right = meaning_of(instruction, registers)
        row = rows[instruction.opcode.name] if instruction.opcode else None
        if right is None or row is None:
            return right
        found = row(instruction.modifiers, instruction.operands)
        return found if found and len(found.results) == len(right.results) else None

    monkeypatch.setattr(sass_execution, "meaning_of", altered)
    monkeypatch.setattr(sass_execution, "MOST_STEPS", 3_000)
    listings = (*SPECIALS, "vector_add_90", "saxpy_80", *INTEGERS, *SAMPLES)
    places = ((one, kernel) for one in listings for kernel in listed(one).kernels)
    with suppress(UncoveredError):  # what has no term now is not executed: that is seen, too
        assert any(is_seen(*place) for place in places)


# --- a domain of terms ----------------------------------------------------------------------------


class Read:
    """Registers as the domain of values reads them, all known in each lane."""

    active = np.ones(2 * 32, dtype=bool)

    def __init__(self, read: Callable[[Operand], NDArray[np.uint64]]) -> None:
        self.read = read

    def register(self, name: str) -> Value:
        bits = 1 if name.lstrip("U").startswith("P") else 32
        return Known(canonical_lanes(self.read(Register(name)), bits))

    def special(self, name: str) -> Value:
        return Known(canonical_lanes(self.read(SpecialRegister(name)), 32))


def canonical_lanes(words: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    lanes = words.astype(np.int64)
    return lanes if bits == 1 else ((lanes + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)


@pytest.mark.parametrize("name", ["integers_86", "integers_90"])
def test_the_domain_of_values_reads_machine_code(name: str) -> None:
    module, known, unknown = listed(name), set[str](), set[str]()

    def watch(
        instruction: Instruction,
        read: Callable[[Operand], NDArray[np.uint64]],
        results: Sequence[NDArray[np.uint64]],
    ) -> None:
        transfer = compile_transfer(instruction, 0, registers)
        values = transfer(cast("LaneState", Read(read)))
        for written, value, lanes in zip(instruction.writes, values, results, strict=True):
            if not isinstance(value, Known):
                unknown.add(instruction.span.text)
                continue
            bits = 1 if registers[written] == "pred" else 32
            numbers = canonical_lanes(lanes, bits)
            if value.terms:
                held = interval_of(value, IntegerType(bits, signed=True), Read.active)
                assert held.low <= numbers.min() <= numbers.max() <= held.high
                continue
            there = Read.active if value.valid is None else value.valid
            assert (numbers == value.base)[there].all(), instruction.span.text
            known.add(instruction.span.text)

    for kernel in module.kernels:
        if kernel.name in ("k62", "k72", "k105", "k114"):
            registers = kernel.registers
            program = Program(kernel, module)
            program.watch = watch
            run_machine_code(program, LAUNCH)
    # what parameters hold is for the launch to say, and not read from constant banks so far
    assert [one for one in unknown if "c[" not in one and "I2I" not in one] == []
    assert len(known) > 120


# --- with the tools -------------------------------------------------------------------------------


def translated(ptx: Path, architecture: int, level: int) -> Module:
    cubin = ptx.with_suffix(".cubin")
    options = [f"-arch=sm_{architecture}", f"-O{level}"]
    subprocess.run(["ptxas", *options, str(ptx), "-o", str(cubin)], check=True)
    return read_program(read_source(cubin))


@needs_tools
@pytest.mark.thorough
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("architecture", [80, 86, 90])
def test_all_samples_leave_the_memory_of_their_ptx(
    architecture: int, level: int, tmp_path: Path
) -> None:
    modules: dict[str, Module] = {}
    for kind in BY_NAME.values():
        if kind.file not in modules:
            text = load(kind.file).source.text.replace(".target sm_86", ".target sm_80")
            (tmp_path / "k.ptx").write_text(text, encoding="utf-8")
            modules[kind.file] = translated(tmp_path / "k.ptx", architecture, level)
        for seed in (1, 2):
            assert not of_sample(kind, modules[kind.file], seed), f"{kind.name}, seed {seed}"


@needs_tools
@pytest.mark.thorough
@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("architecture", [80, 86, 90])
def test_random_programs_leave_the_memory_of_their_ptx(
    architecture: int, level: int, tmp_path: Path
) -> None:
    pool = integer_programs.taken(integer_programs.integer_statements(), tmp_path)
    seeds = range(100 * architecture, 100 * architecture + 40)
    text = integer_programs.program(seeds, pool)
    (tmp_path / "k.ptx").write_text(text, encoding="utf-8")
    module, launch = parse_text(text), integer_programs.launch(level)
    machine_code = translated(tmp_path / "k.ptx", architecture, level)
    assert not [one for one in machine_code.items if isinstance(one, UnreadKernel)]
    open_ones = 0
    for kernel, one in zip(module.kernels, machine_code.kernels, strict=True):
        machine = next(other for other in machine_code.kernels if other.name == kernel.name)
        assert one.is_entry
        try:
            expected = executed(kernel, module, launch)
            assert not differs(machine, machine_code, launch, expected), kernel.name
        except UncoveredError:
            open_ones += 1
    assert open_ones < 4
