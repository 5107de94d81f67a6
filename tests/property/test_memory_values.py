"""Loads and stores of known memory against bytes in Python, lane by lane.

Random sequences of stores to and loads from a ``.param`` variable, each in some lanes, are executed
by the transfer functions and on a byte array a lane; random loads from an aggregate parameter and a
constant are compared with the bytes that the launch gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_kernel
from thoroughness import drawn

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.values.lane_state import BlockIndex, LaneState
from ptxwcet.flow.values.transfer import compile_transfer, register_width
from ptxwcet.flow.values.value import Known, Unknown, Value
from ptxwcet.ir.kernel import Instruction, Kernel

LANES = 32
SIZE = 12
REGISTERS = ".reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;"
LETTER = {16: "h", 32: "r", 64: "d"}
INDEX = BlockIndex((0, 0, 0), (None, None, None))


def parsed(head: str, body: list[str]) -> Kernel:
    text = f"{head}\n{{\n{REGISTERS}\n" + "\n".join(body) + "\nret;\n}\n"
    return parse_kernel(f".version 8.0\n.target sm_80\n{text}")


def execute(kernel: Kernel, instruction: Instruction, state: LaneState, lanes: np.ndarray) -> None:
    transfer = compile_transfer(instruction, 0, kernel.registers)
    state.active = lanes
    for name, value in zip(instruction.writes, transfer(state), strict=True):
        state.write(name, value, lanes)
    state.active = state.alive


def lane_of(value: Value | None, lane: int) -> int | None:
    """The number in a lane, None if it is not known there."""
    if value is None or isinstance(value, Unknown):
        return None
    if any(np.broadcast_to(np.asarray(c), LANES)[lane] for c in value.terms.values()):
        return None
    if value.valid is not None and not value.valid[lane]:
        return None
    return value.base if isinstance(value.base, int) else int(value.base[lane])


def canonical(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def read_as(number: int, kind: str, width: int) -> int:
    """What a load of a type leaves in a register of ``width`` bits."""
    bits = int(kind[1:])
    return canonical(canonical(number, bits) if kind[0] == "s" else number, width)


@dataclass(frozen=True)
class Step:
    """A store of registers to the variable, or a load from it, in some lanes."""

    is_load: bool
    kind: str
    offset: int
    count: int
    registers: tuple[int, ...]
    lanes: tuple[bool, ...]
    width: int

    @property
    def bits(self) -> int:
        return int(self.kind[1:])

    @property
    def names(self) -> list[str]:
        return [f"%{LETTER[self.width]}{i}" for i in self.registers]

    @property
    def text(self) -> str:
        vector = f".v{self.count}" if self.count > 1 else ""
        data = ", ".join(self.names)
        data = f"{{{data}}}" if self.count > 1 else data
        address = f"[a+{self.offset}]"
        if self.is_load:
            return f"ld.param{vector}.{self.kind} {data}, {address};"
        return f"st.param{vector}.{self.kind} {address}, {data};"


@st.composite
def steps(draw: st.DrawFn) -> Step:
    bits = draw(st.sampled_from([8, 16, 32, 32, 64]))
    count = draw(st.sampled_from([1, 1, 2, 4]))
    while count * bits // 8 > SIZE:
        count //= 2
    places = range(0, SIZE - count * bits // 8 + 1, bits // 8)
    registers = draw(st.permutations(range(1, 9)))[:count]
    whole = draw(st.booleans())
    lanes = st.lists(st.booleans(), min_size=LANES, max_size=LANES)
    return Step(
        draw(st.booleans()),
        draw(st.sampled_from("usb")) + str(bits),
        draw(st.sampled_from(list(places))),
        count,
        tuple(registers),
        (True,) * LANES if whole else tuple(draw(lanes)),
        draw(st.sampled_from([width for width in LETTER if width >= bits])),
    )


@settings(max_examples=drawn(150), deadline=None)
@given(st.lists(steps(), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_variables_of_calls(program: list[Step], random: Random) -> None:
    body = [f".param .align 8 .b8 a[{SIZE}];", *(step.text for step in program)]
    kernel = with_variable_registers(parsed(".entry k()", body))
    state = LaneState(kernel, Launch((LANES, 1, 1)), INDEX, (0,))
    expected: list[dict[str, int | None]] = [{} for _ in range(LANES)]
    memory: list[list[int | None]] = [[None] * SIZE for _ in range(LANES)]
    for width, letter in LETTER.items():
        for i in range(1, 9):
            numbers = [canonical(random.getrandbits(width), width) for _ in range(LANES)]
            state.registers[f"%{letter}{i}"] = Known(np.array(numbers, dtype=np.int64))
            for lane, number in enumerate(numbers):
                expected[lane][f"%{letter}{i}"] = number
    for step, instruction in zip(program, kernel.instructions, strict=False):
        execute(kernel, instruction, state, np.array(step.lanes))
        for lane in np.flatnonzero(step.lanes).tolist():
            follow(step, expected[lane], memory[lane])
        for name in step.names:
            check_register(state, kernel, name, expected)


def follow(step: Step, registers: dict[str, int | None], memory: list[int | None]) -> None:
    """What a step does to registers and bytes of a lane; None: not known."""
    size = step.bits // 8
    for place, name in enumerate(step.names):
        at = step.offset + place * size
        number = registers[name]
        if not step.is_load:
            data = [None] * size if number is None else list_bytes(number, size)
            memory[at : at + size] = data
        elif any(byte is None for byte in memory[at : at + size]):
            registers[name] = None
        else:
            whole = int.from_bytes(bytes(b or 0 for b in memory[at : at + size]), "little")
            registers[name] = read_as(whole, step.kind, step.width)


def list_bytes(number: int, size: int) -> list[int | None]:
    return [*(number & (1 << 8 * size) - 1).to_bytes(size, "little")]


def check_register(
    state: LaneState, kernel: Kernel, name: str, expected: list[dict[str, int | None]]
) -> None:
    """What the analysis knows is right; what was never written it does not know."""
    assert register_width(kernel.registers[name]) in LETTER
    for lane in range(LANES):
        found = lane_of(state.registers.get(name), lane)
        if found is not None:
            assert found == expected[lane][name], (name, lane)


@settings(max_examples=drawn(60), deadline=None)
@given(steps(), st.booleans(), st.randoms(use_true_random=False))
def test_a_load_of_what_was_stored_is_known(step: Step, narrow: bool, random: Random) -> None:
    """The same place and width: the value itself, in the lanes that stored it."""
    width = max(16, step.bits) if narrow else step.width
    load, store = replace(step, is_load=True, width=width), replace(step, is_load=False)
    body = [f".param .align 8 .b8 a[{SIZE}];", store.text, load.text]
    kernel = with_variable_registers(parsed(".entry k()", body))
    state = LaneState(kernel, Launch((LANES, 1, 1)), INDEX, (0,))
    numbers = {name: canonical(random.getrandbits(step.width), step.width) for name in step.names}
    state.registers.update({name: Known(number) for name, number in numbers.items()})
    lanes = np.array(step.lanes)
    execute(kernel, kernel.instructions[0], state, lanes)
    execute(kernel, kernel.instructions[1], state, lanes)
    for name, number in zip(load.names, numbers.values(), strict=True):
        for lane in np.flatnonzero(lanes).tolist():
            cut = number & (1 << step.bits) - 1
            assert lane_of(state.registers[name], lane) == read_as(cut, step.kind, width)


@settings(max_examples=drawn(150), deadline=None)
@given(
    st.sampled_from(["param", "const"]),
    st.sampled_from([b + str(n) for b in "usb" for n in (8, 16, 32, 64)]),
    st.binary(min_size=SIZE, max_size=SIZE),
    st.lists(st.integers(-3, SIZE + 2), min_size=LANES, max_size=LANES),
    st.integers(-2, SIZE + 2),
)
def test_loads_from_what_the_launch_gives(
    space: str, kind: str, data: bytes, indices: list[int], offset: int
) -> None:
    """By name and through a register: the bytes there, and nothing outside of the variable."""
    bits = int(kind[1:])
    width, size = max(16, bits), bits // 8
    target = f"%{LETTER[width]}1"
    name = "a" if space == "param" else "c"
    head = f".const .align 8 .b8 c[{SIZE}];\n.entry k(.param .align 8 .b8 a[{SIZE}])"
    kernel = parsed(
        head,
        [
            f"ld.{space}.{kind} {target}, [{name}+{offset}];",
            f"mov.b64 %d3, {name};",
            "add.s64 %d4, %d3, %d2;",
            f"ld.{space}.{kind} {target}, [%d4+{offset}];",
        ],
    )
    launch = Launch((LANES, 1, 1), parameter_bytes={"a": data}, constants={"c": data})
    state = LaneState(kernel, launch, INDEX, (0,))

    def word(at: int) -> int | None:
        if not 0 <= at <= SIZE - size:
            return None
        return read_as(int.from_bytes(data[at : at + size], "little"), kind, width)

    everywhere = state.alive.copy()
    execute(kernel, kernel.instructions[0], state, everywhere)
    assert lane_of(state.registers[target], 0) == word(offset)
    state.registers["%d2"] = Known(np.array(indices, dtype=np.int64))
    for instruction in kernel.instructions[1:3]:
        execute(kernel, instruction, state, everywhere)
    inside = np.array([word(index + offset) is not None for index in indices])
    execute(kernel, kernel.instructions[3], state, inside)
    for lane in np.flatnonzero(inside).tolist():
        assert lane_of(state.registers[target], lane) == word(indices[lane] + offset)
    if not inside.all():
        execute(kernel, kernel.instructions[3], state, everywhere)
        assert all(lane_of(state.registers[target], lane) is None for lane in range(LANES))
