"""Kernels that cannot be instrumented, each with every reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_LEAST_VERSION = (6, 2)
_LEAST_TARGET = 30
_PARAMETER_BYTES, _MORE_PARAMETER_BYTES = 4352, 32764
_MORE_SINCE = ((8, 1), 70)
_ADDED_BYTES = 16


def refuse_kernels(module: Module, kernels: Sequence[Kernel]) -> None:
    """Raises PtxwcetError (PW650) with all reasons. Cost: linear in the module.

    ``activemask`` needs PTX ISA 6.2 and sm_30; parameters have limits of their own; and a function
    that ends threads by ``exit`` would end warps without a record, because points are in kernels.
    """
    problems = [*_module_problems(module)]
    if not problems:
        for kernel in kernels:
            problems += _kernel_problems(module, kernel)
    if problems:
        raise PtxwcetError(problems)


def _target_number(module: Module) -> int:
    found = re.search(r"\d+", module.target)
    return int(found.group()) if found else 0


def _module_problems(module: Module) -> Iterator[Diagnostic]:
    name = module.source.name
    if module.address_size != 64:
        message = f"{name} has addresses of {module.address_size} bits; points need 64"
        yield Diagnostic("PW650", message, help="compile for 64 bits (nvcc -m64)")
    if module.version < _LEAST_VERSION:
        version = "{}.{}".format(*module.version)
        message = f"{name} is PTX {version}; points use activemask, which needs 6.2"
        yield Diagnostic("PW650", message, help="compile it with CUDA 9.2 or later")
    if _target_number(module) < _LEAST_TARGET:
        message = f"{name} is for {module.target}; points use activemask, which needs sm_30"
        yield Diagnostic("PW650", message, help="compile for a newer architecture")


def _kernel_problems(module: Module, kernel: Kernel) -> Iterator[Diagnostic]:
    end = 0
    for parameter in kernel.parameters:
        aligned = -(-end // parameter.alignment) * parameter.alignment
        end = aligned + parameter.size_bytes
    end = -(-end // 8) * 8 + _ADDED_BYTES
    version, target = _MORE_SINCE
    larger = module.version >= version and _target_number(module) >= target
    limit = _MORE_PARAMETER_BYTES if larger else _PARAMETER_BYTES
    if end > limit:
        message = f"kernel {kernel.readable} would have {end:,} bytes of parameters, {limit:,} fit"
        yield Diagnostic(
            "PW650", message, kernel.span, help="pass a pointer instead of a structure"
        )
    functions = {row.name: row for row in module.functions}
    for name in _called(module, kernel):
        for instruction in functions[name].instructions:
            if instruction.control is ControlEffect.EXIT:
                yield Diagnostic(
                    "PW650",
                    f"function {functions[name].readable}, which kernel {kernel.readable} may "
                    "call, ends threads",
                    instruction.span,
                    notes=("points are inserted in kernels: this end would not be recorded",),
                    help="compile with the function inlined (__forceinline__)",
                )


def _called(module: Module, kernel: Kernel) -> list[str]:
    """The functions with a body that a kernel may call; all of them after an indirect call."""
    functions = {row.name: row for row in module.functions}
    called: dict[str, None] = {}
    waiting = [kernel]
    while waiting:
        for instruction in waiting.pop().instructions:
            if instruction.control is not ControlEffect.CALL:
                continue
            names = [instruction.callee] if instruction.callee is not None else [*functions]
            for name in names:
                if name in functions and name not in called:
                    called[name] = None
                    waiting.append(functions[name])
    return [*called]
