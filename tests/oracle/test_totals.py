"""Totals of loops and calls on kernels: bounds, executions, contradictions.

The kernels of ``tests/data/flow/totals.cu``. Arrays are given so that the true totals are known:
they are found again in the executions, a smaller one is contradicted, and no distribution of what a
total allows takes longer than the bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from answers import only_answer
from parsing import parse_file
from places import FLOW
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.explanation import explain_safe
from ptxwcet.commands.bound.formula import bound_symbolic
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import state_facts
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.phases import profile_warp
from ptxwcet.validate.inputs import validate_input

TOTALS = FLOW / "totals.ptx"
MACHINE = load_machine("orin-ecrts2025")
MODULE = parse_file(TOTALS)
REFINE = "_Z6refinePKii"
LOOPS = {
    "rows": "$L__BB1_4",
    "searches": "$L__BB2_3",
    "own_rows": "$L__BB3_5",
    "levels": "$L__BB4_6",
}


def facts_file(folder: Path, body: str) -> str:
    digest = hashlib.sha256(TOTALS.read_bytes()).hexdigest()
    path = folder / "facts.toml"
    path.write_text(f'ptx = "sha256:{digest}"\n{body}\n')
    return str(path)


def loop(kernel: str, rest: str) -> str:
    return f'[[loop]]\nkernel = "{kernel}"\nat = "{LOOPS[kernel]}"\n{rest}\n'


def call(total: int, rest: str = "") -> str:
    return f'[[call]]\nkernel = "calls"\nfunction = "{REFINE}"\ntotal = {total}\n{rest}\n'


def request(folder: Path, kernel: str, body: str, block: int, **values: int) -> Request:
    parameters = tuple(f"{name}={value}" for name, value in values.items())
    return Request(
        str(TOTALS),
        (kernel,),
        block=str(block),
        grid="1",
        parameters=parameters,
        facts_file=facts_file(folder, body) if body else None,
    )


def analyse(folder: Path, kernel: str, body: str, block: int = 32, **values: int) -> KernelAnalysis:
    return only_answer(request(folder, kernel, body, block, **values))


def bound(folder: Path, kernel: str, body: str, block: int = 32, **values: int) -> int:
    return analyse(folder, kernel, body, block, **values).worst.bound.cycles


def starts(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype("i4")


# --- executions -----------------------------------------------------------------------------------


def inputs(kernel: str, seed: int) -> tuple[dict[str, int], tuple[object, ...], int]:
    """Scalars, arguments, and what the busiest of two warps does in all."""
    random = np.random.default_rng(seed)
    out, value = np.zeros(64, "i4"), random.integers(1, 50, 4096).astype("i4")
    if kernel == "rows":
        lengths = random.integers(0, 6, 9)
        return {"n": 9}, (starts(lengths), value, out, 9), int(lengths.sum())
    if kernel == "searches":
        value[random.integers(0, 48, 9)] = -1
        rounds = value[:48].reshape(6, 8)
        # whole iterations: the last one of a row ends the loop at its end
        whole = [next((j for j, v in enumerate(row) if v < 0), 7) for row in rounds]
        return {"n": 6, "m": 8}, (value, out, 6, 8), sum(whole)
    if kernel == "own_rows":
        lengths = random.integers(0, 6, 64 + 5)
        start = starts(lengths)
        warps = [
            sum(int(lengths[i + first : i + first + 32].max()) for i in range(5))
            for first in (0, 32)
        ]
        return {"n": 5}, (start, value, out, 5), max(warps)
    if kernel == "levels":
        lengths = random.integers(0, 6, 12)
        return {"n": 3}, (starts(lengths), value, out, 3), int(lengths.sum())
    value[:12] = random.integers(0, 200, 12)
    made = int((value[:11] > 100).sum()) + int(value[11] > 0)
    return {"n": 11}, (value, out, 11), made


def facts_of(kernel: str, total: int) -> str:
    if kernel == "calls":
        return call(total)
    return loop(kernel, f"bound = 8\ntotal = {total}")


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", [*LOOPS, "calls"])
def test_true_totals_are_found_again(kernel: str, seed: int, tmp_path: Path) -> None:
    scalars, arguments, total = inputs(kernel, seed)
    analysis = analyse(tmp_path, kernel, facts_of(kernel, total), 64, **scalars)
    launch = EmulatedLaunch((64, 1, 1), (1, 1, 1), arguments)
    result = validate_input(analysis, MODULE, launch, seed)
    assert not result.diagnostics, [one.render() for one in result.diagnostics]
    (row,) = result.rows
    assert row.safe_cycles is not None
    assert row.safe_cycles >= row.longest_cycles
    uncut = bound(tmp_path, kernel, facts_of(kernel, 10**6), 64, **scalars)
    assert row.safe_cycles < uncut or kernel == "levels"


@pytest.mark.parametrize("kernel", [*LOOPS, "calls"])
def test_a_total_that_is_too_small_is_contradicted(kernel: str, tmp_path: Path) -> None:
    scalars, arguments, total = inputs(kernel, 1)
    assert total > 0
    analysis = analyse(tmp_path, kernel, facts_of(kernel, total - 1), 64, **scalars)
    launch = EmulatedLaunch((64, 1, 1), (1, 1, 1), arguments)
    result = validate_input(analysis, MODULE, launch, 0)
    codes = [one.code for one in result.diagnostics]
    assert codes == ["PW546"]
    text = result.diagnostics[0].render()
    assert f"at most {total - 1} " in text
    assert f"a warp made {total}" in text
    assert "facts.toml:" in text
    assert result.rows[0].safe_cycles is None


# --- distributions --------------------------------------------------------------------------------


def lengths_alone(
    kernel: str, rows: Sequence[Sequence[int]], analysis: KernelAnalysis
) -> Iterator[int]:
    """The length of a warp alone for each distribution of its iterations over the entries."""
    value = np.ones(64, "i4")
    for row in rows:
        arguments = (starts(row), value, np.zeros(32, "i4"), len(row))
        launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), arguments)
        options = EmulatorOptions(record_paths=True)
        run = execute(analysis.kernel, MODULE, launch, options=options)
        (piece,) = prepare_executed(run, analysis.launch, MACHINE).pieces
        (warp_class,) = piece.workload.classes
        yield profile_warp(warp_class.program.body, MACHINE.scoreboard).isolated_cycles


@pytest.mark.parametrize(("entries", "most", "total"), [(3, 4, 5), (4, 2, 3), (2, 6, 7), (3, 3, 1)])
def test_every_distribution_is_within_the_bound(
    entries: int, most: int, total: int, tmp_path: Path
) -> None:
    """One warp: the bound is the length of the worst distribution, but for what prices round."""
    analysis = analyse(
        tmp_path, "rows", loop("rows", f"bound = {most}\ntotal = {total}"), 32, n=entries
    )
    rows = [row for row in product(range(most + 1), repeat=entries) if sum(row) <= total]
    longest = max(lengths_alone("rows", rows, analysis))
    cycles = analysis.worst.bound.cycles
    assert longest <= cycles <= 1.05 * longest


def test_a_bound_grows_by_an_iteration_with_the_total(tmp_path: Path) -> None:
    cycles = [
        bound(tmp_path, "rows", loop("rows", f"bound = 50\ntotal = {total}"), 64, n=100)
        for total in (200, 201, 202, 1000, 4999, 5000, 5001)
    ]
    step = cycles[1] - cycles[0]
    assert step == cycles[2] - cycles[1] > 200
    assert cycles[3] == cycles[0] + 800 * step
    uncut = bound(tmp_path, "rows", loop("rows", "bound = 50"), 64, n=100)
    assert cycles[5] == cycles[6] == uncut
    assert cycles[4] == uncut - step


def test_the_explained_way_spends_the_total(tmp_path: Path) -> None:
    body = loop("rows", "bound = 50\ntotal = 200")
    found = analyse(tmp_path, "rows", body, 64, n=100)
    explained = explain_safe(found.worst.analysis)
    block = next(b for b in found.cfg.blocks if found.cfg.name(b.id) == LOOPS["rows"])
    assert explained.executions()[0][block.start] == 200
    assert sum(paid.total for paid in explained.paid.values()) == explained.cycles


def test_calls_of_one_place(tmp_path: Path) -> None:
    source = TOTALS.with_suffix(".cu").read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "sum += refine(value, i)" in text)
    everywhere = bound(tmp_path, "calls", call(5), n=50)
    there = bound(tmp_path, "calls", call(5, f"line = {line}"), n=50)
    uncut = bound(tmp_path, "calls", "", n=50)
    assert everywhere < there < uncut
    assert there == bound(tmp_path, "calls", call(6), n=50)


# --- contradictions and refusals ------------------------------------------------------------------


def refused(folder: Path, kernel: str, body: str, **values: int) -> tuple[str, str]:
    try:
        (row,) = bound_file(request(folder, kernel, body, 32, **values)).kernels
    except PtxwcetError as error:
        return error.diagnostics[0].code, error.diagnostics[0].render()
    assert not isinstance(row, KernelAnalysis)
    return row.diagnostics[0].code, row.diagnostics[0].render()


def test_two_totals_of_one_loop(tmp_path: Path) -> None:
    body = loop("rows", "bound = 9\ntotal = 20") + loop("rows", "bound = 9\ntotal = 21")
    code, text = refused(tmp_path, "rows", body, n=4)
    assert code == "PW215"
    assert "facts.toml:6 says 20" in text
    assert "facts.toml:11 says 21" in text


def test_two_totals_of_one_function(tmp_path: Path) -> None:
    for again in (call(4), call(4).replace(REFINE, "refine(const int*, int)")):
        code, text = refused(tmp_path, "calls", call(3) + again, n=4)
        assert code == "PW215"
        assert "the total of calls of refine is given twice" in text


def test_a_total_that_the_analysis_contradicts(tmp_path: Path) -> None:
    body = call(1).replace(REFINE, "_Z5twicePKfi")
    code, text = refused(tmp_path, "calls", body, n=4)
    assert code == "PW250"
    assert "or that these call: refine\n" in text
    body = '[[loop]]\nkernel = "calls"\nat = "_Z6refinePKii#{}:$L__BB0_1"\ntotal = 7\n'
    for call_of in (1, 2):  # true of a call that data never make
        cut = analyse(tmp_path, "calls", body.format(call_of), n=4).worst.bound.cycles
        assert cut < analyse(tmp_path, "calls", "", n=4).worst.bound.cycles
    body = body.format(1) + body.format(2).replace("7", "8")
    assert analyse(tmp_path, "calls", body, n=4).worst.bound.cycles > cut / 2
    body = loop("levels", "bound = 9") + loop("levels", "total = 3").replace("4_6", "4_4")
    code, text = refused(tmp_path, "levels", body, n=4)
    assert code == "PW217"


def test_a_formula_with_a_total_is_refused(tmp_path: Path) -> None:
    asked = request(tmp_path, "rows", loop("rows", "bound = 9\ntotal = 20"), 32)
    (row,) = bound_symbolic(asked, "n=1..100").refused
    assert row.diagnostics[0].code == "PW543"
    assert "facts.toml:6 limits" in row.diagnostics[0].render()


def test_facts_that_are_not_calls(tmp_path: Path) -> None:
    for body, text in (
        ('[[call]]\nkernel = "calls"\ntotal = 3', "the function that is called is missing"),
        (call(3).replace("total = 3", ""), "nothing is said of calls"),
        (call(3).replace("= 3", '= "?"'), "how often is _Z6refinePKii called"),
        (call(3, "at = 5"), "say in one way where this is"),
    ):
        assert (
            text
            in refusal_of(state_facts, request(tmp_path, "calls", body, 32, n=4), MODULE).render()
        )
