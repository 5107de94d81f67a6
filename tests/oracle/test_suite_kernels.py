"""The suite of kernels: bounds against executions, and which kernels have none yet.

``benchmarks/path_table.py`` shows the same kernels as a table (docs/experiments/reach.md).
"""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_suite import (
    ANSWERS,
    SUITE,
    Answer,
    Entry,
    bound_kernel,
    control_flow,
    entries,
    module_of,
    read_answers,
    request_for,
)
from larger_launches import enlarged

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.facts.study import facts_template
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.validate.inputs import InputValidation, validate_inputs

INPUTS = 2
MACHINE = load_machine("orin-ecrts2025")
BY_NAME = {entry.kernel: entry for entry in entries()}
LONG = {"triangle_count"}  # nine questions, found one by one: a minute
ANSWERED = [one for one in entries() if one.kernel in read_answers() and one.kernel not in LONG]


def filled(text: str, answers: dict[str, int]) -> str:
    """The template with the numbers written in."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("bound = "):
            at = tomllib.loads(lines[number - 1])["at"]
            lines[number] = f"bound = {answers[at]}"
        if line.startswith("uniform = "):
            lines[number] = 'uniform = "block"'
    return "\n".join([*lines, ""])


def answered(entry: Entry, folder: Path) -> tuple[Request, list[str], int]:
    """The request with the template of its facts filled in; the loops and the number asked for."""
    template = facts_template(request_for(entry))
    assert not template.refused
    facts = folder / "facts.toml"
    answers = {one.loop: one.bound for one in read_answers().get(entry.kernel, ())}
    facts.write_text(filled(template.text, answers))
    asked = [row["at"] for row in tomllib.loads(template.text).get("loop", ())]
    request = request_for(entry)
    if template.questions:
        request = replace(request, facts_file=str(facts))
    return request, asked, template.questions


def validated(request: Request, inputs: int) -> list[InputValidation]:
    return list(validate_inputs(request, module_of(Path(request.path)), MACHINE, inputs))


@pytest.mark.every(24)
@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.kernel)
def test_executions_stay_within_the_bound(entry: Entry, tmp_path: Path) -> None:
    """Bounded without a question, or with the answers to those of its template."""
    request = request_for(entry, read_answers().get(entry.kernel, ()))
    if entry.kernel not in LONG and (entry.facts or entry.kernel in read_answers()):
        request, *_ = answered(entry, tmp_path)
    results = validated(request, INPUTS)
    assert len(results) == INPUTS
    found = [one.render() for result in results for one in result.diagnostics]
    assert not found, found
    for result in results:
        assert result.rows
        assert all(row.safe_cycles is not None for row in result.rows)
        assert all(row.longest_cycles <= (row.safe_cycles or 0) for row in result.rows)


@pytest.mark.every(18)
@pytest.mark.parametrize("entry", ANSWERED[1::5], ids=lambda entry: entry.kernel)
def test_a_template_asks_what_trying_again_and_again_asks(entry: Entry, tmp_path: Path) -> None:
    """The questions of a template come from one search; the bound with the answers is the same."""
    outcome = bound_kernel(entry, read_answers()[entry.kernel])
    assert outcome.bound is not None, outcome.refusal
    request, asked, questions = answered(entry, tmp_path)
    assert questions == len(outcome.asked) + outcome.branches
    assert sorted(asked) == sorted(outcome.asked)
    answer = bound_file(request)
    assert [row.worst.bound.cycles for row in answer.answered] == [outcome.bound]


def test_an_answer_that_is_too_small_is_contradicted() -> None:
    entry = BY_NAME["collatz"]
    (answer,) = read_answers()["collatz"]
    small = Answer(answer.kernel, answer.loop, 20, "")
    (result,) = validated(request_for(entry, (small,)), 1)
    assert [one.code for one in result.diagnostics] == ["PW538"]


def test_every_answer_names_a_loop_of_the_suite() -> None:
    for kernel, answers in read_answers().items():
        flow = control_flow(BY_NAME[kernel])
        cfg, forest = flow.cfg, flow.forest
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
