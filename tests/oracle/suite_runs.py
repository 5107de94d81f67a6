"""Running a kernel of the suite and comparing its buffers with a reference."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from kernel_suite import entries

from ptxwcet.commands.run.study import RunRequest, run_file

Values = Mapping[str, Any]
Results = dict[str, Any]
BY_NAME = {entry.kernel: entry for entry in entries()}

# Of float results, absolute and relative. Sums of many float32, or values that grow, have more.
ROUNDING = 2e-5
TOLERANCE = {
    "lu_block": 1e-3,
    "cholesky_block": 1e-4,
    "forward_substitution": 1e-2,
    "solve_many": 1e-2,
}


def wide(v: Values, *names: str) -> tuple[Any, ...]:
    """Arguments in double precision."""
    return tuple(v[name].astype(np.float64) for name in names)


def check_results(name: str, reference: Callable[[Values], Results]) -> None:
    """The kernel runs without a finding, and buffers hold what ``reference`` makes of the input.

    ``reference`` returns what some of the buffers hold after the run, by argument name.
    """
    entry = BY_NAME[name]
    answer = run_file(RunRequest(str(entry.path), str(entry.launch)))
    assert [row.render() for row in answer.diagnostics] == []
    given: dict[str, Any] = {}
    for argument, value in zip(answer.launch.arguments, answer.launch.values(), strict=True):
        given[argument.name] = value
    for variable in answer.launch.variables:
        given[variable.variable.name] = variable.source.build()
    room = TOLERANCE.get(name, ROUNDING)
    wanted = reference(given)
    assert wanted
    for key, values in wanted.items():
        found = answer.outputs[key]
        expected = np.asarray(values).reshape(found.shape)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=room, atol=room)
        else:
            np.testing.assert_array_equal(found, expected)
