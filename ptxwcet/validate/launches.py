"""Attacks on the paths of a kernel: executions on data that are made up to lead it astray.

What is compared is as in :mod:`ptxwcet.validate.inputs`: executed paths with the analysed
ones, the simulated time of what was executed with the safe bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.run.study import emulated
from ptxwcet.emulator.launch import Argument, EmulatedLaunch
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.model import Machine
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.validate.adversarial import AdversarialData
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

    Scalars stay as the launch file says, arrays are made up (:mod:`ptxwcet.validate.adversarial`),
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
