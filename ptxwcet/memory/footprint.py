"""Footprints: the sectors and lines of memory that a block touches at most, and those of a launch.

Where the shape of an access is known (:mod:`ptxwcet.memory.forms`), all places that the threads of
a block come to are put together with those of other accesses from the same base, so that what is
touched again and again counts once. What has no known shape counts for each execution, as in the
bounds; so it is with local memory and with hints to fetch more than is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import BlockPaths
from ptxwcet.ir.kernel import Space
from ptxwcet.memory.analysis import AnalysedAccess, KernelAccesses
from ptxwcet.memory.counting import LINE, SECTOR
from ptxwcet.memory.executions import Executions
from ptxwcet.memory.forms import Form, Forms, RunForms
from ptxwcet.memory.lanes import LaneAnalysis
from ptxwcet.memory.pattern import KNOWN, trailing_zeros
from ptxwcet.support.records import dataclass

_MOST_PLACES = 1 << 18
"""Places that are told apart in one set; what more there are of is estimated from its ends."""
_MOST_RESIDUES = 8


@dataclass(frozen=True, slots=True)
class Footprint:
    """What is touched at most, in sectors of 32 and lines of 128 bytes.

    By a block of threads, and by all blocks of a launch together: None if it has no known grid.
    ``is_shared``: whether two blocks may touch the same line from one base, whatever two bases have
    in common; None if nobody knows of a launch.
    ``launch_runs``: of each base, how many lines there are from the first that a launch touches to
    the last; None if that is not known of all.
    """

    block_sectors: int = 0
    block_lines: int = 0
    launch_sectors: int | None = 0
    launch_lines: int | None = 0
    is_shared: bool | None = False
    launch_runs: tuple[int, ...] | None = ()

    def plus(self, other: Footprint) -> Footprint:
        """What is touched of either."""

        def both(one: int | None, two: int | None) -> int | None:
            return None if one is None or two is None else one + two

        shared = [self.is_shared, other.is_shared]
        runs = [self.launch_runs, other.launch_runs]
        known = [run for run in runs if run is not None]
        return Footprint(
            self.block_sectors + other.block_sectors,
            self.block_lines + other.block_lines,
            both(self.launch_sectors, other.launch_sectors),
            both(self.launch_lines, other.launch_lines),
            None if None in shared else any(shared),
            tuple(sum(known, ())) if len(known) == len(runs) else None,
        )


@dataclass(frozen=True, slots=True)
class _Shape:
    """An access: what it is at most in all executions of a block, and its forms if it has any."""

    access: AnalysedAccess
    times: int
    sectors: int
    lines: int
    forms: Forms


class Footprints:
    """The footprints of a kernel in a launch whose warps execute the paths of ``pieces``.

    Where a count of these has no end, or an opcode is not known, nothing is (``is_known``). Cost:
    that of the analysis of accesses, and sorting the places of each set, of which there are at
    most some 100,000.
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
        for one in accesses.accesses if self.is_known else ():
            if not one.most.sectors:
                continue
            times = executions.of_block(graph.block_of(one.index))
            assert times is not None
            lines = one.most.sectors if one.access.fetched_bytes > LINE else one.most.lines
            shape = _Shape(one, times, times * one.most.sectors, times * lines, self._known(one))
            self._shapes.append(shape)

    def _known(self, one: AnalysedAccess) -> Forms:
        access = one.access
        is_plain = access.space is Space.GLOBAL and access.fetched_bytes == SECTOR
        if not is_plain or access.address is None or access.times != 1:
            return None
        return self._forms.of_address(access.address, one.index)

    def of(self, counts: Callable[[AnalysedAccess], bool] = lambda _: True) -> Footprint:
        """Returns the footprint of some accesses together."""
        return sum_of(self._by_base(counts).values())

    def asked(self, counts: Callable[[AnalysedAccess], bool], fetches: int) -> int:
        """Returns how many sectors some accesses of a block ask for in all, those among them that
        are not filled ``fetches`` times more.
        """
        shapes = (shape for shape in self._shapes if counts(shape.access))
        return sum(one.sectors + fetches * one.times * one.access.most.partial for one in shapes)

    def arrays(self) -> Mapping[str, Footprint]:
        """The footprints by the parameter whose array they are of; "" stands for all others."""
        found: dict[str, Footprint] = {}
        for name, footprint in self._by_base(lambda _: True).items():
            found[name] = found.get(name, Footprint(is_shared=False)).plus(footprint)
        return found

    def _by_base(self, counts: Callable[[AnalysedAccess], bool]) -> dict[str, Footprint]:
        groups: dict[frozenset[tuple[str, int]], list[_Shape]] = defaultdict(list)
        found: dict[str, Footprint] = {}
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
            found[name] = found.get(name, Footprint()).plus(self._united(bases, shapes))
        if any(unknown):
            blocks = self._blocks
            launch = [None if blocks is None else blocks * one for one in unknown]
            shared = None if blocks is None else blocks > 1
            rest = Footprint(unknown[0], unknown[1], launch[0], launch[1], shared, None)
            found[""] = found.get("", Footprint()).plus(rest)
        return found

    def _base(self, form: Form) -> frozenset[tuple[str, int]]:
        """Returns the symbols that a launch has in common, each with its coefficient."""
        return frozenset(
            (name, number)
            for name, number in form.symbols.items()
            if self._grid is None or not name.startswith("%ctaid.")
        )

    def _united(self, bases: frozenset[tuple[str, int]], shapes: Sequence[_Shape]) -> Footprint:
        """What some accesses from one base touch together."""
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
    """What is touched of several arrays that have nothing in common, or are taken to have so."""
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
        """Its first byte and the one behind the last."""
        low, high = int(self.lanes.min()), int(self.lanes.max())
        for step, most in self.counts:
            low, high = low + min(0, step * most), high + max(0, step * most)
        return low, high + self.size


