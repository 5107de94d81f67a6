"""Determines the effects of instructions on mbarriers, and on the bulk copies that arrive there.

An mbarrier counts arrivals and bytes: its phase completes when as many threads have arrived as it
was initialised for and no bytes are pending (PTX ISA, mbarrier); see docs/methods/mbarriers.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from ptxwcet.ir.kernel import Immediate, Instruction, Kernel, Operand, Register, SymbolRef
from ptxwcet.ir.op_classes import COUNTING, Space
from ptxwcet.ir.operands import Address, Bracket, Element
from ptxwcet.support.records import dataclass

MOST_COUNT = (1 << 20) - 1
"""The largest count of an mbarrier in a phase, for arrivals and for bytes."""


class Use(Enum):
    """The effect of an instruction, and the meaning of its number."""

    INIT = "init"  # arrivals that each phase expects
    INVAL = "inval"  # 0: its place is ordinary memory from then on
    ARRIVE = "arrive"  # arrivals of each thread
    ARRIVE_BEHIND = "arrive behind copies"  # of each thread, once its small copies have ended
    ARRIVE_EXPECT = "arrive.expect_tx"  # bytes that it adds, before it arrives once
    EXPECT = "expect_tx"  # bytes
    COMPLETE = "complete_tx"  # bytes
    WAIT = "wait"  # the parity of the phase
    COPY = "copy"  # bytes, which arrive at the end of the copy
    COPY_OUT = "copy out"  # bytes, of a bulk group
    GIVE = "give up registers"  # registers of a thread from then on
    TAKE = "take registers"


@dataclass(frozen=True, slots=True)
class MbarrierUse:
    """A use of an mbarrier. ``place`` is its address, None for a copy of a bulk group. For a tensor
    copy, which has a ``rank``, ``number`` is the address of the tensor map.
    """

    use: Use
    place: Operand | None
    number: Operand
    rank: int = 0


def use_of(instruction: Instruction) -> MbarrierUse | str | None:
    """Returns the use of an mbarrier by an instruction, or its bulk copy; the reason, as text, if
    it is not modelled; None if it does neither, or only closes a group of copies. Cost: constant.
    """
    if instruction.opcode is not None and instruction.opcode.name == "setmaxnreg":
        use = Use.TAKE if "inc" in instruction.modifiers else Use.GIVE
        return MbarrierUse(use, None, instruction.operands[0])
    if instruction.op_class not in COUNTING or instruction.opcode is None:
        return None
    family, _, action = instruction.opcode.name.rpartition(".")
    words, operands = instruction.modifiers, instruction.operands
    if family == "mbarrier":
        return _of_object(action, words, operands)
    if instruction.opcode.name == "cp.async.bulk.commit_group":
        return None
    if instruction.opcode.name == "cp.async.mbarrier.arrive":
        if "noinc" in words:
            return MbarrierUse(Use.ARRIVE_BEHIND, operands[0], Immediate(1, "1"))
        return "it adds to the arrivals that are expected first, which is not followed: use .noinc"
    if instruction.opcode.name != "cp.async.bulk":
        return "what it does while threads go on is not modelled"
    if _NOT_OF_ONE_BLOCK.intersection(words):
        return "only copies of one block between global and shared memory are modelled"
    if "tensor" in words:
        return _of_tensor(words, operands)
    if words[0] == "global":
        return MbarrierUse(Use.COPY_OUT, None, operands[2])
    if words[1] != "global":
        return "copies to other blocks of a cluster are not modelled"
    return MbarrierUse(Use.COPY, operands[3], operands[2])


_NOT_OF_ONE_BLOCK = frozenset(
    {"prefetch", "multicast::cluster", "cp_mask", "cta_group::1", "cta_group::2"}
)


def _of_tensor(words: tuple[str, ...], operands: tuple[Operand, ...]) -> MbarrierUse | str:
    """Returns the copy of the box of a tensor map; ``words`` hold rank, source and target."""
    rank, is_out = int(words[1][0]), words[2] == "global"
    mode = next((w for w in words if w.startswith(("im2col", "tile::"))), None)
    if mode is not None:
        return f"how many bytes it copies is known of tiles, not of {mode}"
    where = operands[0 if is_out else 1]
    assert isinstance(where, Bracket)
    if is_out:
        return MbarrierUse(Use.COPY_OUT, None, where.elements[0], rank)
    return MbarrierUse(Use.COPY, operands[2], where.elements[0], rank)


_WIDENED = frozenset({"cvt.u64.u32", "cvt.u64.u64"})  # Triton's addresses of parameters


def tensor_maps_of(kernel: Kernel) -> set[str]:
    """Returns the places of the tensor maps that a kernel copies with, as far as they are known."""
    uses = [use_of(use) for use in kernel.instructions if "tensor" in use.modifiers]
    ranked = [use for use in uses if isinstance(use, MbarrierUse)]
    return {place for use in ranked if (place := tensor_map_of(kernel, use.number)) is not None}


@lru_cache(maxsize=8)
def _definitions(kernel: Kernel) -> Mapping[str, list[Instruction]]:
    """Returns the instructions that write each register."""
    definitions: dict[str, list[Instruction]] = {}
    for instruction in kernel.instructions:
        for name in instruction.writes:
            definitions.setdefault(name, []).append(instruction)
    return definitions


def tensor_map_of(kernel: Kernel, address: Operand) -> str | None:
    """Returns the place of an address's tensor map: ``"PARAMETER+BYTES"`` in an aggregate
    parameter, ``"PARAMETER"`` where the address is that parameter; None if it is not only moved and
    added to. Cost: linear in the kernel, once, and in the additions.
    """
    parameters = {parameter.name: parameter for parameter in kernel.parameters}
    definitions = _definitions(kernel)
    offset = 0
    for _ in kernel.instructions:  # each is passed once, unless they form a cycle
        if isinstance(address, Address):
            offset, address = offset + address.offset, address.base
        if isinstance(address, SymbolRef):
            held = parameters.get(address.name)
            at = offset + address.offset
            return None if held is None or not held.is_array else f"{held.name}+{at}"
        if not isinstance(address, Register):
            return None
        writes = definitions.get(address.name, [])
        if len(writes) != 1 or writes[0].guard is not None or writes[0].opcode is None:
            return None
        name, operands = writes[0].opcode.name, writes[0].operands
        if not isinstance(operands[0], Register):
            return None  # This register holds only a part of the moved value.
        if name == "ld" and writes[0].space is Space.PARAM and isinstance(operands[1], Address):
            base = operands[1].base
            held = parameters.get(base.name) if isinstance(base, SymbolRef) else None
            is_whole = writes[0].modifiers[-1].endswith("64") and not operands[1].offset
            is_own = held is not None and not held.is_array and not offset
            return held.name if held is not None and is_own and is_whole else None
        if name == "add" and isinstance(operands[2], Immediate):
            offset += int(operands[2].value)
        elif name not in ("mov", "cvta") and writes[0].mnemonic not in _WIDENED:
            return None
        address = operands[1]
    return None


def _of_object(
    action: str, words: tuple[str, ...], operands: tuple[Operand, ...]
) -> MbarrierUse | str:
    match action:
        case "init":
            return MbarrierUse(Use.INIT, operands[0], operands[1])
        case "inval":
            return MbarrierUse(Use.INVAL, operands[0], Immediate(0, "0"))
        case "expect_tx":
            return MbarrierUse(Use.EXPECT, operands[0], operands[1])
        case "complete_tx":
            return MbarrierUse(Use.COMPLETE, operands[0], operands[1])
        case "arrive" if "noComplete" not in words:
            use = Use.ARRIVE_EXPECT if "expect_tx" in words else Use.ARRIVE
            number = operands[2] if len(operands) > 2 else Immediate(1, "1")
            return MbarrierUse(use, operands[1], number)
        case "test_wait" | "try_wait" if len(operands) > 3:
            return "how soon it asks again is in its time limit, not in the machine file"
        case "test_wait" | "try_wait" if "parity" in words:
            return MbarrierUse(Use.WAIT, operands[1], operands[2])
        case "test_wait" | "try_wait":
            return "it waits for the phase of a state, which is not followed: only parities are"
        case _:
            return "what it does to the phases of its mbarrier is not modelled"


def counting_reads(instruction: Instruction) -> list[str]:
    """Returns the registers that determine the mbarrier, the count and the condition of an
    instruction; for a wait also the register of its result.
    """
    used, guard = use_of(instruction), instruction.guard
    if not isinstance(used, MbarrierUse):
        return []
    place = used.place.index if isinstance(used.place, Element) else used.place
    base = place.base if isinstance(place, Address) else None
    number = None if used.rank else used.number
    names = [register.name for register in (number, base) if isinstance(register, Register)]
    names += [] if guard is None else [guard.register]
    return [*names, *(instruction.writes if used.use is Use.WAIT else ())]
