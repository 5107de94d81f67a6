"""Facts about a run as the analysis takes them: the launch, what is known of loops and branches.

How they are stated is the business of :mod:`ptxwcet.flow.facts.stated`,
:mod:`ptxwcet.flow.facts.parameters` and :mod:`ptxwcet.flow.facts.files`; where they belong that of
:mod:`ptxwcet.flow.facts.placing`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from math import prod

from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

Dim3 = tuple[int, int, int]
Outcome = tuple[int, bool]
"""A block id, and whether the branch at the end of the block is taken."""

WARP_SIZE = 32
MAX_BLOCK_THREADS = 1024
_MAX_BLOCK: Dim3 = (1024, 1024, 64)
_MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)


class BoundOrigin(Enum):
    """Who says how often a loop runs."""

    ANALYSIS = "analysis"
    USER = "user"


@dataclass(frozen=True, slots=True)
class PlacedTotal:
    """A run of a warp makes at most ``most`` of ``visits``, each an outcome of a block.

    ``what`` says what these are (``iterations of the loop at $L__BB0_2``), ``source`` who says so.
    ``loop`` is the loop whose iterations they are, None for calls.
    """

    what: str
    source: str
    most: int
    visits: frozenset[Outcome]
    loop: int | None = None


@dataclass(frozen=True, slots=True)
class PlacedFacts:
    """What is said about one kernel beyond its launch, at the blocks and loops of its graph.

    ``loop_bounds``: most body executions for each entry, by loop id; ``loop_sources`` says who
    states them, and ``marked`` are those bounded by a comment in the PTX. An *outcome* is a block
    and whether the branch at its end is taken: no warp takes one of ``never``, and none takes both
    of a pair of ``exclusive`` in one run. ``uniform`` maps a block to ``"warp"`` or ``"block"``:
    all threads of one go the same way at its branch. ``branch_sources``: who excludes an outcome.
    ``totals`` limit what a warp does in a whole run.
    """

    loop_bounds: Mapping[int, int] = field(default_factory=dict)
    never: frozenset[Outcome] = frozenset()
    uniform: Mapping[int, str] = field(default_factory=dict)
    exclusive: tuple[tuple[Outcome, Outcome], ...] = ()
    loop_sources: Mapping[int, str] = field(default_factory=dict)
    marked: frozenset[int] = frozenset()
    branch_sources: Mapping[Outcome, str] = field(default_factory=dict)
    totals: tuple[PlacedTotal, ...] = ()


NO_PLACED_FACTS = PlacedFacts()
"""Nothing is said."""


@dataclass(frozen=True, slots=True)
class ArrayRange:
    """The integers in an array lie in ``low``..``high``, ends included.

    They are of type ``type`` (``"s32"``). ``source`` says who states it.
    """

    type: str
    low: int
    high: int
    source: str = "facts file"

    def __str__(self) -> str:
        return f"{self.type} {self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class TensorBox:
    """What a tensor map says of a copy: elements of its box along each dimension, the innermost
    first, and the bytes of an element.
    """

    dimensions: tuple[int, ...]
    element_bytes: int

    @property
    def rows(self) -> int:
        """Rows of elements that lie one behind the other in memory."""
        return prod(self.dimensions[1:])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dimensions[0] * self.element_bytes

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.dimensions))}:{self.element_bytes}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch facts: threads of a block, blocks of the grid (None: any), scalar arguments.

    ``parameters`` maps PTX parameter names to numbers (to be rounded where the type is ``.f32``).
    ``ranges`` maps names of others to the least and largest value assumed.
    ``parameter_bytes`` are the bytes of aggregates, by PTX name, ``constants`` those that the
    module's ``.const`` variables hold while the kernel runs; what is in neither is not known.
    ``names`` are those of parameters in the CUDA source, by PTX name, for people. ``arrays`` says
    of pointers, by PTX name, in which range the integers lie that the kernel loads through them,
    ``alignments`` of how many bytes they are multiples, ``sizes`` in how many bytes from there on
    all lies that is accessed through them: arrays that are set aside in the L2 cache. ``boxes`` are
    those of tensor maps, by where they lie (:func:`~ptxwcet.ir.mbarriers.tensor_map_of`).
    """

    block: Dim3
    grid: Dim3 | None = None
    parameters: Mapping[str, int | float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    parameter_bytes: Mapping[str, bytes] = field(default_factory=dict)
    constants: Mapping[str, bytes] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, ArrayRange] = field(default_factory=dict)
    alignments: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    boxes: Mapping[str, TensorBox] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of one block; the last one may be partial."""
        return -(-self.threads // WARP_SIZE)

    def name_of(self, parameter: str) -> str:
        """What people call a parameter: its name in the CUDA source, or PTX's without a source."""
        whole, plus, offset = parameter.partition("+")
        return self.names.get(parameter, self.names.get(whole, whole) + plus + offset)


def _usage(code: str, message: str, help_text: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic(code, message, help=help_text))


def parse_dim3(text: str, option: str) -> Dim3:
    """``"32x8"`` or ``"32,8,1"`` or ``"256"`` as three positive numbers; missing ones are 1.

    Raises PtxwcetError (PW210).
    """
    parts = re.split(r"[x,]", text.strip().lower())
    sizes = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,10}", part.strip())]
    if len(sizes) != len(parts) or not 1 <= len(sizes) <= 3 or 0 in sizes:
        raise _usage(
            "PW210",
            f"--{option} {text!r} is not a size",
            f"write one to three positive numbers, for example --{option} 32x8",
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
                f"kernel {kernel.readable} requires a block of {_dims(required)} (.reqntid), "
                f"not {_dims(launch.block)}",
                kernel.span,
                help=f"use --block {_dims(required)}",
            )
        )
    if most is not None and launch.threads > most[0] * most[1] * most[2]:
        raise PtxwcetError(
            Diagnostic(
                "PW212",
                f"kernel {kernel.readable} allows at most {most[0] * most[1] * most[2]} threads a "
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
