"""Represents registers as vectors over the lanes of a block, with typed access.

A register holds bit patterns (``uint16``, ``uint32``, ``uint64``, predicates ``bool``). An operand
read at a type is a view of these, cut to the width of the type; a result narrower than its register
is extended by its sign if its type is signed, else by zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from ptxwcet.emulator.launch import Array, EmulatedLaunch, Finding
from ptxwcet.emulator.memory import Arena
from ptxwcet.emulator.observation import Observation
from ptxwcet.ir.kernel import Immediate, Instruction, Kernel, Negated, Operand, Register
from ptxwcet.ir.operands import SpecialRegister, SymbolRef
from ptxwcet.support.records import dataclass

Mask = Array | None
Read = Callable[["Frame"], Array]
Step = Callable[["Frame"], None]


class Unsupported(Exception):
    """An instruction without semantics here; the argument names the unsupported part."""


class Stop(Exception):
    """A fatal finding was added: the run ends."""


@dataclass(slots=True)
class Frame:
    """The running block: registers, the mask of the executing group, memory, findings.

    ``mask`` is None if all lanes are active and none is padding. ``live`` returns the flags of the
    lanes that have not ended and have an instruction left before their end.
    """

    lanes: int
    arena: Arena
    checks: frozenset[str]
    kernel: Kernel
    block: int = 0
    ticks: int = 0  # warp instructions of the launch before this node
    registers: dict[str, Array] = field(default_factory=dict)
    specials: dict[str, Array] = field(default_factory=dict)
    mask: Mask = None
    live: Callable[[], Array] | None = None
    findings: list[Finding] = field(default_factory=list)
    seen: set[tuple[str, int]] = field(default_factory=set)
    observation: Observation | None = None
    all_lanes: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def active(self) -> Array:
        """Returns the bool mask of the active lanes."""
        return np.ones(self.lanes, dtype=bool) if self.mask is None else self.mask

    def report(self, code: str, message: str, instruction: Instruction, place: Place) -> None:
        """Adds a finding, one for each code and instruction; raises Stop if it is fatal."""
        key = (code, instruction.start)
        if key not in self.seen:
            self.seen.add(key)
            location = instruction.location
            line = location.line if location else None
            self.findings.append(
                Finding(code, message, self.kernel.readable, instruction.span, line, self.block,
                        place.thread, place.address, place.fatal)
            )  # fmt: skip
        if place.fatal:
            raise Stop


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a finding."""

    thread: int
    address: int | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of the compilation of an instruction: the kernel and its symbols' addresses.

    ``place`` counts the instructions before it in its node: clocks advance within a node too.
    ``is_observed``: steps record their instruction for the observation.
    """

    kernel: Kernel
    symbols: dict[str, int]
    lanes: int
    place: int = 0
    is_observed: bool = False


_DTYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "pred": "?"}


def dtype_of(type_name: str) -> np.dtype[np.generic]:
    """Returns the numpy type of a PTX type: b and u are unsigned. Raises Unsupported."""
    if type_name in _DTYPES:
        return np.dtype(_DTYPES[type_name])
    kind, width = type_name[0], type_name[1:]
    if kind in "bus" and width in ("8", "16", "32", "64"):
        return np.dtype(("i" if kind == "s" else "u") + str(int(width) // 8))
    raise Unsupported(f"type .{type_name}")


def register_dtype(type_name: str) -> np.dtype[np.generic]:
    """Returns the storage type of a register of a type. Raises Unsupported."""
    if type_name == "pred":
        return np.dtype("?")
    return np.dtype(f"u{dtype_of(type_name).itemsize}")


def literal(value: Immediate, dtype: np.dtype[np.generic]) -> Array:
    """Returns the literal at a type, a 0-dimensional array; ``0f`` and ``0d`` keep their bits."""
    number = value.value
    if dtype.kind == "b":
        return np.array(bool(number))
    if isinstance(number, float):
        return _float_literal(value.text.lower(), number, dtype)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.array(number, dtype=dtype)
    bits = number & ((1 << 8 * dtype.itemsize) - 1)
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)


def _float_literal(text: str, number: float, dtype: np.dtype[np.generic]) -> Array:
    size = 4 if text.startswith("0f") else 8
    if text.lstrip("-").startswith(("0f", "0d")):  # a NaN has a payload
        exact = np.array(int(text.lstrip("-")[2:], 16), dtype=f"u{size}").view(f"f{size}")
        exact = -exact if text.startswith("-") else exact
    else:
        exact = np.array(number, dtype=np.float64)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return exact if dtype.itemsize == size else exact.astype(dtype)
    bits = int(exact.view(f"u{size}")) & ((1 << 8 * dtype.itemsize) - 1)
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)


def reader(context: Context, operand: Operand, type_name: str) -> Read:
    """Returns a function that reads an operand at a type: an element per lane, or one for all."""
    dtype = dtype_of(type_name)
    if isinstance(operand, Register):
        return _register_reader(context, operand.name, dtype)
    if isinstance(operand, Negated):
        inner = reader(context, operand.operand, "pred")
        return lambda frame: ~inner(frame)
    if isinstance(operand, Immediate):
        constant = np.broadcast_to(literal(operand, dtype), (context.lanes,)).copy()
        return lambda frame: constant
    if isinstance(operand, SpecialRegister):
        name = operand.name
        if name in CLOCKS:
            shift = 32 if name.endswith("_hi") else 0
            place = context.place
            return lambda frame: np.full(context.lanes, frame.ticks + place >> shift).astype(dtype)
        if name not in SPECIALS:
            raise Unsupported(f"special register {name}")
        return lambda frame: frame.specials[name].astype(dtype)
    if isinstance(operand, SymbolRef):
        return _symbol_reader(context, operand, dtype)
    raise Unsupported(f"operand {type(operand).__name__}")


def _symbol_reader(context: Context, operand: SymbolRef, dtype: np.dtype[np.generic]) -> Read:
    if operand.name not in context.symbols:
        raise Unsupported(f"symbol {operand.name}")
    address = np.uint64((context.symbols[operand.name] + operand.offset) & (1 << 64) - 1)
    value = np.full(context.lanes, address).astype(dtype)
    return lambda frame: value


def _register_reader(context: Context, name: str, dtype: np.dtype[np.generic]) -> Read:
    stored = register_dtype(context.kernel.registers[name])
    if stored == dtype:
        return lambda frame: frame.registers[name]
    if stored.kind == "b" or dtype.kind == "b":
        raise Unsupported("a predicate as a number")
    if stored.itemsize == dtype.itemsize:
        return lambda frame: frame.registers[name].view(dtype)
    if stored.itemsize < dtype.itemsize:
        return lambda frame: frame.registers[name].astype(dtype)
    narrow = np.dtype(f"u{dtype.itemsize}")
    return lambda frame: frame.registers[name].astype(narrow).view(dtype)


def writer(context: Context, operand: Operand) -> Callable[[Frame, Array], None]:
    """Returns a function that writes a typed result under the frame's mask."""
    if type(operand).__name__ == "Sink":
        return lambda frame, value: None
    if not isinstance(operand, Register):
        raise Unsupported(f"destination {type(operand).__name__}")
    name = operand.name
    stored = register_dtype(context.kernel.registers[name])
    signed = np.dtype(f"i{stored.itemsize}")

    def write(frame: Frame, value: Array) -> None:
        bits = value
        if value.dtype != stored:
            if value.dtype.itemsize == stored.itemsize:
                bits = value.view(stored)
            elif value.dtype.kind == "i":
                bits = value.astype(signed).view(stored)
            else:
                bits = value.view(f"u{value.dtype.itemsize}").astype(stored)
        if frame.mask is not None:
            bits = np.where(frame.mask, bits, frame.registers[name])
        frame.registers[name] = bits

    return write


CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""Registers that count warp instructions of the launch here: they grow, and do not measure time.
Two consecutive instructions of a warp never read the same count."""

SPECIALS = tuple(
    [
        f"%{name}.{axis}"
        for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid")
        for axis in "xyz"
    ]
    + [f"%cluster_{name}.{axis}" for name in ("ctaid", "nctaid") for axis in "xyz"]
    + ["%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"]
    + ["%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%dynamic_smem_size"]
    + [f"%lanemask_{name}" for name in ("eq", "lt", "le", "gt", "ge")]
)
"""The special registers that have a value: one multiprocessor, clusters of one block."""


def special_registers(launch: EmulatedLaunch, index: int, lanes: int) -> dict[str, Array]:
    """Returns the values of :data:`SPECIALS` in block ``index`` (x fastest)."""
    thread = np.arange(lanes, dtype=np.uint32)
    lane = thread & np.uint32(31)
    equal = np.uint32(1) << lane
    below = equal - np.uint32(1)
    values: dict[str, Array] = {
        "%laneid": lane,
        "%warpid": thread >> np.uint32(5),
        "%lanemask_eq": equal,
        "%lanemask_lt": below,
        "%lanemask_le": equal | below,
        "%lanemask_gt": ~(equal | below),
        "%lanemask_ge": ~below,
        "%is_explicit_cluster": np.zeros(lanes, dtype=bool),
    }
    numbers = {
        "%nwarpid": lanes // 32, "%smid": 0, "%nsmid": 1, "%gridid": 0, "%cluster_ctarank": 0,
        "%cluster_nctarank": 1, "%dynamic_smem_size": launch.dynamic_shared,
    }  # fmt: skip
    place = _split(index, launch.grid)
    for axis, tid, number in zip("xyz", _split(thread, launch.block), range(3), strict=True):
        values[f"%tid.{axis}"] = (tid + 0 * thread).astype(np.uint32)
        for kind in ("ctaid", "clusterid"):
            numbers[f"%{kind}.{axis}"] = int(place[number])
        for kind in ("nctaid", "nclusterid"):
            numbers[f"%{kind}.{axis}"] = launch.grid[number]
        numbers[f"%ntid.{axis}"] = launch.block[number]
        numbers[f"%cluster_ctaid.{axis}"], numbers[f"%cluster_nctaid.{axis}"] = 0, 1
    for name, value in numbers.items():
        values[name] = np.full(lanes, value, dtype=np.uint32)
    return values


def _split(index: Array | int, shape: tuple[int, int, int]) -> tuple[Array | int, ...]:
    return index % shape[0], index // shape[0] % shape[1], index // (shape[0] * shape[1])
