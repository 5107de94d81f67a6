"""Accesses that are sure to lie in arrays whose sizes the launch states."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.arrays import origins_of_pointers
from ptxwcet.ir.kernel import Address, Instruction, Kernel, Register, Space
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_PLAIN = re.compile(r"(?:ld|st)\.global(?:\.(?:ca|cg|nc|wb|v[248]|[busf](?:8|16|32|64|128)))+")
"""Loads and stores that a cache may serve as often as it likes, of nothing beside what they name:
no volatile or atomic ones, no hints that lines go soon, no larger prefetch."""


def accesses_kept(kernel: Kernel, launch: Launch) -> Mapping[int, frozenset[str]]:
    """The plain loads and stores of global memory, by index, whose address is sure to be made from
    pointers to arrays of stated sizes, with these pointers. Cost: near linear in the kernel.
    """
    if not launch.sizes:
        return {}
    bases = {
        index: base
        for index, instruction in enumerate(kernel.instructions)
        if (base := _base(instruction)) is not None
    }
    origins = origins_of_pointers(kernel, set(bases.values()), frozenset(launch.sizes))
    return {
        index: origins[base]
        for index, base in bases.items()
        if origins[base] and origins[base] <= launch.sizes.keys()
    }


def require_accessed(kernel: Kernel, launch: Launch, kept: Mapping[int, frozenset[str]]) -> None:
    """Raises PtxwcetError (PW326) for arrays of stated sizes that no such access leads to."""
    reached = frozenset[str]().union(*kept.values())
    problems = [
        Diagnostic(
            "PW326",
            f"no load or store of kernel {kernel.readable} is sure to be of the array "
            f"{launch.name_of(name)}, whose size is stated",
            kernel.span,
            notes=(
                "counted are plain ones of global memory (no atomic, volatile or generic ones, no "
                "hints) whose address is made of that pointer and numbers alone",
            ),
            help=f"leave --param {launch.name_of(name)}=bytes:{size} out",
        )
        for name, size in launch.sizes.items()
        if name not in reached
    ]
    if problems:
        raise PtxwcetError(problems)


def _base(instruction: Instruction) -> str | None:
    """The register that a plain load or store of global memory adds a number to for its address."""
    is_plain = instruction.op_class in (OpClass.LOAD_GLOBAL, OpClass.STORE_GLOBAL)
    if not is_plain or instruction.space is not Space.GLOBAL:
        return None
    if _PLAIN.fullmatch(instruction.mnemonic) is None:
        return None
    bases = [one.base for one in instruction.operands if isinstance(one, Address)]
    return bases[0].name if len(bases) == 1 and isinstance(bases[0], Register) else None
