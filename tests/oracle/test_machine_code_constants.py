"""Variables in constant memory of machine code: what a launch file says of them decides loops.

The kernel of ``tests/data/sass/constants.cu`` goes round as often as an element of each variable
says, so that what the launch file gives, or the file itself, are the counts to be found.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from sass_listings import SASS

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.library.results import Bound
from ptxwcet.opened.opening import RefusedKernel, read_module
from ptxwcet.opened.request import Request

ARCHITECTURES = (75, 86, 90)
INITIAL = {"limits": [3, 5, 7, 9], "bytes": [0, 0, 0, 0], "pair": [4, 2]}
COUNTING = {"n": 0, "limits": 2, "bytes": 1, "pair": 1}  # which element
KINDS = {
    **dict.fromkeys(("n", "limits"), "int32"),
    **dict.fromkeys(("pair", "half"), "int16"),
    **dict.fromkeys(("bytes", "three", "one"), "uint8"),
    "last": "int8",
}
LAUNCH = """kernel = "counted"
grid = 1
block = 16
[arguments]
0 = { shape = 300, dtype = "float32", init = "zeros" }
[variables]
"""


def request(
    architecture: int, launch: Path | None = None, file: str = "constants", without: str = ""
) -> Request:
    """Of a kept listing; ``without``: the beginning of its lines that are left out."""
    text = (SASS / f"{file}_{architecture}.sass").read_text(encoding="utf-8")
    if without:
        lines = text.splitlines()
        text = "\n".join(one for one in lines if not one.startswith(without)) + "\n"
    block = None if launch else "16"
    said = None if launch is None else str(launch)
    return Request("k.cubin", text=text, is_code=True, launch_file=said, block=block)


def launch_file(folder: Path, values: dict[str, list[int]]) -> Path:
    rows = (
        f'{name} = {{ dtype = "{KINDS[name]}", values = {one} }}\n' for name, one in values.items()
    )
    path = folder / "launch.toml"
    path.write_text(LAUNCH + "".join(rows))
    return path


def counts(asked: Request) -> list[int]:
    answer = bound_file(asked)
    (analysis,) = answer.kernels
    assert not isinstance(analysis, RefusedKernel), analysis.diagnostics
    return sorted(Bound(analysis, answer).loops.values())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loops_go_round_as_often_as_variables_say(architecture: int, tmp_path: Path) -> None:
    draw = random.Random(architecture)
    for left_out in ((), ("limits",), ("pair",)):
        values = {
            "n": [draw.randrange(1, 99)],
            "limits": draw.sample(range(100, 150), 4),
            "bytes": draw.sample(range(150, 256), 4),
            "pair": draw.sample(range(260, 299), 2),
        }
        held = {**values, **{name: INITIAL[name] for name in left_out}}
        given = {name: one for name, one in values.items() if name not in left_out}
        found = counts(request(architecture, launch_file(tmp_path, given)))
        assert found == sorted(held[name][at] for name, at in COUNTING.items())


# of tests/data/sass/partial.cu: variables that fill only a part of the words that they lie in
PARTIAL = {"three": [7, 8, 9], "one": [20], "half": [30], "last": [1, 40]}


@pytest.mark.parametrize("architecture", [86, 90])
def test_variables_that_fill_a_part_of_a_word(architecture: int, tmp_path: Path) -> None:
    launch = launch_file(tmp_path, PARTIAL)
    assert counts(request(architecture, launch, "partial")) == [7, 9, 20, 30, 40]


@pytest.mark.parametrize("left_out", ["one", "half"])
def test_of_a_word_with_bytes_of_no_variable_nothing_is_known(
    left_out: str, tmp_path: Path
) -> None:
    """Of an unsigned byte there it is known that it is one, which ends three loops."""
    launch = launch_file(tmp_path, {one: of for one, of in PARTIAL.items() if one != left_out})
    asked = request(86, launch, "partial", f".variable const {left_out} ")
    if left_out == "one":
        assert counts(asked) == [30, 40, 255, 255, 255]
        return
    (refused,) = bound_file(asked).kernels
    assert isinstance(refused, RefusedKernel)
    assert {one.code for one in refused.diagnostics} == {"PW203"}


def test_without_a_launch_file_nothing_is_known_of_variables() -> None:
    answer = bound_file(request(86))
    (refused,) = answer.kernels
    assert isinstance(refused, RefusedKernel)
    assert {one.code for one in refused.diagnostics} == {"PW203"}
    said = refused.diagnostics[0].render()
    assert "it depends on the constant n, which has no value" in said
    assert "give --param n=VALUE" in said


def test_names_are_those_of_the_file() -> None:
    asked = request(86)
    module = read_module(asked)
    found = {one.name: (one.space, one.size_bytes) for one in module.variables}
    constants = {"limits": 16, "n": 4, "bytes": 4, "pair": 4}
    assert found == {
        "table": ("global", 64),
        **{name: ("const", size) for name, size in constants.items()},
    }
    assert asked.text is not None
    # a name that the kernel itself has is none of a variable: its bytes are not known then
    clashing = asked.text.replace("const limits", "const counted_param_0")
    other = read_module(replace(asked, text=clashing))
    assert {one.name for one in other.variables} == found.keys() - {"limits"}
