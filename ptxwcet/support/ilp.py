"""Provides the integer programming solver (HiGHS through scipy), imported on first use.

>>> program = IntegerProgram()
>>> x, y = program.add_variable(upper=4), program.add_variable(upper=9)
>>> program.add_constraint({x: 2, y: 1}, upper=10)
>>> program.maximise({x: 3, y: 1}).objective
14
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from ptxwcet.support.extras import require_extra
from ptxwcet.support.records import dataclass


class SolverStatus(Enum):
    """The result of a solve."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    TIME_LIMIT = "time limit"


@dataclass(frozen=True, slots=True)
class Solution:
    """The result of the solver.

    ``objective`` is the value of the best assignment ``values`` (one number per variable), None and
    empty if there is none; ``bound`` is an upper bound on every assignment (equal to ``objective``
    if optimal), None where the solver proved nothing.
    """

    status: SolverStatus
    objective: int | None
    bound: int | None
    values: tuple[int, ...]


class SolverError(Exception):
    """The error of a failed solver, or of an answer that does not satisfy the program."""


@dataclass(slots=True)
class IntegerProgram:
    """An integer program: variables between limits; constraints limit sums of multiples of them.

    All coefficients are whole numbers, so that an answer can be checked exactly: it is checked
    against every constraint before it is returned.
    """

    _upper: list[float] = field(default_factory=list)
    _rows: list[tuple[Mapping[int, int], float, float]] = field(default_factory=list)

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(self._upper)

    @property
    def constraints(self) -> int:
        """The number of constraints."""
        return len(self._rows)

    def add_variable(self, *, upper: int | None = None) -> int:
        """Returns the number of a new variable: from 0 on; ``upper`` None: no upper limit."""
        self._upper.append(math.inf if upper is None else upper)
        return len(self._upper) - 1

    def add_constraint(
        self, terms: Mapping[int, int], *, lower: int | None = None, upper: int | None = None
    ) -> None:
        """Adds ``lower <= sum of coefficient * variable <= upper``; None: no limit on that side."""
        low = -math.inf if lower is None else lower
        high = math.inf if upper is None else upper
        self._rows.append((dict(terms), low, high))

    def maximise(self, objective: Mapping[int, int], *, seconds: float | None = None) -> Solution:
        """Returns the assignment with the largest objective, or the best one within ``seconds``.

        Raises: SolverError; PtxwcetError (PW235) if scipy is not installed. Cost: exponential at
        worst.
        """
        require_extra("ilp", "an integer program")
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        count = self.variables
        costs = np.zeros(count)
        for variable, coefficient in objective.items():
            costs[variable] = -coefficient
        triples = [
            (number, variable, coefficient)
            for number, (terms, _, _) in enumerate(self._rows)
            for variable, coefficient in terms.items()
        ]
        rows, columns, data = zip(*triples, strict=True) if triples else ((), (), ())
        matrix = csr_array((data, (rows, columns)), shape=(len(self._rows), count), dtype=float)
        limits = LinearConstraint(
            matrix, [low for _, low, _ in self._rows], [high for _, _, high in self._rows]
        )
        answer = milp(
            costs,
            integrality=np.ones(count),
            bounds=Bounds(0, self._upper),
            constraints=limits if self._rows else None,
            # The solver's own default calls an answer optimal that is 0.01 % away from it.
            options={"mip_rel_gap": 0.0} | ({} if seconds is None else {"time_limit": seconds}),
        )
        return self._checked(answer, objective)

    def _checked(self, answer: object, objective: Mapping[int, int]) -> Solution:
        """Returns the solver's answer in whole numbers, tested against every constraint."""
        status = {
            0: SolverStatus.OPTIMAL,
            1: SolverStatus.TIME_LIMIT,
            2: SolverStatus.INFEASIBLE,
            3: SolverStatus.UNBOUNDED,
        }.get(getattr(answer, "status"))  # noqa: B009
        if status is None and objective:
            # HiGHS may return "unbounded or infeasible": whether anything is feasible decides.
            anything = self.maximise({})
            feasible = anything.status is SolverStatus.OPTIMAL
            status = SolverStatus.UNBOUNDED if feasible else anything.status
            return Solution(status, None, None, ())
        if status is None:
            raise SolverError(str(getattr(answer, "message", "no answer")))
        assignment = getattr(answer, "x", None)
        dual = getattr(answer, "mip_dual_bound", None)
        bound = None
        if dual is not None and math.isfinite(dual):
            bound = math.floor(-dual + 1e-6 * max(1.0, abs(dual)))
        if assignment is None:
            return Solution(status, None, bound, ())
        values = tuple(round(float(value)) for value in assignment)
        self._check(values)
        value = sum(c * values[v] for v, c in objective.items())
        return Solution(status, value, value if status is SolverStatus.OPTIMAL else bound, values)

    def _check(self, values: tuple[int, ...]) -> None:
        """Raises SolverError if the values break a limit or a constraint."""
        for variable, value in enumerate(values):
            if not 0 <= value <= self._upper[variable]:
                raise SolverError(f"variable {variable} is {value}, outside its limits")
        for number, (terms, low, high) in enumerate(self._rows):
            total = sum(c * values[v] for v, c in terms.items())
            if not low <= total <= high:
                raise SolverError(f"constraint {number} has {total}, outside {low} to {high}")