def _units(places: Sequence[_Places], unit: int, zeros: int) -> tuple[int, bool]:
    """How many units of bytes all these accesses touch, from any base that is a multiple of 2 to
    the power of ``zeros``; and whether it is just so many, from all bases, if all are executed.
    """
    residues, hull = range(0, unit, 1 << min(zeros, 7)), _hull(places, unit)
    if len(residues) > _MOST_RESIDUES:  # where units begin is moved: one may become two
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
    """How many units of bytes there are from the first access to the last, from any base."""
    bytes_of_all = max(place.ends[1] for place in places) - min(place.ends[0] for place in places)
    return (bytes_of_all + unit - 2) // unit + 1


def _touched(places: _Places, unit: int, residue: int) -> tuple[NDArray[np.int64], int]:
    """The numbers of the units that are touched; and by how much there may be more, 0 for none.

    Steps of whole units move these, others the bytes.
    """
    counts = sorted(places.counts, key=lambda one: (trailing_zeros(one[0]), one[1]))
    whole = [count for count in counts if count[0] % unit == 0]
    parts = [count for count in counts if count[0] % unit]
    found, left = places.lanes + residue, 1
    for step, most in parts:
        if len(found) * (most + 1) > _MOST_PLACES:
            left *= 2 * (most + 1)
        else:
            found = _moved(found, step, most)
    first, last = found // unit, (found + places.size - 1) // unit
    widest = -(-places.size // unit) + 1
    found = np.unique(np.concatenate([np.minimum(first + more, last) for more in range(widest)]))
    for step, most in whole:
        if len(found) * (most + 1) > _MOST_PLACES:
            left *= most + 1
        else:
            found = _moved(found, step // unit, most)
    return found, 0 if left == 1 else left


def _moved(numbers: NDArray[np.int64], step: int, most: int) -> NDArray[np.int64]:
    """Returns the numbers, moved by each multiple of a step."""
    steps = step * np.arange(most + 1, dtype=np.int64)
    return np.unique(numbers[:, None] + steps[None, :])
