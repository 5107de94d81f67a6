"""Exit codes: 2 where the command line is wrong, 1 where an input is refused, 0 answered.

Missing, unreadable and endless files are tried for every path of every command, found in the click
tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import command_tree as tree
import pytest
from loopback import PATIENCE
from places import ROOT, SAMPLES
from programs import run_program

from ptxwcet.cli.paths import MachineInput, OutputFolder

VECTOR_ADD = str(SAMPLES / "vector_add.ptx")
COMMANDS = dict(tree.all_commands())
INPUTS = [
    pytest.param(words, one.name, id=f"{' '.join(words)}-{one.name}")
    for words, command in COMMANDS.items()
    for one in command.params
    if tree.is_input(one) and not isinstance(one.type, MachineInput)
]
OUTPUTS = [
    pytest.param(words, one.name, id=f"{' '.join(words)}-{one.name}")
    for words, command in COMMANDS.items()
    for one in command.params
    if tree.is_output(one)
]
OF_KERNELS = [words for words, command in COMMANDS.items() if tree.has(command, "block")]
WITH_MACHINE = [words for words, command in COMMANDS.items() if tree.has(command, "machine")]


def call(*arguments: object) -> tuple[int, str]:
    ended = run_program(*arguments)
    assert "PW901" not in ended.err
    return ended.code, ended.err


@pytest.mark.parametrize(("words", "name"), INPUTS)
@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "device"])
def test_an_input_that_cannot_be_read(
    words: tuple[str, ...],
    name: str,
    what: str,
    tmp_path: Path,
) -> None:
    command = COMMANDS[words]
    one = next(row for row in command.params if row.name == name)
    path = tmp_path / "bad"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path = Path("/dev/zero")
    least = tree.least_words(command, tmp_path, {name})
    code, error = call(*words, *least, *tree.words_for(one, str(path)))
    assert code == 2, error
    assert f"cannot read '{path}': " in error


@pytest.mark.parametrize(("words", "name"), OUTPUTS)
def test_an_output_in_no_folder(words: tuple[str, ...], name: str, tmp_path: Path) -> None:
    command = COMMANDS[words]
    one = next(row for row in command.params if row.name == name)
    blocked = tmp_path / "file"
    blocked.write_text("")
    least = tree.least_words(command, tmp_path, {name})
    path = blocked if isinstance(one.type, OutputFolder) else tmp_path / "absent" / "x.svg"
    code, error = call(*words, *least, *tree.words_for(one, str(path)))
    assert code == 2, error
    assert f"'{path}'" in error


@pytest.mark.every(2)
@pytest.mark.parametrize("words", OF_KERNELS, ids=" ".join)
@pytest.mark.parametrize(
    "options",
    [
        ("--block", "abc"),
        ("--block", "9" * 5000),
        ("--block", "32", "--grid", "0x"),
        ("--block", "32", "-k", "absent"),
        ("--block", "32", "--param", "q=1"),
        ("--block", "32", "--param", "n=" + "9" * 5000),
        ("--block", "32", "--loop-bound", "L"),
        ("--block", "32", "--loop-bound", "L=" + "9" * 5000),
        ("--block", "32", "--launch", "absent.toml"),
    ],
    ids=lambda options: "_".join(options)[:40],
)
def test_usage(
    words: tuple[str, ...],
    options: tuple[str, ...],
    tmp_path: Path,
) -> None:
    command = COMMANDS[words]
    least = tree.least_words(command, tmp_path, {"file", "files"})
    code, error = call(*words, VECTOR_ADD, *least, *options)
    assert code == 2, error


@pytest.mark.parametrize("words", WITH_MACHINE, ids=" ".join)
def test_unknown_machine(words: tuple[str, ...], tmp_path: Path) -> None:
    if words == ("pwcet",):
        pytest.skip("its machine belongs to runs that are drawn")
    command = COMMANDS[words]
    launch = SAMPLES / "launches" / "vector_add.toml"
    without = {"file", "files", "old", "launch", "output"}
    least = tree.least_words(command, tmp_path, without)
    names = {one.name for one in command.params}
    if any(one.name == "output" and one.required for one in command.params):
        least += ["-o", str(tmp_path / "o.csv")]
    if "launch" in names:
        least += ["--launch", str(launch)]
    if words == ("hybrid",):
        least += ["--policy", "lrr"]
    code, error = call(*words, VECTOR_ADD, *least, "--machine", "none")
    assert code == 2, error
    assert "PW301" in error


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_unknown_option(words: tuple[str, ...]) -> None:
    assert call(*words, "--no-such-option")[0] == 2


def test_no_such_command() -> None:
    assert call("no-such-command")[0] == 2


def test_refusals_are_1(tmp_path: Path) -> None:
    assert call(VECTOR_ADD, "--block", "2048", "--param", "n=9")[0] == 1
    assert call(VECTOR_ADD, "--block", "32", "--param", "n=9", "--budget", "1")[0] == 1
    text = tmp_path / "letter.ptx"
    text.write_text("a letter\n")
    assert call(text, "--block", "32")[0] == 1


def test_a_parameter_that_one_of_two_kernels_has(tmp_path: Path) -> None:
    """A parameter that one kernel has, and another has not, is said of the one."""
    text = Path(VECTOR_ADD).read_text()
    path = tmp_path / "two.ptx"
    path.write_text(text + ".visible .entry other()\n{\nret;\n}\n")
    code, error = call(path, "--block", "32", "--param", "3=9")
    assert (code, "PW213" in error) == (0, False)
    code, error = call(path, "--block", "32", "--param", "q=9")
    assert (code, "PW213" in error) == (2, True)


def test_a_loop_that_one_of_two_kernels_has(tmp_path: Path) -> None:
    """A bound of a loop that one kernel has, and another has not, is said of the one."""
    bodies = "ld.param.u32 %r1, [P];\nHERE:\nadd.u32 %r1, %r1, 3;\nsetp.ne.u32 %p1, %r1, 7;\n"
    bodies = f".reg .b32 %r<2>; .reg .pred %p<2>;\n{bodies}@%p1 bra HERE;\nret;\n"
    one = f".visible .entry one(.param .u32 P)\n{{\n{bodies}}}\n"
    two = ".visible .entry two(.param .u32 q)\n{\nret;\n}\n"
    three = one.replace("one", "three").replace("HERE", "THERE")
    path = tmp_path / "three.ptx"
    path.write_text(f".version 8.0\n.target sm_80\n.address_size 64\n{one}{two}{three}")
    here, there = ("--loop-bound", "HERE=5"), ("--loop-bound", "THERE=6")
    assert call(path, "--block", "32", *here, *there) == (0, "")
    code, error = call(path, "--block", "32", *here, *there, "--loop-bound", "NONE=7")
    assert (code, error.count("error[PW219]")) == (1, 3)
    code, error = call(path, "--block", "32", "-k", "one", *here, *there)
    assert (code, error.count("error[PW219]")) == (1, 1)


# --- where the output goes ------------------------------------------------------------------------

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """What came of a line; what a slow machine makes ptxwcet say of its work is left out."""
    words = f"{sys.executable} -m ptxwcet"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line.replace('ptxwcet', words, 1)}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    done.stderr = re.sub(r"^ptxwcet \w+: at work for .*\n", "", done.stderr, flags=re.MULTILINE)
    return done


@FULL
@pytest.mark.parametrize(
    "line",
    [
        "ptxwcet explain > /dev/full",
        "ptxwcet samples/vector_add.ptx --block 32 --param n=9 > /dev/full",
        "ptxwcet samples/vector_add.ptx --block 32 --param n=9 --format json > /dev/full",
        "ptxwcet cfg samples/vector_add.ptx > /dev/full",
        "ptxwcet --help > /dev/full",
    ],
)
def test_a_full_disk_behind_standard_output(line: str) -> None:
    done = shell(line)
    assert done.returncode == 1
    assert done.stderr == "ptxwcet: cannot write the output: No space left on device\n"


@FULL
def test_a_full_disk_behind_standard_error() -> None:
    done = shell("ptxwcet samples/vector_add.ptx --block abc 2> /dev/full")
    assert (done.returncode, done.stdout) == (1, "")


@FULL
@pytest.mark.parametrize(
    "words",
    [
        "run samples/saxpy.ptx --launch samples/launches/saxpy.toml --paths",
        "instrument samples/scan.ptx -o",
        "cfg samples/vector_add.ptx -o",
        "facts samples/saxpy.ptx --block 32 -o",
    ],
)
def test_a_full_disk_behind_a_file(words: str, tmp_path: Path) -> None:
    link = tmp_path / "full.dot"
    link.symlink_to("/dev/full")
    done = shell(f"ptxwcet {words} {link}")
    assert done.returncode == 1
    assert f"cannot write '{link}': " in done.stderr
    assert "PW901" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "ptxwcet explain | head -1",
        "ptxwcet explain | true",
        "ptxwcet samples/sgemm_naive.ptx --block 32x32 --param K=64 --explain | head -1",
    ],
)
def test_a_reader_that_leaves_is_no_error(line: str) -> None:
    assert shell(line).stderr == ""


@pytest.mark.parametrize("option", ["--max-instructions", "--events", "--seed", "--path-seed"])
@pytest.mark.parametrize("number", [2**62 + 1, 2**64, 10**30])
def test_numbers_of_a_run_that_do_not_fit_are_usage(option: str, number: int) -> None:
    """A limit of 2**64 instructions was an internal error."""
    sample = str(SAMPLES / "vector_add.ptx")
    words = ("simulate", sample, "--block", "32", "--param", "n=3", "--policy", "gto")
    assert call(*words, option, str(number))[0] == 2
