"""Attacks on the paths of a kernel: executions on data that are made up to lead it astray.

What is compared is as in :mod:`ptxwcet.validate.inputs`: executed paths with the analysed
ones, the simulated time of what was executed with the safe bound.

Data are chosen again and again around the best ones. Values are those at which arithmetic goes
wrong and loops run long: 0, 1, -1, small numbers, indices of the arrays, powers of two and their
neighbours, the ends of the type. Random numbers come from NumPy's ``RandomState``, so that a seed
means the same data everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptxwcet.commands.run.study import emulated
from ptxwcet.compose.analysed import KernelAnalysis
from ptxwcet.emulator.launch import Argument, EmulatedLaunch
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.model import Machine
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.validate.inputs import (
    BUG,
    InputValidation,
    analysed_launch,
    safe_cycles,
    validate_input,
)

MOST_ATTACKED = 200_000
"""Warp-instructions of a run on adversarial data, after which it is left out."""

_ENDLESS = "PW411"
Array = np.ndarray[Any, np.dtype[Any]]
KINDS = ("own", "small", "tiny", "indices", "edges", "ends", "one", "random")
_AGAIN = 0.6  # how often the best data so far are changed, not replaced


@dataclass(frozen=True, slots=True)
class PathAttack:
    """Executions on adversarial data: how many were compared, and how many were left out.

    Left out are runs with a finding (an address outside of all arrays, a data race) and runs of
    more than :data:`MOST_ATTACKED` instructions. ``own`` and ``longest`` are the warp-instructions
    of the launch file's own input and of the longest run. ``refusal`` says why there is no attack.
    """

    compared: int = 0
    left_out: int = 0
    own: int = 0
    longest: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    refusal: str = ""


def attack_paths(
    request: Request, module: Module, machine: Machine, attacks: int, seed: int = 1
) -> PathAttack:
    """Attacks the analysed paths of a launch with data chosen to go round loops often.

    Scalars stay as the launch file says, arrays are made up (AdversarialData),
    those around which runs were longest again and again. Facts of the user may speak of the data:
    with such there is no attack. Raises PtxwcetError as :func:`validate_inputs`. Cost: that of the
    executions.
    """
    launch, analysis = analysed_launch(request, module, machine, "--attack")
    return attack_analysis(analysis, module, emulated(launch), attacks, seed)


def attack_analysis(
    analysis: KernelAnalysis, module: Module, launch: EmulatedLaunch, attacks: int, seed: int
) -> PathAttack:
    """:func:`attack_paths` on an analysis that is there already."""
    facts = analysis.facts
    on_data = facts.loop_bounds or facts.never or facts.exclusive or facts.uniform or facts.totals
    if on_data or analysis.launch.arrays:
        return PathAttack(refusal="facts were given, which may be true of some data alone")
    data = AdversarialData(launch.arguments, seed)
    contradictions: dict[str, Diagnostic] = {}
    compared = own = longest = 0
    for number in range(attacks):
        arguments = launch.arguments if number == 0 else data.draw()
        run = _attacked(analysis, module, replace(launch, arguments=_copied(arguments)), number)
        if run is None:
            continue
        compared += 1
        data.note(arguments, run.warp_instructions)
        own = run.warp_instructions if number == 0 else own
        longest = max(longest, run.warp_instructions)
        contradictions.update({str(one): one for one in run.diagnostics})
    return PathAttack(compared, attacks - compared, own, longest, tuple(contradictions.values()))


def _copied(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Arguments whose arrays a run may write to."""
    return tuple(one if isinstance(one, int | float | bytes) else one.copy() for one in arguments)


