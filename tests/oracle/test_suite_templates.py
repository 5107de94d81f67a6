"""The template of facts for each kernel of the suite, answered: the questions and the bound agree.

The questions of a template come from one search, those of the table from trying again and again.
"""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_suite import Entry, bound_kernel, entries, read_answers, request_for

from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.facts_template import facts_template

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


@pytest.mark.parametrize("entry", ANSWERED, ids=lambda entry: entry.kernel)
def test_an_answered_template_bounds_the_kernel(entry: Entry, tmp_path: Path) -> None:
    answers = read_answers()[entry.kernel]
    outcome = bound_kernel(entry, answers)
    assert outcome.bound is not None, outcome.refusal
    template = facts_template(request_for(entry))
    assert not template.refused
    assert template.questions == len(outcome.asked) + outcome.branches
    if template.questions == 0:
        return
    asked = [row["at"] for row in tomllib.loads(template.text).get("loop", ())]
    assert sorted(asked) == sorted(outcome.asked)
    facts = tmp_path / "facts.toml"
    facts.write_text(filled(template.text, {one.loop: one.bound for one in answers}))
    answer = bound_file(replace(request_for(entry), facts_file=str(facts)))
    assert [row.worst.bound.cycles for row in answer.answered] == [outcome.bound]
