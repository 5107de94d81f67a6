"""What the user says about a run: block, grid, scalar arguments, loop bounds.

Arguments are named by 0-based index (``3``), by PTX name (``k_param_3``) or by the CUDA name when
the source is at hand (:mod:`ptxwcet.flow.cuda_names`). Every fact is checked against the kernel; a
fact that fits nothing is an error, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ptxwcet.ir.kernel import Kernel, Parameter
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

Dim3 = tuple[int, int, int]

WARP_SIZE = 32
MAX_BLOCK_THREADS = 1024
_MAX_BLOCK: Dim3 = (1024, 1024, 64)
_MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)


class BoundOrigin(Enum):
    """Who says how often a loop runs."""

    ANALYSIS = "analysis"
    USER = "user"


@dataclass(frozen=True, slots=True)
class LoopBound:
    """At most ``iterations`` executions of the loop body for each entry of the loop."""

    iterations: int
    origin: BoundOrigin
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch facts: threads of a block, blocks of the grid (None: any), scalar arguments.

    ``parameters`` maps PTX parameter names to integers (floats are kept for completeness but do not
    decide branches), ``ranges`` those of which only the smallest and the largest value are known.
    """

    block: Dim3
    grid: Dim3 | None = None
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of one block; the last one may be partial."""
        return -(-self.threads // WARP_SIZE)


def _usage(code: str, message: str, help_text: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic(code, message, help=help_text))


def parse_dim3(text: str, what: str) -> Dim3:
    """``"32x8"`` or ``"32,8,1"`` or ``"256"`` as three positive numbers; missing ones are 1.

    Raises PtxwcetError (PW210).
    """
    parts = re.split(r"[x,]", text.strip().lower())
    sizes = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,10}", part.strip())]
    if len(sizes) != len(parts) or not 1 <= len(sizes) <= 3 or 0 in sizes:
        raise _usage(
            "PW210",
            f"--{what} {text!r} is not a size",
            f"write one to three positive numbers, for example --{what} 32x8",
        )
    sizes += [1] * (3 - len(sizes))
    return sizes[0], sizes[1], sizes[2]


def check_launch(launch: Launch, kernel: Kernel) -> None:
    """Raises PtxwcetError when no such launch of the kernel is legal (PW211, PW212)."""
    block = launch.block
    if launch.threads > MAX_BLOCK_THREADS or any(
        size > limit for size, limit in zip(block, _MAX_BLOCK, strict=True)
    ):
        raise _usage(
            "PW211",
            f"a block of {_dims(block)} has {launch.threads} threads; the limit is "
            f"{MAX_BLOCK_THREADS} (at most {_dims(_MAX_BLOCK)})",
            "give a smaller --block",
        )
    if launch.grid is not None and any(
        size > limit for size, limit in zip(launch.grid, _MAX_GRID, strict=True)
    ):
        raise _usage(
            "PW211",
            f"a grid of {_dims(launch.grid)} is over the limit of {_dims(_MAX_GRID)}",
            "give a smaller --grid",
        )
    _check_directives(launch, kernel)


def _check_directives(launch: Launch, kernel: Kernel) -> None:
    required, most = kernel.required_threads, kernel.max_threads
    if required is not None and required != launch.block:
        raise PtxwcetError(
            Diagnostic(
                "PW212",
                f"kernel {kernel.name} requires a block of {_dims(required)} (.reqntid), "
                f"not {_dims(launch.block)}",
                kernel.span,
                help=f"use --block {_dims(required)}",
            )
        )
    if most is not None and launch.threads > most[0] * most[1] * most[2]:
        raise PtxwcetError(
            Diagnostic(
                "PW212",
                f"kernel {kernel.name} allows at most {most[0] * most[1] * most[2]} threads a "
                f"block (.maxntid {_dims(most)}), not {launch.threads}",
                kernel.span,
                help="give a smaller --block",
            )
        )


def _dims(sizes: Dim3) -> str:
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))


# --- parameters -----------------------------------------------------------------------------------


def resolve_parameters(
    kernel: Kernel, assignments: Sequence[str], cuda_names: Sequence[str] | None
) -> dict[str, int | float]:
    """``["K=1024", "4=7"]`` as values by PTX parameter name, checked against the declared types.

    ``cuda_names`` are the parameter names of the CUDA source in order, or None when it is not at
    hand. Raises PtxwcetError (PW213 no such parameter, PW214 does not fit, PW215 given twice).
    """
    values: dict[str, int | float] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or not name.strip():
            raise _usage(
                "PW213", f"--param {assignment!r} is not NAME=VALUE", "for example --param 3=1024"
            )
        parameter = _find_parameter(kernel, name.strip(), cuda_names)
        value = _parse_value(parameter, text.strip(), assignment)
        if parameter.name in values and values[parameter.name] != value:
            raise _usage(
                "PW215",
                f"parameter {parameter.name} is given twice, as {values[parameter.name]} "
                f"and as {value}",
                "give each parameter once",
            )
        values[parameter.name] = value
    return values


def _find_parameter(kernel: Kernel, name: str, cuda_names: Sequence[str] | None) -> Parameter:
    parameters = kernel.parameters
    if re.fullmatch(r"[0-9]{1,9}", name) and int(name) < len(parameters):
        return parameters[int(name)]
    for parameter in parameters:
        if parameter.name == name:
            return parameter
    if cuda_names is not None and len(cuda_names) == len(parameters) and name in cuda_names:
        return parameters[list(cuda_names).index(name)]
    known = [
        f"{index} ({parameter.name}, .{parameter.type})"
        for index, parameter in enumerate(parameters)
    ]
    if cuda_names is not None and len(cuda_names) == len(parameters):
        known = [f"{cuda} = {text}" for cuda, text in zip(cuda_names, known, strict=True)]
    raise PtxwcetError(
        Diagnostic(
            "PW213",
            f"kernel {kernel.name} has no parameter {name!r}",
            kernel.span,
            notes=("its parameters: " + ("; ".join(known) or "none"),),
            help="name a parameter by index or PTX name; by CUDA name when the .cu lies beside "
            "the .ptx or is given by --source",
        )
    )


def _parse_value(parameter: Parameter, text: str, assignment: str) -> int | float:
    kind = parameter.type
    if parameter.is_array:
        raise _usage(
            "PW214",
            f"--param {assignment}: {parameter.name} is an aggregate",
            "only scalar parameters can be given a value",
        )
    if kind[0] == "f":
        try:
            return float(text)
        except ValueError:
            raise _usage(
                "PW214", f"--param {assignment}: {text!r} is not a number", f"the type is .{kind}"
            ) from None
    bits = int(kind[1:]) if kind[1:].isdigit() else 0
    try:
        value = int(text, 0)
    except ValueError:
        raise _usage(
            "PW214", f"--param {assignment}: {text!r} is not an integer", f"the type is .{kind}"
        ) from None
    # .u32 holds C's int and unsigned alike: any value that fits either reading is meant
    if not bits or not -(1 << (bits - 1)) <= value < (1 << bits):
        raise _usage(
            "PW214",
            f"--param {assignment}: {value} does not fit the type .{kind} of {parameter.name}",
            f"give a value of at most {bits} bits",
        )
    return value


# --- loop bounds ----------------------------------------------------------------------------------


def parse_loop_bounds(assignments: Sequence[str]) -> dict[str, int]:
    """``["$L__BB0_3=100", "27=64"]`` as iterations by label or source line, unresolved.

    Raises PtxwcetError (PW216).
    """
    bounds: dict[str, int] = {}
    for assignment in assignments:
        place, separator, text = assignment.rpartition("=")
        if not separator or not place.strip() or not re.fullmatch(r"[0-9]{1,18}", text.strip()):
            raise _usage(
                "PW216",
                f"--loop-bound {assignment!r} is not PLACE=ITERATIONS",
                "PLACE is the label of the loop's first block or a line of the CUDA source, "
                "for example --loop-bound '$L__BB0_2=64'",
            )
        key, value = place.strip(), int(text)
        if bounds.setdefault(key, value) != value:
            raise _usage(
                "PW215",
                f"the loop at {key} is given two bounds, {bounds[key]} and {value}",
                "give each loop one bound",
            )
    return bounds
