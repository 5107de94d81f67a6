"""Implicit path enumeration on the graph of ipoints: the worst counts of transitions of a warp.

Variables are the counts of the transitions that were observed. A warp begins once and ends once,
and leaves each ipoint as often as it comes to it; loops and sides of branches bound the counts
(``constraints``), and so does the most that was seen of each in one warp ([B] VI-C). A solution
may have cycles that hang nowhere: they are cut off until none is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ptxwcet.claims import Refusal
from ptxwcet.methods.hybrid.constraints import CountConstraint
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.support.graph import reachable
from ptxwcet.support.ilp import IntegerProgram, SolverError, SolverStatus

SECONDS = 60.0
"""For each solve; afterwards the best proved upper bound is taken."""
MOST_CUTS = 200


@dataclass(frozen=True, slots=True)
class WorstCounts:
    """The warp-specific WCET and the counts of transitions that lead to it.

    ``cycles`` is no less than the time of any assignment that satisfies the constraints. It is the
    time of ``counts`` if ``is_proved_optimum``: no path that the constraints allow takes longer by
    the worst times *observed*, which says nothing of times that were not. Otherwise the search
    ended early and counts are of its best path, or hang together in parts only.
    """

    cycles: int
    counts: Mapping[int, int]
    is_proved_optimum: bool


def enumerate_paths(
    ipg: Ipg,
    worst: Mapping[int, int],
    constraints: Iterable[CountConstraint],
    most: Mapping[int, int] | None = None,
) -> WorstCounts | Refusal:
    """The largest sum of ``worst`` times of transitions that a warp can make (IPET).

    ``worst`` holds the observed transitions; ``most`` limits the count of each in a warp, None: the
    constraints alone do. Refused if they allow any time. Cost: exponential at worst; seconds for
    hundreds of transitions.
    """
    program = IntegerProgram()
    variables = {
        number: program.add_variable(upper=None if most is None else most[number])
        for number in worst
    }
    _conserve_flow(program, ipg, variables)
    for constraint in constraints:
        terms = {variables[n]: c for n, c in constraint.terms.items() if n in variables and c}
        if terms:
            program.add_constraint(terms, upper=constraint.most)
    objective = {variables[number]: cycles for number, cycles in worst.items()}
    answer: WorstCounts | Refusal = Refusal("no worst path was found")
    for _ in range(MOST_CUTS):
        try:
            solution = program.maximise(objective, seconds=SECONDS)
        except SolverError as error:  # a bound found before holds with fewer cuts, too
            return answer if isinstance(answer, WorstCounts) else Refusal(f"no worst path: {error}")
        if solution.status is SolverStatus.UNBOUNDED:
            return Refusal("no bound on a cycle of transitions is known")
        if solution.bound is None or not solution.values:
            status = solution.status.value
            return (
                answer if isinstance(answer, WorstCounts) else Refusal(f"no worst path: {status}")
            )
        counts = {n: solution.values[v] for n, v in variables.items() if solution.values[v]}
        loose = _loose_ipoints(ipg, counts)
        is_proved = solution.status is SolverStatus.OPTIMAL and not loose
        answer = WorstCounts(solution.bound, counts, is_proved)
        if not loose or most is None:
            break
        _cut(program, ipg, variables, most, loose)
    return answer


def _conserve_flow(program: IntegerProgram, ipg: Ipg, variables: Mapping[int, int]) -> None:
    for point in range(len(ipg.placement.ipoints)):
        terms: dict[int, int] = {}
        for number, variable in variables.items():
            transition = ipg.transitions[number]
            if transition.source != transition.target:
                if transition.target == point:
                    terms[variable] = 1
                elif transition.source == point:
                    terms[variable] = -1
        come = (point == ipg.placement.end) - (point == ipg.placement.start)
        if terms or come:
            program.add_constraint(terms, lower=come, upper=come)


def _loose_ipoints(ipg: Ipg, counts: Mapping[int, int]) -> frozenset[int]:
    """The ipoints that the counts pass although no way leads there from the start."""
    leads: dict[int, list[int]] = defaultdict(list)
    for number in counts:
        leads[ipg.transitions[number].source].append(ipg.transitions[number].target)
    return frozenset(leads) - reachable(leads, [ipg.placement.start])


def _cut(
    program: IntegerProgram,
    ipg: Ipg,
    variables: Mapping[int, int],
    most: Mapping[int, int],
    loose: frozenset[int],
) -> None:
    """What goes on among ``loose`` needs a transition that comes to them: holds for every path."""
    ends = [(number, ipg.transitions[number]) for number in variables]
    coming = [n for n, t in ends if t.target in loose and t.source not in loose]
    for number, transition in ends:
        if transition.source in loose and transition.target in loose:
            terms = {variables[other]: -most[number] for other in coming}
            program.add_constraint({**terms, variables[number]: 1}, upper=0)
