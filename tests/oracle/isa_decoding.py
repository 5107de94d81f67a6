"""Instructions as steps that run on the lanes of a machine: operands, guards, memory, results."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import isa_lanes
from isa_operations import find_operation
from isa_types import PREDICATE, U32, U64, Operation, Type, find_type, number, ones, types_of

from ptxwcet.ir.kernel import (
    Address,
    Arguments,
    Element,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
    WholeVector,
)

if TYPE_CHECKING:
    from isa_interpreter import Lane, Machine, Mask

Read = Callable[["Machine", "Lane"], int]
Write = Callable[["Lane", int], None]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """An instruction: ``run`` executes it for lanes, ``holds`` is its guard.

    ``barrier`` gives number and threads of a barrier, None for any other instruction; ``waits``:
    the warp waits there; ``vote`` is the predicate that a lane gives to a reduction over all that
    wait. ``index`` is the choice of an indexed branch.
    """

    words: Words
    run: Callable[[Machine, Mask], None]
    holds: Callable[[Lane], bool]
    index: Read
    barrier: Callable[[Machine, Lane], tuple[int, int]] | None = None
    waits: bool = False
    vote: Read | None = None


def decode(kernel: Kernel, numbers: dict[str, int]) -> tuple[Step, ...]:
    """The steps of a kernel's instructions; ``numbers`` are the places of its registers."""
    decoder = _Decoder(kernel, numbers)
    return tuple(decoder.step(one) for one in kernel.instructions)


def _nothing(machine: Machine, mask: Mask) -> None:
    """What a step does that only takes time or orders memory."""


NO_EFFECT = frozenset(
    (
        *("membar", "fence", "nanosleep", "prefetch", "prefetchu", "applypriority", "discard"),
        *("pmevent", "griddepcontrol", "setmaxnreg", "brkpt", "bra", "brx", "ret", "exit", "trap"),
        *("bar", "barrier", "call"),
    )
)
"""Instructions that compute nothing: control, order of memory, hints."""


