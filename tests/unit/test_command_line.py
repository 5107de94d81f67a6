"""The grammar of the command line: what is the same in every command."""

import json
import logging
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import command_tree as tree
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from places import ROOT, SAMPLES

from ptxwcet.cli.command import Command
from ptxwcet.cli.main import commands, main

COMMANDS = dict(tree.all_commands())
VECTOR_ADD = (str(SAMPLES / "vector_add.ptx"), "--block", "256", "--param", "n=1000")

# Options of one spelling that mean something else in one command: none is left unexplained.
MEANINGS = {
    ("pwcet", "launches"): "several launches",
    ("run", "paths"): "a file of paths",
    ("compare", "threshold"): "a percentage",
}


@dataclass(frozen=True)
class Shown:
    exit_code: int
    stdout: str
    stderr: str


def invoke(*arguments: str, given: bytes | None = None) -> Shown:
    """What the program prints, colours as for a pipe."""
    with CliRunner().isolation(input=given) as (out, err, _), pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return Shown(int(stopped.value.code or 0), out.getvalue().decode(), err.getvalue().decode())


def options_of(command: click.Command) -> dict[str, click.Option]:
    return {
        spelling: one
        for one in command.params
        if isinstance(one, click.Option)
        for spelling in (*one.opts, *one.secondary_opts)
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_and_the_three_options(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert isinstance(command, Command)
    assert command.example.startswith("ptxwcet ")
    shown = invoke(*words, "--help").stdout
    assert "Example:" in shown
    assert command.example in " ".join(shown.split())
    assert {"--quiet", "--verbose", "--color"} <= set(options_of(command))


def test_an_option_is_called_and_typed_the_same_everywhere() -> None:
    """A spelling stands for one parameter, whichever command has it."""
    seen: dict[str, set[tuple[str | None, str]]] = {}
    for words, command in COMMANDS.items():
        for spelling, one in options_of(command).items():
            if (words[0], one.name) not in MEANINGS:
                seen.setdefault(spelling, set()).add((one.name, type(one.type).__name__))
    several = {spelling: kinds for spelling, kinds in seen.items() if len(kinds) > 1}
    allowed = {
        "-o",  # a report or what the command is for
        "--output",
        "--timeout",  # a range where 0 makes no sense
        "--method",
        "--picture",  # one, or how the names of several begin
    }
    assert set(several) <= allowed, several


def test_commands_and_options_are_few() -> None:
    assert len(commands.list_commands(click.Context(commands))) <= 20
    spellings = {
        max(one.opts, key=len)
        for command in (commands, *COMMANDS.values())
        for one in command.params
        if isinstance(one, click.Option)
    }
    assert len(spellings) <= 82  # the last one is --per


def test_an_option_takes_the_same_everywhere() -> None:
    """What stands behind a spelling, and whether it may be given several times."""
    seen: dict[str, set[tuple[str | None, bool, bool]]] = {}
    for command in COMMANDS.values():
        for spelling, one in options_of(command).items():
            seen.setdefault(spelling, set()).add((one.metavar, one.multiple, one.is_flag))
    several = {spelling for spelling, kinds in seen.items() if len(kinds) > 1}
    # pwcet draws runs of several launches; check works on this computer alone
    assert several == {"--launch", "--workers"}


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_fits_a_terminal_and_is_not_cut_off(words: tuple[str, ...]) -> None:
    shown = invoke(*words, "--help").stdout
    _, _, rest = shown.partition("\n\n")  # behind how it is used
    assert max(map(len, shown.splitlines())) <= 80
    assert not [line for line in rest.splitlines() if line.endswith("...")]


def test_what_is_written_is_called_output_and_how_long_timeout() -> None:
    others = {"--out", "--time", "--limit", "--seconds"}
    for words, command in COMMANDS.items():
        assert not others & set(options_of(command)), words


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples name."""
    for name in ("kernel", "old", "new"):
        for suffix in (".ptx", ".cu"):
            shutil.copy(SAMPLES / f"saxpy{suffix}", tmp_path / f"{name}{suffix}")
    shutil.copy(SAMPLES / "launches/saxpy.toml", tmp_path / "launch.toml")
    machine = ROOT / "ptxwcet/machine/models/orin-ecrts2025.toml"
    shutil.copy(machine, tmp_path / "my-gpu.toml")
    times = ["cycles", *(str(1000 + (k * k * 7919) % 97 + k % 13) for k in range(2000))]
    (tmp_path / "times.csv").write_text("\n".join(times) + "\n")
    frame = '[[launch]]\nfile = "kernel.ptx"\nlaunch = "launch.toml"\ntimes = 60\n'
    (tmp_path / "frame.toml").write_text(frame)
    shutil.copy(SAMPLES / "sweep/results.parquet", tmp_path / "results.parquet")
    sweep = '[[sweep]]\nfiles = "kernel.ptx"\nblock = [64, 128]\ngrid = 4\nparams = { n = 999 }\n'
    (tmp_path / "sweep.toml").write_text(sweep)
    plan = '[[check]]\nfiles = "kernel.ptx"\nlaunch = "launch.toml"\nbudget = "9 ms"\n'
    (tmp_path / "ptxwcet.toml").write_text(plan)
    monkeypatch.chdir(tmp_path)
    report = invoke(
        *("bound", "kernel.ptx", "--block", "256", "--grid", "4", "--param", "n=99"),
        *("--format", "json"),
    )
    for name in ("report.json", "old.json", "new.json"):
        (tmp_path / name).write_text(report.stdout)
    return tmp_path


# The answer of an example may be a refusal: times that a test of hypotheses rejects.
# Others read their files.
_FIRST = (
    ("instrument",),
    ("instrument", "record"),
    ("instrument", "import"),
    ("validate", "tool"),
)
ORDER = (*_FIRST, *(words for words in COMMANDS if words not in _FIRST))


def test_every_example_works(folder: Path) -> None:
    assert (folder / "kernel.ptx").exists()
    for words in ORDER:
        example = COMMANDS[words].example  # type: ignore[attr-defined]
        arguments = shlex.split(example)[1:]
        result = invoke(*arguments)
        is_drawn = words == ("cfg",) and shutil.which("dot") is None
        may_refuse = words in (("pwcet",), ("machine", "measure"))  # without a GPU
        expected = (0, 1) if may_refuse or is_drawn else (0,)
        assert result.exit_code in expected, (example, result)
        assert "PW901" not in result.stderr


def test_a_report_goes_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    result = invoke(*VECTOR_ADD, "--format", "json", "-o", str(target))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert json.loads(target.read_text())["kernels"][0]["bound_cycles"] == 662


def test_a_refusal_leaves_no_older_bound_in_the_file(tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    assert invoke(*VECTOR_ADD, "-o", str(target)).exit_code == 0
    assert "BOUND" in target.read_text()
    assert invoke(*VECTOR_ADD[:2], "2048", "-o", str(target)).exit_code == 1
    assert target.read_text() == ""


def test_standard_input_is_a_file() -> None:
    text = Path(VECTOR_ADD[0]).read_bytes()
    result = invoke("-", *VECTOR_ADD[1:], "-q", given=text)
    assert result.exit_code == 2  # no .cu lies beside it that would say what n is
    result = invoke("-", "--block", "256", "--param", "3=1000", "-q", given=text)
    assert (result.exit_code, result.stdout) == (0, "vector_add 662 safe-bound\n")
    result = invoke("-", "--block", "256", given=b"")
    assert result.exit_code == 1
    assert "error[PW112]: '<stdin>' is empty" in result.stderr


def test_files_and_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    options = ("--block", "256", "-q")
    result = invoke("transpose_*.ptx", "vector_add.ptx", *options)
    assert result.stdout.splitlines() == [
        "transpose_naive 974 safe-bound",
        "transpose_tiled 1815 safe-bound",
        "vector_add 662 safe-bound",
    ]
    data = json.loads(invoke("transpose_*.ptx", *options, "--format", "json").stdout)
    assert [one["file"] for one in data] == ["transpose_naive.ptx", "transpose_tiled.ptx"]
    assert invoke("no_such_*.ptx", *options).exit_code == 2


def test_a_file_that_cannot_be_read_costs_itself_only(tmp_path: Path) -> None:
    broken = tmp_path / "broken.ptx"
    broken.write_text("a letter\n")
    result = invoke(str(broken), *VECTOR_ADD[:3], "-q")
    assert result.exit_code == 1
    assert result.stdout == "vector_add 662 safe-bound\n"
    assert "broken.ptx:1:1" in result.stderr


def test_colours_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in invoke(*VECTOR_ADD).stdout
    assert "\x1b[1mBOUND" in invoke(*VECTOR_ADD, "--color", "always").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in invoke(*VECTOR_ADD).stdout


def test_quiet_and_verbose() -> None:
    result = invoke(*VECTOR_ADD, "-q")
    assert (result.stdout, result.stderr) == ("vector_add 662 safe-bound\n", "")
    loud = invoke(*VECTOR_ADD, "-q", "-v")
    assert "kernel vector_add: answered" in loud.stderr
    assert not logging.getLogger("ptxwcet").handlers  # what comes later is quiet again
    assert invoke(*VECTOR_ADD, "-q").stderr == ""


def completed(*words: str) -> list[str]:
    *before, last = words
    found = ShellComplete(commands, {}, "ptxwcet", "_PTXWCET_COMPLETE").get_completions(
        before, last
    )
    return [one.value for one in found]


def test_machines_policies_and_kernels_are_completed() -> None:
    loops = str(SAMPLES / "loops.ptx")
    assert completed("bound", loops, "--machine", "orin") == [
        "orin-ecrts2025",
        "orin-ecrts2025-16sm",
        "orin-ecrts2025-hazard",
        "orin-ecrts2025-memory",
    ]
    assert completed("simulate", loops, "--policy", "g") == ["gto", "gty"]
    assert completed("bound", loops, "-k", "loop_un") == ["loop_unrolled", "loop_unsigned"]
    assert completed("bound", "no such file", "-k", "loop") == []


def test_commands_and_files_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("check.ptx", "check.txt", "kernel.cu"):
        Path(name).touch()
    Path("checks").mkdir()
    assert completed("che") == ["check", "check.ptx", "checks/"]
    assert {"bound", "validate", "check.ptx", "kernel.cu", "checks/"} <= set(completed(""))
    (files,) = ShellComplete(commands, {}, "ptxwcet", "").get_completions([], "ker")
    assert (files.type, files.value) == ("file", "ker")
    assert completed("validate", "c") == ["certificates", "check.ptx", "checks/"]
    assert completed("machine", "n") == ["new"]
    assert completed("explain", "PW20")[0].startswith("PW20")
    assert completed("validate", "tool", "--c") == ["--cases", "--color"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chek", "plan.toml"), "'chek' is no command, and no file of that name is here: did you"),
        (("chek",), "did you mean check?"),
        (("Anotate", *VECTOR_ADD), "did you mean annotate?"),
        (("nonsense",), "ptxwcet --help lists the commands"),
        (("vaildate", *VECTOR_ADD), "did you mean validate?"),
        (("validate", "atack"), "'atack' is no command, and no file of that name is here"),
        (("validate", "certificate", "a.json"), "did you mean validate certificates?"),
        (("sweep", "repot"), "did you mean sweep report?"),
        (("machine", "chek", "mine.toml"), "did you mean machine check?"),
        (("explain", "shema"), "did you mean explain schema?"),
        ((*VECTOR_ADD, "--block", "128"), "--block is given 2 times: give it once"),
        (("cfg", VECTOR_ADD[0], "--divergent", "none", "--divergent", "none"), "is given 2 times"),
        ((*VECTOR_ADD, "--arch", ""), "it is empty"),
        (("bound", ""), "it is empty"),
        ((*VECTOR_ADD, "--param", ""), "it is empty"),
        ((*VECTOR_ADD, "--sms", "1"), "sms: it counts in the bound of a launch"),
        ((*VECTOR_ADD, "--registers", "9", "--resident-blocks", "1"), "resident_blocks and regist"),
        ((*VECTOR_ADD, "--registers", "ptxas"), "registers: it counts"),
        ((*VECTOR_ADD, "--dynamic-shared", "0"), "dynamic_shared: it counts"),
    ],
)
def test_what_says_nothing_is_refused(words: tuple[str, ...], said: str) -> None:
    shown = invoke(*words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert said in shown.stderr


def test_a_file_may_be_called_like_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(VECTOR_ADD[0], tmp_path / "chek")
    assert invoke("chek", "--block", "256", "--param", "3=1000", "-q").stdout.endswith("bound\n")


def test_the_module_of_the_command_line_is_a_door_too() -> None:
    for module in ("ptxwcet", "ptxwcet.cli.main"):
        command = [sys.executable, "-m", module, *VECTOR_ADD, "-q"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "vector_add 662 safe-bound\n"
