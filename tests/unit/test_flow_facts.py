"""Facts files: what is read from them, and the one diagnostic for whatever is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusals_of

from ptxwcet.flow.facts.files import read_flow_facts
from ptxwcet.flow.facts.stated import Place, StatedFacts
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

pytestmark = pytest.mark.fast

DIGEST = "ab" * 32
HEAD = f'ptx = "sha256:{DIGEST}"\n'


def read(folder: Path, text: str, kernels: tuple[str, ...] = ("k",)) -> StatedFacts:
    path = folder / "facts.toml"
    path.write_text(text)
    return read_flow_facts(str(path), DIGEST, kernels)


def problems(folder: Path, text: str, kernels: tuple[str, ...] = ("k",)) -> list[Diagnostic]:
    return list(refusals_of(read, folder, text, kernels))


ALL = (
    HEAD
    + """
[[loop]]
at = "$L__BB0_3"
bound = 64
total = 4096

[[loop]]
line = 27
total = 12

[[branch]]
at = "$L__BB0_5"
never = "taken"
uniform = "block"

[[exclusive]]
branches = [["$L__BB0_2", "taken"], [31, "fallthrough"]]

[parameters]
n = "1..4096"
m = 7
x = 0.5
"""
)


def test_every_kind_of_fact(tmp_path: Path) -> None:
    facts = read(tmp_path, ALL)
    first, second = facts.loops
    assert (first.place, first.bound, first.total) == (Place("$L__BB0_3"), 64, 4096)
    assert (first.kernel, first.source.name) == ("k", "facts.toml:5")
    assert (second.place, second.bound, second.total) == (Place(line=27), None, 12)
    (branch,) = facts.branches
    assert (branch.never, branch.uniform) == (True, "block")
    (pair,) = facts.exclusive
    assert pair.outcomes == ((Place("$L__BB0_2"), True), (Place(line=31), False))
    assert [(one.name, one.stated) for one in facts.parameters] == [
        ("n", "1..4096"),
        ("m", 7),
        ("x", 0.5),
    ]
    assert facts.parameters[1].source.name == "facts.toml:22"


def test_facts_of_several_kernels(tmp_path: Path) -> None:
    text = (
        HEAD
        + '[[loop]]\nkernel = "a"\nat = "L"\nbound = 1\n[parameters.b]\nn = 2\n[parameters]\nm = 3'
    )
    facts = read(tmp_path, text.replace("[parameters]\nm = 3", ""), ("a", "b"))
    assert [one.kernel for one in facts.parameters] == ["b"]
    assert facts.of_kernel("a").loops
    assert not facts.of_kernel("a").parameters
    assert not facts.of_kernel("b").loops
    assert problems(tmp_path, HEAD + '[[loop]]\nat = "L"\nbound = 1', ("a", "b"))[0].code == "PW243"


LOOP = '[[loop]]\nat = "L"\n'

WRONG = {
    "not toml": ("ptx = \n", "PW241", 1, 7),
    "unknown table": (HEAD + "[lopp]\n", "PW242", 2, 1),
    "unknown key": (HEAD + LOOP + "bound = 1\nbuond = 2", "PW242", 5, 1),
    "no hash": (LOOP + "bound = 1", "PW244", None, None),
    "stale hash": ('ptx = "sha256:00"\n', "PW244", 1, 1),
    "no bound": (HEAD + LOOP, "PW243", 3, 1),
    "bound of a wrong type": (HEAD + LOOP + 'bound = "many"', "PW243", 4, 1),
    "truth as a bound": (HEAD + LOOP + "bound = true", "PW243", 4, 1),
    "negative bound": (HEAD + LOOP + "bound = -1", "PW243", 4, 1),
    "huge bound": (HEAD + LOOP + f"bound = {10**18}", "PW243", 4, 1),
    "no place": (HEAD + "[[loop]]\nbound = 1", "PW243", 2, 1),
    "two places": (HEAD + LOOP + "line = 3\nbound = 1", "PW243", 3, 1),
    "line 0": (HEAD + "[[loop]]\nline = 0\nbound = 1", "PW243", 3, 1),
    "loop is a table": (HEAD + "[loop]\nbound = 1", "PW243", 2, 1),
    "loop is a number": (HEAD + "loop = 1", "PW243", 2, 1),
    "no such kernel": (HEAD + LOOP + 'kernel = "x"\nbound = 1', "PW208", 4, 1),
    "kernel is a number": (HEAD + LOOP + "kernel = 1\nbound = 1", "PW208", 4, 1),
    "second loop without a place": (HEAD + LOOP + "bound = 1\n[[loop]]", "PW243", 5, 1),
    "nothing said": (HEAD + '[[branch]]\nat = "L"', "PW243", 3, 1),
    "no such outcome": (HEAD + '[[branch]]\nat = "L"\nnever = "up"', "PW243", 4, 1),
    "uniform what": (HEAD + '[[branch]]\nat = "L"\nuniform = true', "PW243", 4, 1),
    "one branch": (HEAD + '[[exclusive]]\nbranches = [["L", "taken"]]', "PW243", 3, 1),
    "no branches": (HEAD + "[[exclusive]]\n", "PW243", 2, 1),
    "pair of words": (HEAD + '[[exclusive]]\nbranches = [["L", "x"], ["M", 1]]', "PW243", 3, 1),
    "parameters is no table": (HEAD + "parameters = 3", "PW243", 2, 1),
    "parameter is a list": (HEAD + "[parameters]\nn = [1]", "PW243", 3, 1),
    "parameters of no kernel": (HEAD + "[parameters.x]\nn = 1", "PW208", 2, 1),
    "open bound": (HEAD + LOOP + 'bound = "?"', "PW245", 4, 1),
    "open branch": (HEAD + '[[branch]]\nat = "L"\nuniform = "?"', "PW245", 4, 1),
    "open parameter": (HEAD + '[parameters]\nn = "1..?"', "PW245", 3, 1),
}


@pytest.mark.parametrize(("text", "code", "line", "column"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, text: str, code: str, line: int | None, column: int | None
) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.code == code
    if line is None:
        assert problem.span is None
        assert "facts.toml" in problem.message
        return
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (line, column)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = "[[loop]]\nat = 1\nbound = 1\n[[loop]]\nat = 'M'\nbound = '?'\n[parameters]\nn = '?'"
    codes = [problem.code for problem in problems(tmp_path, text)]
    assert sorted(codes) == ["PW243", "PW244", "PW245", "PW245"]


def test_the_place_is_that_of_the_table_meant(tmp_path: Path) -> None:
    text = HEAD + LOOP + "bound = 1\n" + LOOP.replace('"L"', '"M"') + 'bound = "?"\n'
    (problem,) = problems(tmp_path, text)
    assert problem.span is not None
    assert problem.span.line == 7
    assert "loop at M" in problem.message


def test_the_remedy_for_a_stale_hash_is_the_right_one(tmp_path: Path) -> None:
    for text in ("", 'ptx = "sha256:00"'):
        (problem,) = problems(tmp_path, text)
        assert f'ptx = "sha256:{DIGEST}"' in str(problem.help)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PtxwcetError, match="cannot read"):
        read_flow_facts(str(tmp_path / "none.toml"), DIGEST, ("k",))
    (tmp_path / "latin.toml").write_bytes(b"ptx = \xff")
    with pytest.raises(PtxwcetError, match="UTF-8"):
        read_flow_facts(str(tmp_path / "latin.toml"), DIGEST, ("k",))


@pytest.mark.parametrize(
    "text",
    [
        'loop = [{at = "L", bound = "x"}]',
        "loop = [[1]]",
        "[[loop]]\n[[loop.at]]\n",
        "[[exclusive]]\nbranches = [1, 2]",
        "[[exclusive]]\nbranches = [[[], {}], 1979-05-27]",
        "[[branch]]\nat = 1979-05-27\nuniform = []",
        "[parameters]\nk = 1979-05-27",
        "x = " + "[" * 2000,
    ],
)
def test_odd_forms_are_refused_without_a_traceback(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, HEAD + text)