def _attacked(
    analysis: KernelAnalysis, module: Module, launch: EmulatedLaunch, seed: int
) -> InputValidation | None:
    """One run on adversarial data; None for one that says nothing.

    A run that does not end within :data:`MOST_ATTACKED` instructions is none that the bound allows
    if the bound has no room for so many.
    """
    try:
        run = validate_input(analysis, module, launch, seed, most_instructions=MOST_ATTACKED)
    except PtxwcetError as error:
        grid = launch.grid[0] * launch.grid[1] * launch.grid[2]
        room = safe_cycles(max(analysis.pieces, key=safe_cycles))
        if error.diagnostics[0].code != _ENDLESS:
            return None
        if room * analysis.machine.schedulers_per_sm * grid >= MOST_ATTACKED:
            return None
        message = (
            f"kernel {analysis.kernel.readable}: a run executes more than {MOST_ATTACKED:,} warp "
            f"instructions; {grid:,} blocks of {room:,} cycles have no room for so many"
        )
        place = Diagnostic("PW538", message, error.diagnostics[0].span, help=BUG)
        return InputValidation((), 0, MOST_ATTACKED, (place,))
    return run if run.rows else None


class AdversarialData:
    """A search over the arrays of a launch: :meth:`draw` gives data, :meth:`note` says how far a
    run on them went. Scalars and aggregates, which are facts of the launch, stay.
    """

    def __init__(self, arguments: Sequence[Argument], seed: int) -> None:
        self._arguments = tuple(arguments)
        self._random = np.random.RandomState(seed)
        self._best = self._arguments
        self._score = -1
        self._sizes = [one.size for one in self._arguments if isinstance(one, np.ndarray)]

    def draw(self) -> tuple[Argument, ...]:
        """Other data: all arrays anew, or one of the best so far changed. Cost: linear in them."""
        chooser = self._random
        places = [i for i, one in enumerate(self._arguments) if isinstance(one, np.ndarray)]
        if not places:
            return self._arguments
        drawn = list(self._arguments)
        if self._score >= 0 and chooser.random_sample() < _AGAIN:
            drawn = list(self._best)
            places = [places[chooser.randint(len(places))]]
        for place in places:
            own = drawn[place]
            assert isinstance(own, np.ndarray)
            drawn[place] = self._changed(own, whole=len(places) > 1)
        return tuple(drawn)

    def note(self, arguments: tuple[Argument, ...], score: int) -> None:
        """Says how many instructions a run on these data executed."""
        if score > self._score:
            self._best, self._score = arguments, score

    def _changed(self, own: Array, *, whole: bool) -> Array:
        """New content for an array, or for some of its elements."""
        drawn = self._drawn(own)
        if whole or self._random.random_sample() < 0.5:
            return drawn
        kept = self._random.random_sample(own.shape) < 0.75
        return np.where(kept, own, drawn)

    def _drawn(self, own: Array) -> Array:
        chooser = self._random
        kind = KINDS[chooser.randint(len(KINDS))]
        if kind == "own":
            return own.copy()
        if own.dtype.kind == "f":
            return self._chosen([0.0, 1.0, -1.0, 0.5, 2.0, 100.0, -1e-3, 1e4], own)
        bits = 8 * own.dtype.itemsize
        raw: Array
        if kind == "small":
            raw = np.asarray(chooser.randint(0, 48, own.shape))
        elif kind == "tiny":
            return self._chosen([0, 0, 1, 1, 2, 3, -1, 7, 8, 15, 16], own)
        elif kind == "indices":
            raw = np.asarray(chooser.randint(0, max(min(self._sizes), 1), own.shape))
        elif kind == "edges":
            return self._chosen([(1 << i) + j for i in range(bits - 1) for j in (-1, 0, 1)], own)
        elif kind == "ends":
            top = (1 << (bits - 1)) - 1
            return self._chosen([end - i for end in (top, -1) for i in range(8)], own)
        elif kind == "one":
            raw = np.full(own.shape, chooser.randint(0, 64), np.int64)
        else:
            raw = np.frombuffer(chooser.bytes(8 * own.size), np.int64).reshape(own.shape)
        changed: Array = raw.astype(own.dtype)  # modulo the width of the type
        return changed

    def _chosen(self, values: Sequence[float], own: Array) -> Array:
        """One of the values for each element of an array."""
        places = np.asarray(self._random.randint(0, len(values), own.shape))
        chosen: Array = np.asarray(values)[places].astype(own.dtype)
        return chosen
