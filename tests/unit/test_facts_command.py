"""``ptxwcet facts``: the template asks what is open, nothing else, and its answers give a bound."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from answers import only_refusal
from click.testing import CliRunner
from places import FLOW, ROOT
from programs import run_program

from ptxwcet.cli.main import commands
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.facts.study import facts_template
from ptxwcet.opened.request import Request

# file, kernel, block, parameters, grid: questions by table
ROUND_TRIPS = [
    ("samples/mandelbrot.ptx", "mandelbrot", "32x8", (), None, {"loop": ["$L__BB0_2"]}),
    ("samples/loops.ptx", "loop_step", "64", (), None, {"parameters": ["n", "step"]}),
    ("samples/loops.ptx", "loop_step", "64", ("n=100",), None, {"parameters": ["step"]}),
    ("samples/loops.ptx", "loop_nested", "64", (), None, {"parameters": ["n", "m"]}),
    ("samples/saxpy.ptx", "saxpy", "64", (), None, {"loop": ["$L__BB0_2"]}),
    ("samples/saxpy.ptx", "saxpy", "64", (), "4", {"parameters": ["n"]}),
    ("samples/triangular.ptx", "triangular_sum", "64", (), None, {"parameters": ["n"]}),
    ("tests/data/flow/open.ptx", "csr", "64", (), None, {"loop": ["$L__BB1_6"]}),
    ("tests/data/flow/open.ptx", "chase", "64", (), None, {"loop": ["$L__BB2_1"]}),
    ("tests/data/flow/open.ptx", "rows", "64", (), None,
     {"parameters": ["count"], "loop": ["$L__BB3_4"]}),
    ("tests/data/flow/open.ptx", "barrier", "64", (), None,
     {"loop": ["$L__BB4_1"]}),
    ("tests/data/flow/open.ptx", "twice", "64", (), None,
     {"loop": ["_Z6followPKii#1:$L__BB0_1", "_Z6followPKii#2:$L__BB0_1"]}),
    ("tests/data/flow/open.ptx", "part_of_some", "64", (), None, {"parameters": ["mode"]}),
    ("tests/data/flow/open.ptx", "settled", "64", (), None, {"parameters": ["count"]}),
    ("tests/data/flow/open.ptx", "reached", "64", (), None,
     {"parameters": ["count"], "loop": ["$L__BB9_5"]}),
    ("tests/data/flow/open.ptx", "part", "64", (), None, {"branch": ["entry"]}),
    ("tests/data/flow/open.ptx", "ways_out", "64", (), None, {"loop": ["$L__BB14_1"]}),
    ("benchmarks/kernels/suite/various.ptx", "hash_probe", "64", (), None,
     {"loop": ["$L__BB8_2"]}),
    ("tests/data/flow/open.ptx", "agreed", "64", (), None, {"branch": ["$L__BB12_2"]}),
]  # fmt: skip


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("file", "kernel", "block", "parameters", "grid", "questions"),
    ROUND_TRIPS,
    ids=[f"{row[1]}-{row[4]}-{len(row[3])}" for row in ROUND_TRIPS],
)
def test_round_trip(
    tmp_path: Path,
    file: str,
    kernel: str,
    block: str,
    parameters: tuple[str, ...],
    grid: str | None,
    questions: dict[str, list[str]],
) -> None:
    request = Request(str(ROOT / file), (kernel,), block, grid, parameters)
    template = facts_template(request)
    assert not template.refused
    data = tomllib.loads(template.text)
    assert data.pop("ptx").startswith("sha256:")
    asked: dict[str, list[str]] = {}
    for table in ("loop", "branch"):
        if table in data:
            asked[table] = [row["at"] for row in data[table]]
    if "parameters" in data:
        values = data["parameters"]
        asked["parameters"] = list(values.get(kernel, values))
    assert asked == questions
    assert template.questions == sum(map(len, questions.values()))
    path = tmp_path / "facts.toml"
    options = [str(ROOT / file), "-k", kernel, "--block", block, "--facts", str(path)]
    options += [word for text in parameters for word in ("--param", text)]
    options += [] if grid is None else ["--grid", grid]

    path.write_text(template.text)
    open_still = CliRunner().invoke(commands, ["bound", *options], standalone_mode=False)
    codes = {one.code for one in open_still.exception.diagnostics}  # type: ignore[union-attr]
    assert codes == {"PW245"}

    agreed = template.text.replace('uniform = "?"', 'uniform = "block"')
    path.write_text(agreed.replace('"?"', "7"))
    answered = CliRunner().invoke(commands, ["bound", *options], standalone_mode=False)
    assert answered.exception is None, answered.exception
    assert answered.return_value == 0, answered.output
    assert "BOUND" in answered.output
    again = CliRunner().invoke(commands, ["facts", *options], standalone_mode=False)
    assert "nothing is open" in again.output
    assert again.return_value == 0


def test_every_open_question_of_the_samples_can_be_answered(tmp_path: Path) -> None:
    for file in sorted((ROOT / "samples").glob("*.ptx")):
        if file.stem == "triangular":
            continue  # above: slow
        block = None if file.stem == "triton_add" else "64"
        template = facts_template(Request(str(file), block=block))
        assert not template.refused
        path = tmp_path / "facts.toml"
        path.write_text(template.text.replace('"?"', "9"))
        answer = bound_file(Request(str(file), block=block, facts_file=str(path)))
        assert not answer.refused, (file.stem, answer.refused)


def test_what_a_template_says() -> None:
    text = facts_template(Request(str(FLOW / "open.ptx"), ("csr",), block="64")).text
    assert "# The loop at $L__BB1_6 (open.cu:7)" in text
    assert "#     for (int j = row[i]; j < row[i + 1]; ++j) s += v[j];" in text
    assert "# it goes on while %r" in text
    assert "< loaded(open.cu:7)" in text
    assert "where %r" in text
    text = facts_template(Request(str(FLOW / "open.ptx"), ("rows",), block="64")).text
    assert "[parameters.rows]" in text
    assert "# It decides the loop at $L__BB3_2 (open.cu:23)" in text
    assert "< count" in text


def test_names_and_lines_without_the_source(tmp_path: Path) -> None:
    shutil.copy(ROOT / "samples/loops.ptx", tmp_path / "loops.ptx")
    text = facts_template(Request(str(tmp_path / "loops.ptx"), ("loop_up",), block="64")).text
    assert 'loop_up_param_1 = "?"' in text
    assert "(loops.cu:6)" in text
    assert "for (" not in text


def test_a_kernel_that_no_answer_helps() -> None:
    result = CliRunner().invoke(
        commands, ["facts", str(FLOW / "open.ptx"), "-k", "part_for_sure", "--block", "64"],
        standalone_mode=False,
    )  # fmt: skip
    assert result.return_value == 1
    assert "PW222" in result.output
    assert "nothing is open" not in result.output


def test_a_value_that_helps_among_others_that_do_not(tmp_path: Path) -> None:
    file = str(FLOW / "open.ptx")
    template = facts_template(Request(file, ("part_of_others",), block="64"))
    assert not template.refused
    path = tmp_path / "facts.toml"
    path.write_text(template.text.replace('"?"', "2000"))
    assert bound_file(Request(file, ("part_of_others",), block="64", facts_file=str(path))).answered


def test_values_are_tried_within_a_range_that_is_stated() -> None:
    file = str(FLOW / "open.ptx")
    wrong = Request(file, ("part_of_others",), block="64", parameters=("mode=1..500",))
    assert 'mode = "?"' not in facts_template(wrong).text
    right = Request(file, ("part_of_others",), block="64", parameters=("mode=1..5000",))
    assert 'mode = "?"' in facts_template(right).text


@pytest.mark.parametrize("kernel", ["part", "agreed"])
def test_the_agreement_that_helps_is_asked_for(kernel: str) -> None:
    text = facts_template(Request(str(FLOW / "open.ptx"), (kernel,), block="64")).text
    assert 'uniform = "?"  # write "block" if they do' in text


def test_a_loop_that_is_long_for_some_threads_and_open_for_others(tmp_path: Path) -> None:
    file = str(FLOW / "open.ptx")
    template = facts_template(Request(file, ("mixed",), block="64"))
    assert not template.refused
    path = tmp_path / "facts.toml"
    request = Request(file, ("mixed",), block="64", facts_file=str(path))
    path.write_text(template.text.replace('"?"', "3_000_000"))
    assert bound_file(request).answered
    path.write_text(template.text.replace('"?"', "7"))
    row = only_refusal(request)
    assert row.diagnostics[0].code == "PW217"
    assert "facts.toml:" in row.diagnostics[0].message


def test_out_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "facts.toml"
    command = ["facts", str(ROOT / "samples/mandelbrot.ptx"), "--block", "32x8", "-o", str(out)]
    first = run_program(*command)
    assert first.code == 0
    assert "1 open question" in first.out
    written = out.read_text()
    assert 'bound = "?"' in written
    second = run_program(*command)
    assert second.code == 1
    assert "PW233" in second.err
    assert out.read_text() == written


def test_nothing_open_writes_no_file(tmp_path: Path) -> None:
    out = tmp_path / "facts.toml"
    options = ["facts", str(ROOT / "samples/scan.ptx"), "--block", "1024", "-o", str(out)]
    result = CliRunner().invoke(commands, options, standalone_mode=False)
    assert "nothing is open" in result.output
    assert not out.exists()


def test_no_option_of_another_command() -> None:
    result = CliRunner().invoke(commands, ["facts", "x.ptx", "--machine", "orin-ecrts2025"])
    assert result.exit_code == 2


@pytest.mark.parametrize("command", ["bound", "annotate phases", "simulate", "validate"])
def test_commands_that_take_facts(tmp_path: Path, command: str) -> None:
    file = str(ROOT / "samples/mandelbrot.ptx")
    template = facts_template(Request(file, block="32"))
    path = tmp_path / "facts.toml"
    path.write_text(template.text.replace('"?"', "5"))
    options = [*command.split(), file, "--block", "32", "--facts", str(path)]
    options += ["--policy", "gto"] if command == "simulate" else []
    options += ["--runs", "1"] if command == "validate" else []
    result = CliRunner().invoke(commands, options, standalone_mode=False)
    assert result.exception is None, result.exception
    assert not result.return_value


def test_the_report_names_who_states_a_bound(tmp_path: Path) -> None:
    file = str(ROOT / "samples/mandelbrot.ptx")
    path = tmp_path / "facts.toml"
    text = facts_template(Request(file, block="32")).text.replace('"?"', "5")
    path.write_text(text)
    line = 1 + text[: text.index("bound = ")].count("\n")
    result = CliRunner().invoke(commands, ["bound", file, "--block", "32", "--facts", str(path)])
    assert f"5  user: facts.toml:{line}" in result.output
    assert "safe-bound" in result.output
    assert f"- the loop bounds of facts.toml:{line} hold for every thread" in result.output


def test_a_loop_of_too_many_ways_is_asked_for() -> None:
    """Its iterations are walked until the walk is given up (PW206): a bound settles it."""
    kernels = ROOT / "benchmarks/kernels/hybrid"
    launch = str(kernels / "launches/eigenvalues_3.toml")
    request = Request(str(kernels / "eigenvalues.ptx"), launch_file=launch)
    asked = tomllib.loads(facts_template(request).text)
    assert [row["at"] for row in asked["loop"]] == ["$L__BB2_3"]
    assert set(asked) == {"ptx", "loop"}


# --- as the help says -----------------------------------------------------------------------------


def test_an_unrolled_loop_is_called_so(tmp_path: Path) -> None:
    path = ROOT / "tests/data/unsound/fir.ptx"
    (refused,) = only_refusal(Request(str(path), block="32", loop_bounds=("8=40",))).diagnostics
    said = "--loop-bound '$L__BB0_4=40' (or 10, if 4 iterations of the source are one of it)"
    assert said in (refused.help or "")
    assert "--loop-bound '$L__BB0_15=40'" in (refused.help or "")
