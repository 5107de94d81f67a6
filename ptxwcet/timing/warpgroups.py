"""Products of a warpgroup (``wgmma``): what they take, what waits for them, who executes them.

Four warps issue a product together, one on each sub-core, and each of the four tensor units
multiplies a quarter of its rows. It writes its accumulators when it is done, which is later than
its issue; like copies (:mod:`ptxwcet.timing.cost`) it writes a pseudo register, and
``wgmma.wait_group`` reads all of them. Why bounds of programs with products hold, and of which:
docs/methods/warpgroups.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ptxwcet.ir.kernel import Instruction, Kernel, Register
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.demand import used_units
from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    Node,
    Repeat,
    TimedInstruction,
    WarpClass,
)
from ptxwcet.warp.structure import bodies, joining

WARPGROUP = 4
"""The warps of a warpgroup, neighbours by their numbers; the first is a multiple of it."""

# As for copies: of two products whose origins agree modulo this number, the later waits.
_REGISTERS = 64
PENDING = tuple(f"wgmma.{number}" for number in range(_REGISTERS))
"""The pseudo registers that products write."""

_ROWS = 64
_KINDS = {
    **dict.fromkeys(("f16", "bf16"), ("f16", 2)),
    "tf32": ("tf32", 4),
    **dict.fromkeys(("e4m3", "e5m2"), ("f8", 1)),
    **dict.fromkeys(("s8", "u8"), ("int8", 1)),
}
"""Of a factor's type: which rate holds for it, and its bytes."""


def is_product(instruction: Instruction) -> bool:
    """Whether it is the product of a warpgroup."""
    return instruction.opcode is not None and instruction.opcode.name == "wgmma.mma_async"


def product_cycles(instruction: Instruction, row: OpTiming) -> int | str:
    """The initiation of a product at each of its four tensor units; or what has no figure.

    It is the longest of three: its operations at the rate of its kind, the bytes of its factors
    that come from shared memory, and the least that the row charges of any shape.
    """
    words, rates = instruction.modifiers, dict(row.rates)
    if "sp" in words:
        return "products with a sparse factor"
    shape = next(found for word in words if (found := re.fullmatch(r"m64n(\d+)k(\d+)", word)))
    columns, depth = map(int, shape.groups())
    kind, width = _KINDS.get(words[-1], (words[-1], 0))
    if kind not in rates:
        return f"products of {kind}"
    in_registers = not isinstance(instruction.operands[1], Register)
    moved = (columns + (0 if in_registers else _ROWS)) * depth * width
    operations = 2 * _ROWS * columns * depth
    return max(
        row.initiation_cycles, -(-operations // rates[kind]), -(-moved // rates["shared_bytes"])
    )


class Products:
    """The products of a kernel, and which instructions wait for all that are under way.

    Those that name an accumulator wait, whatever they do with it. So does another product, but for
    one that accumulates in the same registers by the same instruction: the machine does these in
    their order. PTX wants a ``wgmma.wait_group`` before all others; where one stands, this waiting
    takes no time.
    """

    def __init__(self, instructions: Iterable[Instruction] = ()) -> None:
        self._users: dict[str, set[tuple[object, ...]]] = {}
        for one in filter(is_product, instructions):
            for name in one.writes:
                self._users.setdefault(name, set()).add(_accumulating(one))

    def waits(self, instruction: Instruction) -> tuple[str, ...]:
        """The pseudo registers that an instruction waits for, for what it names. Cost: linear."""
        if not self._users:
            return ()
        alike = {_accumulating(instruction)} if is_product(instruction) else set()
        named = (*instruction.reads, *instruction.writes)
        users = (self._users[name] for name in named if name in self._users)
        return PENDING if any(found != alike for found in users) else ()


def _accumulating(product: Instruction) -> tuple[object, ...]:
    return (*product.modifiers, *product.writes)


NO_PRODUCTS = Products()
"""Those of a kernel without any."""


def require_warpgroups(classes: Sequence[WarpClass], kernel: Kernel, machine: Machine) -> None:
    """Raises PtxwcetError (PW403) for products of which no bound is proved.

    They are executed by whole warpgroups whose warps have one program, wherever the warps of the
    block go the same way; each of the four warps has a sub-core with units of its own.
    """
    groups = [(one, found) for one in classes if (found := joining(one.program.body))]
    if not groups:
        return
    used = frozenset[str]().union(*(used_units(one.program.body) for one in classes))
    shared = [one.name for one in machine.units if one.name in used and one.count != WARPGROUP]
    for one, found in groups:
        open_ = joining(_undecided(one.program.body))
        reason = ""
        if machine.schedulers_per_sm != WARPGROUP:
            reason = f"machine {machine.name} has no four schedulers, one for each of its warps"
        elif shared:
            reason = f"the sub-cores of machine {machine.name} share units: {', '.join(shared)}"
        elif not _is_whole(one.warps):
            reason = "the four warps of a warpgroup do not all take the same path to it"
        elif open_:
            reason = "whether or how often warps come to it is not known"
        if reason:
            raise PtxwcetError(unproved((open_ or found)[0], kernel, reason))


def unproved(product: TimedInstruction, kernel: Kernel, reason: str) -> Diagnostic:
    """The refusal of a product at which no bound is proved."""
    instruction = kernel.instructions[product.origin]
    return Diagnostic(
        "PW403",
        f"{instruction.mnemonic}: no bound is proved for this product of a warpgroup: {reason}",
        instruction.span,
        notes=("it waits for all four warps, as a barrier does (docs/methods/warpgroups.md)",),
    )


def _is_whole(warps: Sequence[int]) -> bool:
    members = set(warps)
    return all(
        first // WARPGROUP * WARPGROUP + one in members for first in warps for one in range(4)
    )


def _undecided(body: Sequence[Node]) -> tuple[Node, ...]:
    """The parts of a body of which warps may execute different ones, or differently often."""
    out: list[Node] = []
    for node in body:
        match node:
            case TimedInstruction():
                pass
            case BlockRepeat() | BlockChoice() | Repeat(exact=True):
                for inner in bodies(node):
                    out += _undecided(inner)
            case _:
                out.append(node)
    return tuple(out)
