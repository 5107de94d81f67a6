"""The methods: each answers a problem within a time limit, with its own claim.

=================  =============================================================================
pessimistic        from the numbers of letters (equations 3 to 7); where these are not proved, a
                   bound that is
closed-form        L = C = 1, W = 1 or W >= 3: exact, for strings and warps of any number
states             longest path over states up to symmetry: exact, as far as memory goes
exact              closed-form where it applies, else states, else bounds from both sides
ilp                the integer program of the paper (Fig. 3): exact, for a handful of warps
extrapolate        from x warps to W (equations 40, 41): an estimate, as published
extrapolate-safe   the same without y = 2, for L = C = 1: a proved bound
=================  =============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxwcet.methods.makespan.answer import MakespanAnswer
from ptxwcet.methods.makespan.effort import Effort
from ptxwcet.methods.makespan.problem import MakespanProblem
from ptxwcet.methods.makespan.published import (
    solve_extrapolated,
    solve_extrapolated_safely,
    solve_ilp,
)
from ptxwcet.methods.makespan.solve import (
    solve_closed_form,
    solve_exact,
    solve_pessimistic,
    solve_states,
)

Method = Callable[[MakespanProblem, Effort], MakespanAnswer]

METHODS: Mapping[str, Method] = {
    "exact": solve_exact,
    "closed-form": solve_closed_form,
    "states": solve_states,
    "ilp": solve_ilp,
    "extrapolate": solve_extrapolated,
    "extrapolate-safe": solve_extrapolated_safely,
    "pessimistic": solve_pessimistic,
}
"""The methods by name; the first is the default."""
