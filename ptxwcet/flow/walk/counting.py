"""What warps count at mbarriers: at which one, how many lanes, and which number.

An mbarrier is known by the shared variable that it lies in and its offset there. What has not one
mbarrier and one number in all runs is refused; warps that differ in these are walked apart.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.graph.polling import failing_round
from ptxwcet.flow.launch import WARP_SIZE, TensorBox
from ptxwcet.flow.values.lane_state import is_variable, outer_shared
from ptxwcet.flow.values.operands import read_operand
from ptxwcet.flow.values.value import Cause, Known, Mask, Unknown, Value
from ptxwcet.flow.walk.guards import guard_lanes, require_agreement
from ptxwcet.flow.walk.path import Counted
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.steps import Step
from ptxwcet.flow.walk.stops import Refused, SplitWarps, not_counted
from ptxwcet.ir.kernel import Operand
from ptxwcet.ir.mbarriers import MOST_COUNT, MbarrierUse, Use, tensor_map_of, use_of
from ptxwcet.ir.operands import Address, Element

_BYTES = 8  # of an mbarrier
_NUMBERS = {
    Use.INIT: range(1, MOST_COUNT + 1),
    Use.ARRIVE: range(1, MOST_COUNT + 1),
    Use.ARRIVE_BEHIND: range(1, MOST_COUNT + 1),
    Use.WAIT: range(2),
    Use.EXPECT: range(1, MOST_COUNT + 1),
    Use.COMPLETE: range(1, MOST_COUNT + 1),
    Use.COPY: range(16, 1 << 32, 16),
    Use.COPY_OUT: range(0, 1 << 32, 16),
}
"""The numbers for which the PTX ISA defines something, of all others 0 to MOST_COUNT; and that
change something: no phase has to wait for 0 bytes, so that nobody knew them to be counted."""
_GIVE = "give the parameters that decide it, or write the kernel with constant numbers of stages"
_NAME_IT = "address it by a shared variable of the kernel and an offset that is added"


def count(walk: WalkState, step: Step, mask: Mask) -> None:
    """Notes what lanes ``mask`` do to an mbarrier, or a bulk copy.

    Raises Refused (PW222, PW223), Undecided for a guard, SplitWarps. Cost: linear in the lanes.
    """
    used = use_of(step.instruction)
    if used is None:
        return
    name, index = step.instruction.mnemonic, step.index
    lanes = guard_lanes(walk, index, step.guard, mask)
    require_agreement(walk, lanes)
    if not lanes.any():
        walk.recorded.counted.append(Counted(index, "", 0, 0))
        return
    if isinstance(used, str):
        raise Refused("PW223", index, f"{name}: {used}", "leave it out, or bound it by measuring")
    if not walk.reachability.mask_is_exact or walk.reachability.apart:
        raise not_counted(index)
    if used.use is Use.WAIT and failing_round(walk.graph.kernel, walk.cfg, index) is None:
        reason = f"{name} is not in a loop that does nothing but ask until the phase is over"
        raise Refused("PW223", index, reason, "ask again at once where the answer is no")
    walk.state.active = lanes
    place = "" if used.place is None else _place(walk, index, used.place, lanes)
    rows = 0
    if used.rank:
        box = _box(walk, index, used)
        number, rows = box.rows * box.row_bytes, box.rows
    else:
        value = read_operand(walk.state, used.number, 32, index)
        number = _number(walk, index, value, lanes, f"the number of {name}")
    walk.state.active = mask
    many = int(lanes.reshape(-1, WARP_SIZE)[0].sum())
    if number not in _NUMBERS.get(used.use, range(MOST_COUNT + 1)):
        raise Refused("PW223", index, f"{name}: {number} is no number to count", _GIVE)
    if used.use in (Use.INIT, Use.INVAL) and many > 1:
        does = "initialise" if used.use is Use.INIT else "invalidate"
        reason = f"{name}: {many} lanes {does} one mbarrier, which is defined for one thread"
        raise Refused("PW223", index, reason, "let one thread do it")
    if used.use in (Use.GIVE, Use.TAKE) and not lanes.all():
        reason = f"{name}: not all lanes of the warp come here, and all threads must"
        raise Refused("PW222", index, reason, "let whole warpgroups execute it")
    walk.recorded.counted.append(Counted(index, place, many, number, rows))


def _box(walk: WalkState, index: int, used: MbarrierUse) -> TensorBox:
    """Returns the box that a tensor copy moves, as the launch states it."""
    launch, kernel = walk.state.launch, walk.graph.kernel
    name = kernel.instructions[index].mnemonic
    place = tensor_map_of(kernel, used.number)
    if place is None:
        reason = f"{name}: which tensor map says how much it copies is not known"
        help_text = "pass the map as a parameter of its own, or as a pointer to it"
        raise Refused("PW223", index, reason, help_text)
    shown = launch.name_of(place).removesuffix("+0")
    box = launch.boxes.get(place)
    if box is None:
        sizes = "x".join(["64", "128", "1", "1", "1"][: used.rank])
        reason = f"{name}: how much it copies stands in the tensor map {shown}"
        help_text = f"give its box and the bytes of an element: --param {shown}=box:{sizes}:2"
        raise Refused("PW223", index, reason, help_text)
    if len(box.dimensions) != used.rank:
        reason = f"{name} is of {used.rank} dimensions, and the box of {shown} is {box}"
        raise Refused("PW214", index, reason, f"give a box of {used.rank}, as the map was made")
    return box


def _place(walk: WalkState, index: int, operand: Operand, lanes: Mask) -> str:
    """Returns the shared variable and the offset of an mbarrier."""
    offset, base = 0, operand
    array: Value = Known(0)
    if isinstance(operand, Element):
        array = read_operand(walk.state, operand.array, 32, index)
        operand = operand.index
    if isinstance(operand, Address):
        offset, base = operand.offset, operand.base
    value = read_operand(walk.state, base, 32, index)
    if isinstance(value, Unknown) or isinstance(array, Unknown):
        causes = value.causes if isinstance(value, Unknown) else frozenset()
        raise _unknown(walk, index, "which mbarrier it is", causes)
    terms = {**value.terms, **array.terms}
    names = [symbol.name for symbol in terms if symbol.is_own and not symbol.is_parameter]
    if len(names) != 1 or len(terms) != 1 or array.base != 0 or (value.terms and array.terms):
        raise _unknown(walk, index, "which mbarrier it is", frozenset())
    ((symbol, factor),) = terms.items()
    if not np.all(np.asarray(factor) == 1):
        raise _unknown(walk, index, "which mbarrier it is", frozenset())
    kernel = walk.graph.kernel
    shared = {v.name: v for v in kernel.variables if v.space == "shared"}
    variable = shared.get(symbol.name) if is_variable(symbol) else None
    inner = {v.name for v in kernel.variables} | {p.name for p in kernel.parameters}
    is_outer = is_variable(symbol) and symbol.name in outer_shared(kernel, inner)
    if variable is None and not is_outer:  # it may be the address of one that is known otherwise
        reason = f"{walk.graph.kernel.instructions[index].mnemonic}: which mbarrier it is is not"
        raise Refused("PW223", index, f"{reason} known: its address is computed", _NAME_IT)
    at = offset + _number(walk, index, Known(value.base), lanes, "the offset of the mbarrier")
    is_aligned = at % _BYTES == 0 and (variable is None or variable.alignment % _BYTES == 0)
    if not is_aligned or at < 0 or (variable is not None and at + _BYTES > variable.size_bytes):
        reason = f"the mbarrier lies at {symbol.name}+{at}: in no variable, or at no multiple of 8"
        raise Refused("PW223", index, reason, _GIVE)
    return f"{symbol.name}+{at}"


def _number(walk: WalkState, index: int, value: Value, lanes: Mask, what: str) -> int:
    """Returns the one number of all lanes. Raises SplitWarps if it is one in each warp only."""
    if isinstance(value, Unknown):
        raise _unknown(walk, index, what, value.causes)
    if value.terms or (value.valid is not None and bool((lanes & ~value.valid).any())):
        raise _unknown(walk, index, what, frozenset())
    if isinstance(value.base, int):
        return value.base
    rows, shown = value.base.reshape(-1, WARP_SIZE), lanes.reshape(-1, WARP_SIZE)
    groups: dict[int, list[int]] = {}
    for warp, row, lanes_of_warp in zip(walk.state.warps, rows, shown, strict=True):
        numbers = set(row[lanes_of_warp].tolist())
        if len(numbers) != 1:
            raise _unknown(walk, index, f"{what} in all lanes", frozenset())
        groups.setdefault(numbers.pop(), []).append(warp)
    if len(groups) > 1:
        raise SplitWarps(tuple(map(tuple, groups.values())))
    return int(next(iter(groups)))


def _unknown(walk: WalkState, index: int, what: str, causes: frozenset[Cause]) -> Refused:
    shown = ", ".join(sorted({cause.name for cause in causes}))
    because = f" ({shown})" if shown else ""
    name = walk.graph.kernel.instructions[index].mnemonic
    reason = f"{name}: {what} is not a constant{because}"
    return Refused("PW223", index, reason, _GIVE)
