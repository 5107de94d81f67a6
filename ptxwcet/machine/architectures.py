"""Checks that a GPU can run code: the architecture of the code against the machine's.

A driver compiles PTX for its own GPU or a later one; machine code runs on GPUs of the same major
revision and no smaller minor one (CUDA C++ Programming Guide, "Compute Capability" and "Binary
Compatibility"). Code for a variant (``sm_90a``) or a family (``sm_100f``) runs only on that; an
embedded GPU and other GPUs do not run machine code of each other. A cubin from sm_100 on does not
state whether it is for a variant: this is assumed.
"""

from __future__ import annotations

import re

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine, shipped_machines
from ptxwcet.machine.model import Machine
from ptxwcet.support.diagnostics import PtxwcetError

_TARGET = re.compile(r"(?:sm|compute)_(\d+)(\d)([af]?)")
_EMBEDDED = frozenset({(3, 2), (5, 3), (6, 2), (7, 2), (8, 7), (8, 8), (10, 1), (11, 0)})
_OLDEST_OF_NVCC_13 = (7, 5)
_VARIANTS_FROM = 10  # the major revision from which cubins may be for a variant


def runs_on(target: str, capability: str, *, is_code: bool) -> bool:
    """Returns whether a GPU of a compute capability runs PTX, or machine code, for a target."""
    named = _TARGET.fullmatch(target)
    if named is None:
        return False
    least, (major, minor) = (int(named[1]), int(named[2])), map(int, capability.split("."))
    gpu = major, minor
    if gpu == least:
        return True
    if named[3] == "a" or (is_code and (_EMBEDDED & {gpu, least} or major >= _VARIANTS_FROM)):
        return False
    return gpu > least and (major == least[0] or not (is_code or named[3]))


def require_architecture(kernel: Kernel, machine: Machine) -> None:
    """Raises PtxwcetError (PW329) for code that the machine's GPU cannot run.

    A machine without a compute capability is not a GPU and accepts all code.
    """
    capability, is_code = machine.compute_capability, kernel.code is not None
    if not kernel.target or capability is None:
        return
    if runs_on(kernel.target, capability, is_code=is_code):
        return
    code = "machine code" if is_code else "PTX"
    own = architecture_of(capability)
    others = [
        name
        for name in shipped_machines()
        if (its := load_machine(name).compute_capability) is not None
        and runs_on(kernel.target, its, is_code=is_code)
    ]
    how = f"'nvcc -arch={own}'; CUDA source here: --arch {own}"
    if tuple(map(int, capability.split("."))) < _OLDEST_OF_NVCC_13:
        how = f"nvcc 12.9 or earlier, with -arch={own}"
    listed = f", or take a machine that runs it: --machine {' or '.join(others)}" if others else ""
    raise PtxwcetError.of(
        "PW329",
        f"kernel {kernel.readable} is {code} for {kernel.target}, which a GPU of compute "
        f"capability {capability} ({machine.name}) does not run",
        kernel.span,
        help=f"compile it for {own} ({how}){listed}",
    )


def architecture_of(capability: str) -> str:
    """Returns the compilers' name for a compute capability: ``sm_90``."""
    return f"sm_{capability.replace('.', '')}"


def architecture_assumptions(kernel: Kernel, machine: Machine) -> tuple[Assumption, ...]:
    """Returns the assumptions of code that was compiled here, or for another architecture."""
    assumptions, how = [], kernel.span.source.how
    if how:
        text = f"the kernel that is launched is compiled as it was here: {how}"
        assumptions.append(Assumption("compiled-here", text, AssumptionState.ASSUMED, "the object"))
    capability = machine.compute_capability
    if capability is None or not kernel.target:
        return tuple(assumptions)
    named, own = _TARGET.fullmatch(kernel.target), architecture_of(capability)
    if named is not None and f"sm_{named[1]}{named[2]}" != own:
        does = "loads" if kernel.code is not None else "compiles"
        text = (
            f"the code is for {kernel.target}, and the driver {does} it as it is on a GPU of "
            f"compute capability {capability}: what is compiled for {own} is other code"
        )
        source = "its .target" if kernel.code is None else "the cubin"
        assumptions.append(Assumption("other-architecture", text, AssumptionState.ASSUMED, source))
    return tuple(assumptions)
