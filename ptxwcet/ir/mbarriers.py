"""What instructions do to mbarriers, and to the bulk copies that arrive at them.

An mbarrier counts arrivals and bytes: its phase is over when as many threads have arrived as it was
initialised for and no byte is owed (PTX ISA, mbarrier). docs/methods/joins.md has what follows.
"""

from __future__ import annotations

from enum import Enum

from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Register
from ptxwcet.ir.op_classes import COUNTING
from ptxwcet.ir.operands import Address, Element
from ptxwcet.support.records import dataclass

MOST_COUNT = (1 << 20) - 1
"""The most that an mbarrier counts in a phase, of arrivals and of bytes."""


class Use(Enum):
    """What an instruction does, and what its number is."""

    INIT = "init"  # arrivals that each phase expects
    ARRIVE = "arrive"  # arrivals of each thread
    ARRIVE_EXPECT = "arrive.expect_tx"  # bytes that it adds, before it arrives once
    EXPECT = "expect_tx"  # bytes
    COMPLETE = "complete_tx"  # bytes
    WAIT = "wait"  # the parity of the phase
    COPY = "copy"  # bytes, which arrive at the end of the copy
    COPY_OUT = "copy out"  # bytes, of a bulk group


@dataclass(frozen=True, slots=True)
class MbarrierUse:
    """``place`` is the mbarrier's address, None of a copy of a bulk group."""

    use: Use
    place: Operand | None
    number: Operand


def use_of(instruction: Instruction) -> MbarrierUse | str | None:
    """What an instruction does to an mbarrier, or a bulk copy; why that is not followed, in words;
    None if it does nothing of the kind, or only closes a group of copies. Cost: constant.
    """
    if instruction.op_class not in COUNTING or instruction.opcode is None:
        return None
    family, _, what = instruction.opcode.name.rpartition(".")
    words, operands = instruction.modifiers, instruction.operands
    if family == "mbarrier":
        return _of_object(what, words, operands)
    if instruction.opcode.name == "cp.async.bulk.commit_group":
        return None
    if instruction.opcode.name != "cp.async.bulk":
        return "what it does while threads go on is not modelled"
    if "tensor" in words:
        return "how many bytes it copies stands in its tensor map, which a launch does not give"
    if "prefetch" in words or "multicast::cluster" in words or "cp_mask" in words:
        return "only copies of one block between global and shared memory are modelled"
    if words[0] == "global":
        return MbarrierUse(Use.COPY_OUT, None, operands[2])
    if words[1] != "global":
        return "copies to other blocks of a cluster are not modelled"
    return MbarrierUse(Use.COPY, operands[3], operands[2])


def _of_object(
    what: str, words: tuple[str, ...], operands: tuple[Operand, ...]
) -> MbarrierUse | str:
    match what:
        case "init":
            return MbarrierUse(Use.INIT, operands[0], operands[1])
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
    """The registers that say which mbarrier is meant, how much is counted and whether; of a wait
    also the one that has the answer.
    """
    used, guard = use_of(instruction), instruction.guard
    if not isinstance(used, MbarrierUse):
        return []
    place = used.place.index if isinstance(used.place, Element) else used.place
    base = place.base if isinstance(place, Address) else None
    names = [one.name for one in (used.number, base) if isinstance(one, Register)]
    names += [] if guard is None else [guard.register]
    return [*names, *(instruction.writes if used.use is Use.WAIT else ())]
