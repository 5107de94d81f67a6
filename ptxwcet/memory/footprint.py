"""Footprints: the most sectors and lines of memory that a block touches, and a launch.

If the form of an access is known (:mod:`ptxwcet.memory.forms`), all places that the threads of a
block access are united with those of other accesses from the same base, so that repeated accesses
count once. An access of unknown form counts for each execution, as in the bounds; so do accesses to
local memory and prefetch hints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.shapes.pattern import KNOWN, trailing_zeros
from ptxwcet.flow.walk.path import BlockPaths
from ptxwcet.ir.kernel import Space
from ptxwcet.memory.analysis import AnalysedAccess, KernelAccesses
from ptxwcet.memory.counting import LINE, SECTOR
from ptxwcet.memory.executions import Executions
from ptxwcet.memory.forms import Form, Forms, RunForms
from ptxwcet.memory.lanes import LaneAnalysis
from ptxwcet.support.records import dataclass

_MOST_PLACES = 1 << 18
"""The most places that are distinguished in one set; further ones are estimated from its ends."""
_MOST_RESIDUES = 8


@dataclass(frozen=True, slots=True)
class Footprint:
    """The most memory touched, in sectors of 32 and lines of 128 bytes.

    It has the counts of a block of threads, and of all blocks of a launch together: None without a
    known grid. ``is_shared``: whether two blocks may touch the same line from one base, apart from
    overlaps of two bases; None if unknown for a launch. ``launch_runs``: for each base, the number
    of lines from the first to the last that a launch touches; None if unknown for some base.
    """

    block_sectors: int = 0
    block_lines: int = 0
    launch_sectors: int | None = 0
    launch_lines: int | None = 0
    is_shared: bool | None = False
    launch_runs: tuple[int, ...] | None = ()

    def plus(self, other: Footprint) -> Footprint:
        """Returns the footprint of both together."""

        def both(one: int | None, two: int | None) -> int | None:
            return None if one is None or two is None else one + two

        shared = [self.is_shared, other.is_shared]
        runs = [self.launch_runs, other.launch_runs]
        known_runs = [run for run in runs if run is not None]
        return Footprint(
            self.block_sectors + other.block_sectors,
            self.block_lines + other.block_lines,
            both(self.launch_sectors, other.launch_sectors),
            both(self.launch_lines, other.launch_lines),
            None if None in shared else any(shared),
            tuple(sum(known_runs, ())) if len(known_runs) == len(runs) else None,
        )


@dataclass(frozen=True, slots=True)
class _Shape:
    """An access: its largest counts in all executions of a block, and its forms if it has any."""

    access: AnalysedAccess
    times: int
    sectors: int
    lines: int
    forms: Forms


class Footprints:
    """The footprints of a kernel in a launch whose warps execute the paths of ``pieces``.

    If a count of these is unbounded, or an opcode unknown, no footprint is known (``is_known``).
    Cost: as the analysis of accesses, and sorting the places of each set, at most some 100,000.
    """

    def __init__(
        self,
        graph: FlowGraph,
        launch: Launch,
        accesses: KernelAccesses,
        pieces: Sequence[BlockPaths],
    ) -> None:
        self.kernel = graph.kernel
        lanes = LaneAnalysis(graph, launch)
        executions = Executions(pieces)
        self._there = lanes.there
        self._grid = launch.grid
        self._blocks = None if launch.grid is None else prod(launch.grid)
        self._forms = RunForms(graph, launch, lanes, executions)
        self._pointers = {parameter.name for parameter in graph.kernel.parameters}
        self.is_known = executions.is_known and all(
            instruction.op_class is not None for instruction in graph.kernel.instructions
        )
        self._shapes: list[_Shape] = []
        for item in accesses.accesses if self.is_known else ():
            if not item.most.sectors:
                continue
            times = executions.of_block(graph.block_of(item.index))
            assert times is not None
            lines = item.most.sectors if item.access.fetched_bytes > LINE else item.most.lines
            shape = _Shape(item, times, times * item.most.sectors, times * lines, self._known(item))
            self._shapes.append(shape)

    def _known(self, analysed: AnalysedAccess) -> Forms:
        access = analysed.access
        is_plain = access.space is Space.GLOBAL and access.fetched_bytes == SECTOR
        if not is_plain or access.address is None or access.times != 1:
            return None
        return self._forms.of_address(access.address, analysed.index)

    def of(self, counts: Callable[[AnalysedAccess], bool] = lambda _: True) -> Footprint:
        """Returns the footprint of some accesses together."""
        return sum_of(self._by_base(counts).values())

    def asked(self, counts: Callable[[AnalysedAccess], bool], fetches: int) -> int:
        """Returns the number of sectors that some accesses of a block request in all, plus
        ``fetches`` for each of these sectors that is not filled.
        """
        shapes = (shape for shape in self._shapes if counts(shape.access))
        return sum(one.sectors + fetches * one.times * one.access.most.partial for one in shapes)

    def arrays(self) -> Mapping[str, Footprint]:
        """Returns the footprints by parameter of the array; "" is for all others."""
        found: dict[str, Footprint] = {}
        for name, footprint in self._by_base(lambda _: True).items():
            found[name] = found.get(name, Footprint(is_shared=False)).plus(footprint)
        return found

    def _by_base(self, counts: Callable[[AnalysedAccess], bool]) -> dict[str, Footprint]:
        groups: dict[frozenset[tuple[str, int]], list[_Shape]] = defaultdict(list)
        footprints: dict[str, Footprint] = {}
        unknown = [0, 0]
        for shape in self._shapes:
            if not counts(shape.access):
                continue
            if shape.forms is None:
                unknown = [unknown[0] + shape.sectors, unknown[1] + shape.lines]
                continue
            for bases in {self._base(form) for form in shape.forms}:
                groups[bases].append(shape)
        for bases, shapes in groups.items():
            names = [name for name, number in bases if name in self._pointers and number == 1]
            name = names[0] if len(names) == 1 else ""
            footprints[name] = footprints.get(name, Footprint()).plus(self._united(bases, shapes))
        if any(unknown):
            blocks = self._blocks
            launch = [None if blocks is None else blocks * one for one in unknown]
            shared = None if blocks is None else blocks > 1
            rest = Footprint(unknown[0], unknown[1], launch[0], launch[1], shared, None)
            footprints[""] = footprints.get("", Footprint()).plus(rest)
        return footprints

    def _base(self, form: Form) -> frozenset[tuple[str, int]]:
        """Returns the symbols that a launch has in common, each with its coefficient."""
        return frozenset(
            (name, number)
            for name, number in form.symbols.items()
            if self._grid is None or not name.startswith("%ctaid.")
        )

    def _united(self, bases: frozenset[tuple[str, int]], shapes: Sequence[_Shape]) -> Footprint:
        """Returns the joint footprint of some accesses from one base."""
        of_launch: list[_Places] = []
        of_block: dict[frozenset[tuple[str, int]], list[_Places]] = defaultdict(list)
        for shape in shapes:
            assert shape.forms is not None
            for form in shape.forms:
                if self._base(form) != bases:
                    continue
                places = _Places(self._lanes(form), form.counts, shape.access.access.access_bytes)
                of_block[frozenset(form.symbols.items())].append(places)
                axes = tuple(
                    (number, self._forms.ranges[name][1])
                    for name, number in form.symbols.items()
                    if (name, number) not in bases
                )
                of_launch.append(_Places(places.lanes, (*places.counts, *axes), places.size))
        most = sum(shape.sectors for shape in shapes), sum(shape.lines for shape in shapes)
        block, launch, shared = [0, 0], [0, 0], False
        for place, unit in enumerate((SECTOR, LINE)):
            counted = [
                _units(places, unit, self._forms.alignment(symbols))
                for symbols, places in of_block.items()
            ]
            block[place] = min(most[place], sum(number for number, _ in counted))
            if self._blocks is None:
                continue
            number, is_exact = _units(of_launch, unit, self._forms.alignment(bases))
            launch[place] = min(number, self._blocks * block[place])
            alone = len(counted) == 1 and is_exact and counted[0][1]
            shared = self._blocks > 1 and not (alone and number == self._blocks * counted[0][0])
        if self._blocks is None:
            return Footprint(block[0], block[1], None, None, None, None)
        runs = (_hull(of_launch, LINE),)
        return Footprint(block[0], block[1], launch[0], launch[1], shared, runs)

    def _lanes(self, form: Form) -> NDArray[np.int64]:
        if isinstance(form.lanes, int):
            return np.array([form.lanes], dtype=np.int64)
        return np.unique(form.lanes[self._there])


def sum_of(footprints: Iterable[Footprint]) -> Footprint:
    """Returns the sum of footprints of arrays that are, or are taken to be, disjoint."""
    total = Footprint()
    for footprint in footprints:
        total = total.plus(footprint)
    return total


@dataclass(frozen=True, slots=True)
class _Places:
    """Accesses of ``size`` bytes at ``lanes + sum(step * n)``, each n of ``counts`` from 0 on."""

    lanes: NDArray[np.int64]
    counts: tuple[tuple[int, int], ...]
    size: int

    @property
    def ends(self) -> tuple[int, int]:
        """Returns its first byte and the byte after its last."""
        low, high = int(self.lanes.min()), int(self.lanes.max())
        for step, most in self.counts:
            low, high = low + min(0, step * most), high + max(0, step * most)
        return low, high + self.size


def _units(places: Sequence[_Places], unit: int, zeros: int) -> tuple[int, bool]:
    """Returns the most units of bytes touched by all these accesses, from any base that is a
    multiple of ``2**zeros``; and whether every base gives this number if all are executed.
    """
    residues, hull = range(0, unit, 1 << min(zeros, 7)), _hull(places, unit)
    if len(residues) > _MOST_RESIDUES:  # the starts of units are moved: one unit may become two
        number, _ = _units(places, unit, KNOWN)
        return min(hull, 2 * number), False
    numbers, is_exact = [], True
    for residue in residues:
        sets, rest = [], 0
        for place in places:
            touched, left = _touched(place, unit, residue)
            if left:
                low, high = place.ends
                rest += min(len(touched) * left, (high - low + unit - 2) // unit + 1)
            else:
                sets.append(touched)
        own = len(np.unique(np.concatenate(sets))) if sets else 0
        numbers.append(min(hull, own + rest))
        is_exact &= not rest and own <= hull
    return max(numbers), is_exact and len(set(numbers)) == 1


def _hull(places: Sequence[_Places], unit: int) -> int:
    """Returns the number of units from the first access to the last, from any base."""
    bytes_of_all = max(place.ends[1] for place in places) - min(place.ends[0] for place in places)
    return (bytes_of_all + unit - 2) // unit + 1


def _touched(places: _Places, unit: int, residue: int) -> tuple[NDArray[np.int64], int]:
    """Returns the touched units; and a factor by which there may be more, 0 for none.

    Steps of whole units move the units, other steps the bytes.
    """
    counts = sorted(places.counts, key=lambda one: (trailing_zeros(one[0]), one[1]))
    whole = [count for count in counts if count[0] % unit == 0]
    parts = [count for count in counts if count[0] % unit]
    touched, left = places.lanes + residue, 1
    for step, most in parts:
        if len(touched) * (most + 1) > _MOST_PLACES:
            left *= 2 * (most + 1)
        else:
            touched = _moved(touched, step, most)
    first, last = touched // unit, (touched + places.size - 1) // unit
    widest = -(-places.size // unit) + 1
    touched = np.unique(np.concatenate([np.minimum(first + more, last) for more in range(widest)]))
    for step, most in whole:
        if len(touched) * (most + 1) > _MOST_PLACES:
            left *= most + 1
        else:
            touched = _moved(touched, step // unit, most)
    return touched, 0 if left == 1 else left


def _moved(numbers: NDArray[np.int64], step: int, most: int) -> NDArray[np.int64]:
    """Returns the numbers, moved by each multiple of a step."""
    steps = step * np.arange(most + 1, dtype=np.int64)
    return np.unique(numbers[:, None] + steps[None, :])
