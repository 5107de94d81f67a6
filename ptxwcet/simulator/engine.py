"""Simulates a workload, prepared once, under many policies, seeds and jitters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

import numpy as np

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, Refusal, TimingClaim
from ptxwcet.machine.ledger import EXECUTION, claim_on
from ptxwcet.machine.model import Machine, TimingMeaning
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.image import ROOM, Image, build_image, goes_on_behind, more_room
from ptxwcet.simulator.parts import (
    AFTER,
    BARRIER_COLUMNS,
    COUNTS,
    ENDED,
    ITEM_COLUMNS,
    KIND,
    LAST_END,
    MEMORY_PARTS,
    PATH_PARTS,
    PHASE,
    POLL,
    RUNNING,
    SINCE,
    STAGE_COLUMNS,
    UNIT,
    Behind,
    Integers,
    RegisterColumns,
)
from ptxwcet.simulator.policies import NO_JITTER, SCRIPTED, Jitter, Policy
from ptxwcet.simulator.run import IssueEvent, SectionRun, SimulatedRun, Stalls, WarpRun
from ptxwcet.simulator.stepping import (
    DEADLOCK,
    EVENT_COLUMNS,
    FIXED,
    FULL,
    MEMORY,
    NO_CHECKPOINTS,
    ORIGIN,
    OVER_LIMIT,
    PAUSED,
    STAGES,
    STALLS,
    Layout,
    Options,
    Outcome,
    Program,
    State,
    run,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import BlockWorkload

DEFAULT_LIMIT = 2_000_000_000
"""The limit of instructions issued one by one in a run: about a minute."""

PIECE = 200_000
"""Instructions between two returns to Python, which handles signals: some tenths of a second."""

_NONE = np.zeros(0, np.int64)
_NO_EVENTS = np.zeros((0, EVENT_COLUMNS), np.int64)


@dataclass(frozen=True, slots=True)
class ScriptedRun:
    """A run by decisions: its length, and the decision of each cycle in which there was a choice.

    A decision is the index of the issued warp among the eligible ones, in ascending order.
    """

    cycles: int
    decisions: Integers


class Simulator:
    """The machine of the model (section 1) with one block on it.

    Raises ValueError if a program of the workload is not a single path. Memory is linear in the
    program trees and the number of warps, and independent of trip counts. ``name_origin`` names an
    instruction of the kernel in messages.
    """

    def __init__(
        self,
        workload: BlockWorkload,
        configuration: SmConfiguration,
        name_origin: Callable[[int], str] = "instruction {}".format,
    ) -> None:
        if workload.warp_count == 0:
            raise PtxwcetError(
                Diagnostic("PW537", "a block of no warps cannot be run", help="give it a warp")
            )
        self._schedulers = configuration.schedulers
        self._name_origin = name_origin
        self._image = build_image(workload, configuration)
        image = self._image
        self._layout = _lay_out(image, configuration.schedulers)
        self._program = Program(
            image.code,
            image.registers,
            image.starts,
            image.queue_of,
            image.servers,
            image.wide,
            np.zeros(1, np.int64),
            self._layout,
        )
        self._saved: State | None = None
        self._room = ROOM if self._layout.served else 1

    @property
    def instructions(self) -> int:
        """The number of instructions that all warps issue together."""
        return self._image.instructions

    @property
    def has_servers_behind_units(self) -> bool:
        """True if some instructions continue to the memory path or the memory."""
        return bool(np.any(self._image.code[:, [PATH_PARTS, MEMORY_PARTS]]))

    @property
    def has_mbarriers(self) -> bool:
        """True if some warps count at mbarriers, or poll them."""
        return bool(np.isin(self._image.code[:, KIND], (COUNTS, POLL)).any())

    def cycles(
        self,
        policy: Policy,
        *,
        seed: int = 0,
        jitter: Jitter = NO_JITTER,
        skip_repeats: bool = True,
        limit: int = DEFAULT_LIMIT,
    ) -> int:
        """Returns the length of a run in cycles; see :meth:`run`."""
        options = self._options(policy, seed, jitter, skip_repeats, limit)
        return self._execute(options)[0].cycles

    def run(
        self,
        policy: Policy,
        *,
        seed: int = 0,
        jitter: Jitter = NO_JITTER,
        record: int = 0,
        skip_repeats: bool = True,
        limit: int = DEFAULT_LIMIT,
    ) -> SimulatedRun:
        """Runs the block. ``record``: the number of issues to keep, from the first one on.

        ``skip_repeats`` skips repetitions of the joint state in closed form; without effect with
        jitter, a random policy or recording. Raises PtxwcetError PW532 for a deadlock, PW533 if
        more than ``limit`` instructions would have to be issued one by one. Cost: about a scan over
        the warps for each of these.
        """
        skip = skip_repeats and record == 0
        options = self._options(policy, seed, jitter, skip, limit)
        events = np.zeros((record, EVENT_COLUMNS), np.int64)
        outcome, state = self._execute(options, events=events)
        return SimulatedRun(
            outcome.cycles,
            policy,
            seed,
            jitter,
            self._schedulers,
            outcome.instructions,
            outcome.stepped,
            tuple(self._warp(state, w, outcome.cycles) for w in range(len(state.warps))),
            tuple(self._event(row) for row in events[: outcome.events].tolist()),
        )

    def run_script(
        self, script: Sequence[int] | Integers, *, limit: int = DEFAULT_LIMIT
    ) -> ScriptedRun:
        """Runs the block by decisions, one for each cycle in which a sub-core has a choice.

        ``d >= 0`` issues the eligible warp of index ``d`` modulo their number; ``-w - 1`` the first
        eligible one other than warp ``w``. After the last decision the oldest warp is issued first.
        Errors and cost as for :meth:`run`.
        """
        options = Options(SCRIPTED, 0, 0, 0, False, limit)
        log = np.zeros(self.instructions, np.int64)
        outcome, _ = self._execute(options, script=np.asarray(script, np.int64), log=log)
        return ScriptedRun(outcome.cycles, log[: outcome.decisions].copy())

    def decide(self, policy: Policy, *, seed: int = 0) -> ScriptedRun:
        """Returns a run under a policy, as decisions that :meth:`run_script` repeats."""
        options = self._options(policy, seed, Jitter(), False, DEFAULT_LIMIT)
        log = np.zeros(self.instructions, np.int64)
        outcome, _ = self._execute(options, log=log)
        return ScriptedRun(outcome.cycles, log[: outcome.decisions].copy())

    def _options(
        self, policy: Policy, seed: int, jitter: Jitter, skip: bool, limit: int
    ) -> Options:
        skip = skip and jitter.percent == 0 and policy.ties is not None
        return Options(policy.code, seed, jitter.percent, jitter.seed, skip, limit)

    def _execute(
        self,
        options: Options,
        *,
        script: Integers = _NONE,
        log: Integers = _NONE,
        events: Integers = _NO_EVENTS,
    ) -> tuple[Outcome, State]:
        while True:
            state = self._zeros()
            if self._saved is None:  # written before it is read, so it is kept between runs
                self._saved = self._zeros(self._layout.depths)
            brent = np.array([NO_CHECKPOINTS] * self._layout.depths, np.int64)
            states = state, self._saved, brent
            held = np.array([0, 0, 0, 0, 0, PIECE], np.int64)
            records = script, log, events
            while True:  # in pieces, between which Python handles signals
                outcome = Outcome(*run(self._program, *states, options, *records, held))
                if outcome.status != PAUSED:
                    break
            if outcome.status != FULL:
                break
            self._room, self._saved = more_room(self._room), None
        if outcome.status == DEADLOCK:
            raise PtxwcetError(_deadlock(self._image, state, self._name_origin))
        if outcome.status == OVER_LIMIT:
            raise PtxwcetError(_over_limit(self._image, options.limit))
        return outcome, state

    def _zeros(self, *front: int) -> State:
        layout = self._layout
        warps = len(self._image.starts)
        state = State(
            np.zeros((*front, warps), np.int64),
            np.zeros((*front, warps, layout.width), np.int64),
            np.zeros((*front, layout.shared_width), np.int64),
            Behind(
                np.zeros((*front, STAGES, STAGE_COLUMNS), np.int64),
                np.zeros((*front, STAGES + 1, self._room, ITEM_COLUMNS), np.int64),
                MEMORY,
            ),
        )
        state.shared[..., : layout.cores] = -1
        return state

    def _warp(self, state: State, warp: int, cycles: int) -> WarpRun:
        layout = self._layout
        fields = state.warps[warp].tolist()
        sections = []
        for section, origin in enumerate(self._image.section_origins):
            executions = fields[layout.executions + section]
            begin = layout.stalls + section * STALLS
            if executions:
                stalls = Stalls(*fields[begin : begin + STALLS])
                sections.append(SectionRun(origin, executions, stalls))
        spent = sum(section.stalls.cycles for section in sections)
        end = fields[LAST_END]
        return WarpRun(warp, end, tuple(sections), end - spent, cycles - end)

    def _event(self, event: Sequence[int]) -> IssueEvent:
        warp, pc, issue, dispatch, freed, end = event
        code = self._image.code
        unit = self._image.units[code[pc, UNIT]]
        return IssueEvent(warp, int(code[pc, ORIGIN]), unit, issue, dispatch, freed, end)


def _lay_out(image: Image, schedulers: int) -> Layout:
    depths, registers, sections = image.depth, image.register_count, len(image.section_origins)
    served = goes_on_behind(image.code)
    widths = {
        "counters": depths,
        "entries": depths,
        "ready": registers,
        "queued": registers,
        "stalls": sections * STALLS,
        "executions": sections,
        **dict.fromkeys(("open", "since", "by"), registers),  # for programs that are served
    }
    first = dict(zip(widths, accumulate(widths.values(), initial=FIXED), strict=False))
    at = RegisterColumns(*(first.pop(name) for name in RegisterColumns._fields))
    servers = int(image.servers.max())
    barriers = schedulers + len(image.servers) * servers
    return Layout(
        **first,
        at=at,
        depths=depths,
        registers=registers,
        width=at.by + registers if served else at.open,
        cores=schedulers,
        servers=servers,
        free=schedulers,
        barriers=barriers,
        shared_width=barriers + len(image.barrier_names) * BARRIER_COLUMNS,
        served=served,
    )


def _deadlock(image: Image, state: State, name_origin: Callable[[int], str]) -> Diagnostic:
    waits: dict[str, list[int]] = {}
    ended: list[str] = []
    since = 0
    for warp, fields in enumerate(state.warps.tolist()):
        if not RUNNING < fields[PHASE] < ENDED:
            ended.append(str(warp))
            continue
        since = max(since, fields[SINCE])
        origin = int(image.code[fields[AFTER], ORIGIN])
        place = image.barrier_names[fields[PHASE]]
        if origin >= 0:
            place += f" ({name_origin(origin)})"
        waits.setdefault(place, []).append(warp)
    notes = [f"at {place}: warps {', '.join(map(str, on))}" for place, on in sorted(waits.items())]
    if ended:
        notes.append(f"ended: warps {', '.join(ended)}")
    return Diagnostic(
        "PW532",
        f"deadlock: from cycle {since} on, every warp that has not ended waits at a barrier",
        notes=tuple(notes),
        help="all warps must meet the same barriers",
    )


def _over_limit(image: Image, limit: int) -> Diagnostic:
    return Diagnostic(
        "PW533",
        f"the run was given up after {limit:,} of {image.instructions:,} instructions",
        notes=("no repetition of the joint state of all warps allowed the rest to be skipped",),
        help="raise the limit, or simulate smaller trip counts",
    )


# --- The claim of a known schedule: when nothing varies, one run is every run ---------------------
# With one known path a warp, exact timings and a known deterministic policy, the model's machine
# takes the same cycles for every input, as in the simulated run. Nothing is left to bound, and
# nothing may be relaxed: with any timing shorter than stated the run can become *longer* ([J] Fig.
# 4; the test of this page reproduces such an anomaly). docs/methods/safe.md.


_CITATIONS = (
    Citation("docs/methods/safe.md", "Proposition (one run is every run)"),
    Citation("Jeanmougin, Carle, Rochange, ECRTS 2025", "section 3.1, Fig. 4: anomalies"),
)


@dataclass(frozen=True, slots=True)
class ScheduledClaim:
    """The length of every run of the model under the claim's assumptions, and the run itself.

    ``has_bubbles``: the machine has cycles without issue after a taken branch; the model counts
    them from the branch's issue on.
    """

    claim: TimingClaim
    run: SimulatedRun
    has_bubbles: bool

    @property
    def note(self) -> str:
        """The condition under which the number is exact, and how the run was obtained."""
        run = self.run
        bubbles = ", with bubbles from issue" if self.has_bubbles else ""
        exact = f"the model's run under {run.policy.value}{bubbles}: exact if no timing varies"
        if run.repeats:
            return (
                f"{exact}; the joint state of all warps repeats: "
                f"{run.stepped:,} of {run.instructions:,} instructions were stepped"
            )
        return f"{exact}; no joint state repeats: the run was stepped whole"


def claim_schedule(
    workload: BlockWorkload,
    machine: Machine,
    policy: Policy,
    assumptions: Iterable[Assumption] = (),
    *,
    is_nominal: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> ScheduledClaim | Refusal:
    """Returns the length of a block's run under a known policy, unique if all assumptions hold.

    ``assumptions`` are the workload's; ``is_nominal`` is False if some of its timings are
    upper bounds. Refused with a reason if the run depends on the input. Cost: the steps of one run,
    without repetitions.
    """
    if policy.ties is None:
        return Refusal(f"the policy {policy.value} does not fix the schedule")
    if not all(c.program.is_single_path for c in workload.classes):
        return Refusal("the run is known only for warps with a single known path")
    if not is_nominal or machine.timing_meaning is not TimingMeaning.EXACT:
        return Refusal(
            "some instructions are charged the most: the real run may be a different schedule"
        )
    try:
        simulator = Simulator(workload, SmConfiguration.of(machine))
        if simulator.has_servers_behind_units:
            return Refusal("the order in which servers behind the units serve is not known")
        if simulator.has_mbarriers:
            return Refusal("how often warps ask mbarriers in vain is not in the run")
        run = simulator.run(policy, limit=limit)
    except PtxwcetError as error:
        return Refusal(error.diagnostics[0].message)
    bubble = machine.taken_branch_bubble_cycles
    needed = (*_own(policy, bubble), *assumptions)
    stated = TimingClaim(run.cycles, Guarantee.SAFE_BOUND, "scheduled", needed, _CITATIONS)
    return ScheduledClaim(claim_on(machine, EXECUTION, stated), run, bubble > 0)


def _own(policy: Policy, bubble_cycles: int) -> tuple[Assumption, ...]:
    """Returns the assumptions of the claim in addition to the machine's ledger."""

    def assumed(key: str, text: str) -> Assumption:
        return Assumption(key, text, AssumptionState.ASSUMED, "--policy")

    assumptions = [
        assumed(
            "known-policy",
            f"every warp scheduler follows {policy.value} with this tie rule: {policy.ties}",
        ),
        assumed(
            "exact-latencies",
            "every instruction takes exactly the stated time; not safe under jitter: a timing that "
            "is shorter can make the run longer (scheduling anomaly)",
        ),
        assumed(
            "input-independent-path",
            "path and masks of every warp are the same for all inputs that the given facts allow",
        ),
    ]
    if bubble_cycles:
        cycles = f"{bubble_cycles} cycle" + ("s" if bubble_cycles > 1 else "")
        text = (
            f"a warp's bubble after a taken branch ({cycles}) begins when the branch is issued, "
            "not when the scheduler next looks at the warp: if it begins later, runs can be longer"
        )
        assumptions.append(assumed("bubbles-from-issue", text))
    return tuple(assumptions)
