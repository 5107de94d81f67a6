"""The suite of kernels: bounds against executions, and which kernels have none yet.

``benchmarks/path_table.py`` shows the same kernels as a table (docs/experiments/path-analysis.md).
"""

import re
from pathlib import Path

import pytest
from kernel_suite import (
    ANSWERS,
    SUITE,
    Answer,
    Entry,
    Outcome,
    bound_kernel,
    control_flow,
    entries,
    module_of,
    read_answers,
    request_for,
)
from larger_launches import enlarged

from ptxwcet.machine.loader import load_machine
from ptxwcet.studies.input_validation import InputValidation, validate_inputs

INPUTS = 3
MACHINE = load_machine("orin-ecrts2025")

# Kernel -> code of the refusal, with all answers given. A kernel that is bounded leaves the list.
NOT_YET: dict[str, str] = {}
BY_NAME = {entry.kernel: entry for entry in entries()}


def asked_answers(outcome: Outcome) -> tuple[Answer, ...]:
    """The answers to what was asked: a bound for a loop that is decided would be idle."""
    known = {one.loop: one for one in read_answers().get(outcome.entry.kernel, ())}
    return tuple(known[label] for label in outcome.asked)


def validated(outcome: Outcome, answers: tuple[Answer, ...], inputs: int) -> list[InputValidation]:
    module = module_of(outcome.entry.path)
    request = request_for(outcome.entry, answers, outcome.facts)
    return list(validate_inputs(request, module, MACHINE, inputs))


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.kernel)
def test_executions_stay_within_the_bound(entry: Entry) -> None:
    outcome = bound_kernel(entry, read_answers().get(entry.kernel, ()))
    if outcome.refusal is not None:
        assert NOT_YET.get(entry.kernel) == outcome.refusal.code, outcome.refusal.render()
        return
    assert entry.kernel not in NOT_YET, f"{entry.kernel} is bounded now: take it out of NOT_YET"
    results = validated(outcome, asked_answers(outcome), INPUTS)
    assert len(results) == INPUTS
    found = [one.render() for result in results for one in result.diagnostics]
    assert not found, found
    for result in results:
        assert result.rows
        assert all(row.safe_cycles is not None for row in result.rows)
        assert all(row.longest_cycles <= (row.safe_cycles or 0) for row in result.rows)


def test_an_answer_that_is_too_small_is_contradicted() -> None:
    entry = BY_NAME["collatz"]
    (answer,) = read_answers()["collatz"]
    outcome = bound_kernel(entry, (answer,))
    small = Answer(answer.kernel, answer.loop, 20, "")
    (result,) = validated(outcome, (small,), 1)
    assert [one.code for one in result.diagnostics] == ["PW538"]


def test_every_answer_names_a_loop_of_the_suite() -> None:
    for kernel, answers in read_answers().items():
        _, cfg, forest = control_flow(BY_NAME[kernel])
        loops = {cfg.name(loop.header) for loop in forest.loops}
        for answer in answers:
            assert answer.loop in loops, f"{kernel} has no loop {answer.loop}"
            assert answer.bound >= 1
            assert answer.why


def test_two_answers_for_a_loop_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.toml"
    path.write_text(ANSWERS.read_text() * 2)
    with pytest.raises(ValueError, match="two answers"):
        read_answers(path)


def test_every_kernel_has_a_launch_file_and_every_launch_file_a_kernel() -> None:
    launches = {path.stem for path in (SUITE / "launches").glob("*.toml")}
    assert launches == set(BY_NAME)
    assert len(BY_NAME) == len(entries()) >= 45


def test_the_suite_has_every_domain() -> None:
    kernels: dict[str, int] = {}
    for entry in entries():
        kernels[entry.domain] = kernels.get(entry.domain, 0) + 1
    assert set(kernels) >= {
        *("dense", "sparse", "stencils", "dynamic", "graphs", "sorting", "reductions"),
        *("clustering", "imaging", "physics", "numerics", "patterns"),
    }
    assert min(kernels.values()) >= 5


def test_every_source_is_compiled() -> None:
    head = r'^(?:extern "C" )?__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\('
    texts = [path.read_text() for path in SUITE.glob("*.cu")]
    sources = {name for text in texts for name in re.findall(head, text, re.MULTILINE)}
    assert sources == set(BY_NAME)


def test_larger_launches_keep_small_scalars_and_arrays() -> None:
    text = 'grid = "2x1"\nblock = 64\n[arguments]\nn = 10\nr = 7\nx = { shape = 9 }\n'
    larger = 'grid = "60x1"\nblock = 64\n[arguments]\nn = 300\nr = 7\nx = { shape = 9 }\n'
    assert enlarged(text, blocks=False) == larger
    assert enlarged(text, blocks=True) == larger.replace("64", "1024")
