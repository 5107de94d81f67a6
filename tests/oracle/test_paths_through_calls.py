"""Loop bounds that come through calls, aggregates and constants, against executions.

The kernels of ``tests/data/flow/functions.cu``: no loop asks for a bound, and what is executed is
among the analysed paths.
"""

from pathlib import Path

import pytest
from answers import only_answer
from parsing import parse_file
from places import FLOW
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.launch import BoundOrigin
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.validate.inputs import validate_inputs

pytestmark = pytest.mark.fast

FUNCTIONS = FLOW / "functions.ptx"
MACHINE = load_machine("orin-ecrts2025")
ARRAYS = """
in = { shape = 512, dtype = "float32", init = "uniform", low = -1, high = 1, seed = 1 }
out = { shape = 512, dtype = "float32", init = "zeros" }
"""
RADIUS = '[variables]\nradius = { dtype = "int32", values = [2] }\n'
TILE = 'tile = { dtype = "uint8", values = [3,0,0,0, 41,0,0,0, 3,0, 1,0] }'

# kernel -> arguments and variables, body executions of the loops that every lane enters alike
CASES = {
    "argument": ("n = 7", {7}),
    "result": ("n = 9", {3, 5}),
    "lanes": ("n = 40", {4}),
    "triangle": ("n = 6", set()),
    "nested": ("n = 5", {5, 10}),
    "by_value": ('all = { dtype = "int32", values = [3, 20] }\ncut = 4', {9}),
    "members": (TILE, {3, 7}),
    "levels": ('sizes = { dtype = "int32", values = [4, 0, 1, 9, 2, 2] }\nmost = 5', {5, 4, 1, 9}),
    "constants": (RADIUS, {5, 4, 3, 7, 2}),
}


def launch_file(folder: Path, kernel: str, rest: str) -> str:
    path = folder / "l.toml"
    head = f'kernel = "{kernel}"\ngrid = 4\nblock = 64\n[arguments]'
    path.write_text(f"{head}{ARRAYS}{rest}\n")
    return str(path)


def request(launch: str) -> Request:
    return Request(str(FUNCTIONS), launch_file=launch)


def module() -> Module:
    return parse_file(FUNCTIONS)


def analysis(launch: str) -> KernelAnalysis:
    return only_answer(request(launch))


def body_counts(found: KernelAnalysis) -> set[int]:
    """Body executions of all entries of loops."""
    entries = [
        entry
        for piece in found.pieces
        for warp in piece.paths.warps
        for entry in loop_entries(warp.nodes)
    ]
    assert all(entry.origin is BoundOrigin.ANALYSIS for entry in entries)
    return {entry.iterations.base for entry in entries if not entry.iterations.slopes}


@pytest.mark.parametrize("kernel", CASES)
def test_the_launch_decides_every_loop(kernel: str, tmp_path: Path) -> None:
    rest, expected = CASES[kernel]
    launch = launch_file(tmp_path, kernel, rest)
    assert body_counts(analysis(launch)) >= expected
    results = list(validate_inputs(request(launch), module(), MACHINE, 2))
    assert len(results) == 2
    for result in results:
        assert not result.diagnostics, [one.render() for one in result.diagnostics]
        assert result.rows
        assert all(row.safe_cycles is not None for row in result.rows)


@pytest.mark.parametrize("kernel", ["constants", "by_value"])
def test_without_a_launch_file_the_loops_stay_open(kernel: str) -> None:
    parameters = ("cut=4",) if kernel == "by_value" else ()
    answer = bound_file(
        Request(str(FUNCTIONS), (kernel,), block="64", grid="4", parameters=parameters)
    )
    (refused,) = answer.refused
    assert refused.diagnostics[0].code == "PW203"


def test_constants_that_the_launch_file_leaves_out_are_those_of_the_ptx(tmp_path: Path) -> None:
    assert body_counts(analysis(launch_file(tmp_path, "constants", ""))) >= {1, 4, 3, 7, 2}


def test_a_launch_file_overrides_the_initialiser(tmp_path: Path) -> None:
    counts = RADIUS + 'counts = { dtype = "int32", values = [11, 12, 13, 14] }\n'
    assert body_counts(analysis(launch_file(tmp_path, "constants", counts))) >= {11, 12, 13, 14}


@pytest.mark.parametrize(
    ("kernel", "rest"),
    [
        ("by_value", 'all = { dtype = "int32", values = [3, 20, 4] }\ncut = 4'),
        ("constants", '[variables]\nradius = { dtype = "int16", values = [2] }'),
    ],
)
def test_bytes_that_do_not_fit_are_refused(kernel: str, rest: str, tmp_path: Path) -> None:
    assert refusal_of(bound_file, request(launch_file(tmp_path, kernel, rest))).code == "PW425"


def test_random_aggregates_are_the_same_in_all_inputs(tmp_path: Path) -> None:
    random = 'all = { shape = 2, dtype = "int32", init = "integers", low = 5, high = 99, seed = 3 }'
    launch = launch_file(tmp_path, "by_value", f"{random}\ncut = -60")
    for result in validate_inputs(request(launch), module(), MACHINE, 3):
        codes = {one.code for one in result.diagnostics}
        assert not codes & {"PW535", "PW538"}