class _Decoder:
    def __init__(self, kernel: Kernel, numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self.types = {
            name: find_type(kind) or Type("b", 64) for name, kind in kernel.registers.items()
        }

    def step(self, one: Instruction) -> Step:
        words = tuple(one.mnemonic.split("."))
        holds = self._guard(one)
        if words[0] in ("bar", "barrier") and words[:2] != ("bar", "warp"):
            return self._barrier(one, words, holds)
        index = self._read(one.operands[0], U32) if words[0] == "brx" else _zero
        if words[0] in NO_EFFECT or words[:2] == ("bar", "warp"):
            return Step(words, _nothing, holds, index)
        run = self._run(one, words)
        if one.guard is None:
            return Step(words, run, holds, index)

        def guarded(machine: Machine, mask: Mask) -> None:
            run(machine, tuple(lane for lane in mask if holds(lane)))

        return Step(words, guarded, holds, index)

    def _guard(self, one: Instruction) -> Callable[[Lane], bool]:
        if one.guard is None:
            return lambda lane: True
        place, wanted = self.numbers[one.guard.register], int(not one.guard.negated)
        return lambda lane: lane.registers[place] == wanted

    # --- operands ---------------------------------------------------------------------------------

    def _read(self, operand: Operand, of: Type) -> Read:
        """The number that an operand is for an instruction that reads it in a type."""
        match operand:
            case Register(name):
                place = self.numbers[name]
                if of.kind == "s" and of.parts == 1:
                    return lambda machine, lane: number(lane.registers[place], of)
                most = ones(of.width)
                return lambda machine, lane: lane.registers[place] & most
            case Immediate():
                value = number(_immediate(operand, of), of)
                return lambda machine, lane: value
            case SpecialRegister(name):
                return lambda machine, lane: number(_special(machine, lane, name), of)
            case SymbolRef(name, offset):
                return lambda machine, lane: number(machine.address_of(name) + offset, of)
            case Negated(inner):
                negated = self._read(inner, PREDICATE)
                return lambda machine, lane: 1 - negated(machine, lane)
            case Address() | Element():
                return self._address(operand)
            case Vector(elements):
                return self._packed([self._read(one, U64) for one in elements], len(elements), of)
            case WholeVector(_, members):
                parts = [self._read(Register(name), U64) for name in members]
                return self._packed(parts, len(parts), of)
            case _:
                raise NotImplementedError(f"operand {operand}")

    @staticmethod
    def _packed(parts: list[Read], count: int, of: Type) -> Read:
        bits = of.width // count

        def read(machine: Machine, lane: Lane) -> int:
            return sum(
                (part(machine, lane) & ones(bits)) << (bits * i) for i, part in enumerate(parts)
            )

        return read

    def _address(self, operand: Operand) -> Read:
        assert not isinstance(operand, Element), "the size of elements is not known here"
        assert isinstance(operand, Address)
        offset = operand.offset
        width = U64
        if isinstance(operand.base, Register) and self.types[operand.base.name].width == 32:
            width = U32
        start = self._read(operand.base, width)
        return lambda machine, lane: (start(machine, lane) + offset) & ones(64)

    def _write(self, operand: Operand, of: Type) -> Write:
        """Writes a number of a type: extended to a wider register, by its sign if it has one."""
        match operand:
            case Register(name):
                place, width = self.numbers[name], self.types[name].width
                most = ones(width)
                if of.kind == "s" and of.parts == 1 and of.bits < width:

                    def extended(lane: Lane, value: int) -> None:
                        lane.registers[place] = number(value, of) & most

                    return extended
                cut = min(most, ones(of.width))

                def plain(lane: Lane, value: int) -> None:
                    lane.registers[place] = value & cut

                return plain
            case Sink():
                return lambda lane, value: None
            case _:
                raise NotImplementedError(f"destination {operand}")

    def _destinations(self, operand: Operand) -> tuple[Operand, ...]:
        match operand:
            case Pair(first, second):
                return (first, second)
            case Vector(elements) | Arguments(elements):
                return elements
            case WholeVector(_, members):
                return tuple(Register(name) for name in members)
            case _:
                return (operand,)

    # --- instructions -----------------------------------------------------------------------------

    def _run(self, one: Instruction, words: Words) -> Callable[[Machine, Mask], None]:
        if words[0] in ("ld", "ldu"):
            return self._load(one, words)
        if words[0] == "st" and words[1] not in ("async", "bulk"):
            return self._store(one, words)
        if words[0] in ("atom", "red") and words[1] != "async":
            return self._atomic(one, words)
        if words[0] in ("shfl", "vote", "match", "redux", "activemask"):
            return self._across(one, words)
        if words[0] == "mov" and isinstance(one.operands[0], Vector | WholeVector):
            return self._unpack(one, words)
        destination = self._destinations(one.operands[0]) if one.operands else ()
        operation = find_operation(words, len(one.operands) - 1, len(destination))
        if operation is None:
            return self._unfollowed(one)
        return self._plain(one, operation, destination)

    def _plain(
        self, one: Instruction, operation: Operation, destination: tuple[Operand, ...]
    ) -> Callable[[Machine, Mask], None]:
        sources = [
            self._read(operand, of)
            for operand, of in zip(one.operands[1:], operation.sources, strict=True)
        ]
        writes = [
            self._write(operand, of)
            for operand, of in zip(destination, operation.results, strict=False)
        ]
        function: Any = operation.function
        if operation.carries or operation.sets_carry:
            return _carrying(operation, sources, writes[0])
        if len(operation.results) > 1:

            def several(machine: Machine, mask: Mask) -> None:
                for lane in mask:
                    found = function(*[source(machine, lane) for source in sources])
                    for write, value in zip(writes, found, strict=False):
                        write(lane, value)

            return several
        (write,) = writes
        if len(sources) == 2:
            first, second = sources

            def two(machine: Machine, mask: Mask) -> None:
                for lane in mask:
                    write(lane, function(first(machine, lane), second(machine, lane)))

            return two

        def any_number(machine: Machine, mask: Mask) -> None:
            for lane in mask:
                write(lane, function(*[source(machine, lane) for source in sources]))

        return any_number

    def _unpack(self, one: Instruction, words: Words) -> Callable[[Machine, Mask], None]:
        of = types_of(words)[-1]
        parts = self._destinations(one.operands[0])
        bits = of.width // len(parts)
        writes = [self._write(part, Type("b", bits)) for part in parts]
        source = self._read(one.operands[1], Type("b", of.width))

        def run(machine: Machine, mask: Mask) -> None:
            for lane in mask:
                value = source(machine, lane)
                for i, write in enumerate(writes):
                    write(lane, value >> (bits * i))

        return run

    def _unfollowed(self, one: Instruction) -> Callable[[Machine, Mask], None]:
        """Anything may be the result: textures, matrices, what is asynchronous."""
        writes = [
            (self.numbers[name], self.types[name]) for name in one.writes if name in self.types
        ]

        def run(machine: Machine, mask: Mask) -> None:
            for lane in mask:
                for place, of in writes:
                    lane.registers[place] = machine.values.draw(max(of.width, 2)) & ones(of.width)

        return run

    # --- memory -----------------------------------------------------------------------------------

    def _load(self, one: Instruction, words: Words) -> Callable[[Machine, Mask], None]:
        of = types_of(words)[-1]
        size = max(of.width // 8, 1)
        writes = [self._write(part, of) for part in self._destinations(one.operands[0])]
        operand = one.operands[1]
        if words[1].startswith("param") and _names_symbol(operand):
            return _load_parameter(operand, size, writes)
        own = "local" in words
        restless = "global" in words and "nc" not in words
        address = self._address(operand)

        def run(machine: Machine, mask: Mask) -> None:
            memory = machine.memory
            changed: set[int] = set()
            for lane in mask:
                place = address(machine, lane)
                if own:
                    place += (lane.thread + 1) << 70
                for i, write in enumerate(writes):
                    if restless and memory.is_restless and place + i * size not in changed:
                        changed.add(place + i * size)
                        memory.change(place + i * size, size)
                    write(lane, memory.read(place + i * size, size))

        return run

    def _store(self, one: Instruction, words: Words) -> Callable[[Machine, Mask], None]:
        of = types_of(words)[-1]
        size = max(of.width // 8, 1)
        operand = one.operands[0]
        sources = [self._read(part, of) for part in self._destinations(one.operands[1])]
        if words[1].startswith("param") and _names_symbol(operand):
            return _store_parameter(operand, size, sources)
        own = "local" in words
        address = self._address(operand)

        def run(machine: Machine, mask: Mask) -> None:
            for lane in mask:
                place = address(machine, lane)
                if own:
                    place += (lane.thread + 1) << 70
                for i, source in enumerate(sources):
                    machine.memory.write(place + i * size, size, source(machine, lane))

        return run

    def _atomic(self, one: Instruction, words: Words) -> Callable[[Machine, Mask], None]:
        of = types_of(words)[-1]
        size = of.width // 8
        returns = words[0] == "atom"
        operands = one.operands[1:] if returns else one.operands
        address = self._address(operands[0])
        if any(isinstance(part, Vector | WholeVector) for part in one.operands):
            return self._unfollowed(one)
        sources = [self._read(operand, of) for operand in operands[1:]]
        write = self._write(one.operands[0], of) if returns else None

        def run(machine: Machine, mask: Mask) -> None:
            for lane in mask:
                place = address(machine, lane)
                if machine.memory.is_restless:
                    machine.memory.change(place, size)
                old = machine.memory.read(place, size)
                values = [source(machine, lane) for source in sources]
                new = isa_lanes.atomic(words, of, old, values)
                if new is None:
                    new = machine.values.draw(of.width)
                machine.memory.write(place, size, new & ones(of.width))
                if write is not None:
                    write(lane, old)

        return run

    # --- other lanes ------------------------------------------------------------------------------

    def _across(self, one: Instruction, words: Words) -> Callable[[Machine, Mask], None]:
        destination = self._destinations(one.operands[0])
        of = types_of(words)[-1]
        if words[0] == "activemask":
            write = self._write(destination[0], U32)

            def active(machine: Machine, mask: Mask) -> None:
                for lane in mask:
                    write(lane, sum(1 << other.number for other in mask))

            return active
        rule: Callable[[Words, isa_lanes.Row, Type, isa_lanes.Around], dict[int, Any]] = {
            "shfl": isa_lanes.shuffle,
            "vote": isa_lanes.vote,
            "match": isa_lanes.match,
            "redux": isa_lanes.redux,
        }[words[0]]
        first = PREDICATE if words[0] == "vote" else of
        sources = [
            self._read(operand, first if i == 0 else U32)
            for i, operand in enumerate(one.operands[1:])
        ]
        result = U32 if words[0] == "match" else PREDICATE if of == PREDICATE else of
        writes = [self._write(destination[0], result)]
        if len(destination) > 1:
            writes.append(self._write(destination[1], PREDICATE))

        def run(machine: Machine, mask: Mask) -> None:
            if not mask:
                return
            rows = {lane.number: [source(machine, lane) for source in sources] for lane in mask}
            alive = sum(1 << lane.number for lane in machine.alive[mask[0].warp])
            around = isa_lanes.Around(alive, machine.values.draw)
            found = rule(words, rows, of, around)
            for lane in mask:
                values = found[lane.number]
                for write, value in zip(
                    writes, values if isinstance(values, tuple) else (values,), strict=False
                ):
                    write(lane, value)

        return run

    def _barrier(self, one: Instruction, words: Words, holds: Callable[[Lane], bool]) -> Step:
        operands = list(one.operands)
        vote = None
        if "red" in words:  # result, number, perhaps threads, the predicate that each thread gives
            vote = self._read(operands.pop(), PREDICATE)
            del operands[0]
        numbers = [self._read(operand, U32) for operand in operands]
        places = [self.numbers[name] for name in one.writes]

        def barrier(machine: Machine, lane: Lane) -> tuple[int, int]:
            found = [read(machine, lane) for read in numbers]
            return found[0] if found else 0, found[1] if len(found) > 1 else 0

        def run(machine: Machine, mask: Mask) -> None:
            for lane in mask:
                for place in places:
                    lane.registers[place] = machine.reduced[lane.warp]

        return Step(words, run, holds, _zero, barrier, waits="arrive" not in words, vote=vote)


def _zero(machine: Machine, lane: Lane) -> int:
    return 0


def _carrying(
    operation: Operation, sources: list[Read], write: Write
) -> Callable[[Machine, Mask], None]:
    function: Any = operation.function

    def run(machine: Machine, mask: Mask) -> None:
        for lane in mask:
            values = [source(machine, lane) for source in sources]
            if operation.carries:
                values.append(lane.carry)
            found = function(*values)
            if operation.sets_carry:
                found, lane.carry = found
            write(lane, found)

    return run


def _names_symbol(operand: Operand) -> TypeGuard[Address]:
    return isinstance(operand, Address) and isinstance(operand.base, SymbolRef)


def _load_parameter(
    operand: Address, size: int, writes: list[Write]
) -> Callable[[Machine, Mask], None]:
    assert isinstance(operand.base, SymbolRef)
    name, offset = operand.base.name, operand.offset + operand.base.offset

    def run(machine: Machine, mask: Mask) -> None:
        whole = machine.parameters.get(name)
        for lane in mask:
            for i, write in enumerate(writes):
                place = offset + i * size
                if whole is not None:
                    write(lane, (whole >> (8 * place)) & ones(8 * size))
                    continue
                row = lane.stack.setdefault(name, {})
                write(lane, sum(row.get(place + k, 0) << (8 * k) for k in range(size)))

    return run


def _store_parameter(
    operand: Address, size: int, sources: list[Read]
) -> Callable[[Machine, Mask], None]:
    assert isinstance(operand.base, SymbolRef)
    name, offset = operand.base.name, operand.offset + operand.base.offset

    def run(machine: Machine, mask: Mask) -> None:
        for lane in mask:
            row = lane.stack.setdefault(name, {})
            for i, source in enumerate(sources):
                value = source(machine, lane)
                for k in range(size):
                    row[offset + i * size + k] = (value >> (8 * k)) & 255

    return run


def _immediate(operand: Immediate, of: Type) -> int:
    """Raw bits of a literal in a type."""
    text = operand.text.lower()
    if text.startswith(("0f", "0d")):
        raw = int(text[2:], 16)
        if of.kind == "f" and of.bits == 64 and text.startswith("0f"):
            value: float = struct.unpack("<f", struct.pack("<I", raw))[0]
            return int(struct.unpack("<Q", struct.pack("<d", value))[0])
        if of.kind == "f" and of.bits == 32 and text.startswith("0d"):
            wide: float = struct.unpack("<d", struct.pack("<Q", raw))[0]
            return int(struct.unpack("<I", struct.pack("<f", wide))[0])
        return raw
    if of.kind == "f" and of.parts == 1 and of.bits in (16, 32, 64):
        code, integer = {16: ("e", "H"), 32: ("f", "I"), 64: ("d", "Q")}[of.bits]
        return int(struct.unpack("<" + integer, struct.pack("<" + code, float(operand.value)))[0])
    return int(operand.value) & ones(max(of.width, 1))


def _special(machine: Machine, lane: Lane, name: str) -> int:
    found = lane.special.get(name)
    if found is None:
        return machine.values.draw(64 if name in _WIDE or name.endswith("64") else 32)
    return found


_WIDE = ("%globaltimer", "%gridid", "%current_graph_exec")
