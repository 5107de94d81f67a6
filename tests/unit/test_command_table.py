"""``docs/command-line.md`` has all commands in its tables, with existing options; they run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import command_tree as tree
import pytest
from places import DOCS, SAMPLES
from programs import run_program

from ptxwcet.cli.main import commands

PAGE = (DOCS / "command-line.md").read_text(encoding="utf-8").partition("\n## Common options")[0]
COMMANDS = {" ".join(words): command for words, command in tree.all_commands()}
NAMES = commands.list_commands(click.Context(commands))
SHOWN = re.findall(r"`(ptxwcet [^`]*)`", PAGE)
ROWS = re.findall(r"^\| `(ptxwcet [^`]*)`", PAGE, re.MULTILINE)

# What a table's words stand for. The launch goes first: what a row says besides comes later, and
# counts. Bounded tests of validity, to be quick; what takes seconds is an example of --help, and
# runs in test_command_line.
LAUNCH = "--block 256 --grid 4 --param n=1000"
WORDS = {
    "FILE ... --symbolic n": "loops.ptx -k loop_up --block 64 --symbolic n",
    "FILE ... --symbolic blocks": "vector_add.ptx --block 256 --param n=9999 --symbolic blocks",
    "OLD.ptx NEW.ptx ...": f"kernel.ptx kernel.ptx {LAUNCH}",
    "FILE ... --grid 64": "kernel.ptx --block 256 --param n=1000 --machine titan-v --grid 64",
    "FILE --mem-latency": f"kernel.ptx {LAUNCH} --mem-latency",
    "FILE ...": f"kernel.ptx {LAUNCH}",
    "FILE": "kernel.ptx",
    "NAME": "titan-v",
    "[CODE]": "PW203",
    "[REPORT]": "sweep",
    "validate kernel.ptx": "validate kernel.ptx --timeout 0.5",
    "--inputs 20": "--inputs 2",
}
MAY_REFUSE = ("pwcet",)  # tests of hypotheses may reject the times
ELSEWHERE = (
    "validate attack",
    "validate tool",
    "simulate warmup",
    "machine measure",
)


def test_commands_and_options_exist() -> None:
    named = set()
    for text in SHOWN:
        words = shlex.split(text)[1:]
        called = (one for one in (" ".join(words[:2]), words[0]) if one in COMMANDS)
        name = next(called, "bound")
        named.add(name)
        command = COMMANDS[name]
        options = {word for word in words if word.startswith("-")}
        known = {option for parameter in command.params for option in parameter.opts}
        assert options <= known, f"{text}: {options - known}"
    assert len(named) >= 30


def test_every_command_is_in_a_table() -> None:
    for name in COMMANDS:
        assert re.search(rf"^\| .*`(ptxwcet )?{name}\b", PAGE, re.MULTILINE), name


def test_help_lists_every_command_once_as_the_page_groups_them() -> None:
    text = run_program("--help").out
    listed = re.findall(r"^  ([a-z][a-z-]+)  +\S.*\.$", text, re.MULTILINE)
    assert sorted(listed) == NAMES
    assert max(map(len, text.splitlines())) <= 80
    groups = re.findall(r"^([A-Z][\w ?]+[\w?]):?$", text, re.MULTILINE)
    assert [one for one in groups if one != "Options"] == re.findall(
        r"^## (.+)$", PAGE, re.MULTILINE
    )
    for group, commands_of in re.findall(
        r"^([A-Z][^\n:]*):\n((?:  [a-z].*\n)+)", text, re.MULTILINE
    ):
        part = PAGE.partition(f"## {group}\n")[2].partition("\n## ")[0]
        for name in re.findall(r"^  ([a-z-]+)", commands_of, re.MULTILINE):
            assert re.search(rf"`(ptxwcet )?{name}\b", part), name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files that the tables name."""
    folder = tmp_path_factory.mktemp("commands")
    for name in ("loops", "saxpy", "vector_add"):
        for suffix in (".ptx", ".cu"):
            kept = "kernel" if name == "saxpy" else name
            shutil.copy(SAMPLES / f"{name}{suffix}", folder / f"{kept}{suffix}")
    shutil.copy(SAMPLES / "launches/saxpy.toml", folder / "l.toml")
    times = ["cycles", *(str(1000 + (k * k * 7919) % 97 + k % 13) for k in range(300))]
    (folder / "times.csv").write_text("\n".join(times) + "\n")
    shutil.copy(SAMPLES / "sweep/results.parquet", folder / "results.parquet")
    (folder / "frame.toml").write_text('[[launch]]\nfile = "kernel.ptx"\nlaunch = "l.toml"\n')
    sweep = '[[sweep]]\nfiles = "kernel.ptx"\nblock = [64, 128]\ngrid = 4\nparams = { n = 999 }\n'
    (folder / "sweep.toml").write_text(sweep)
    (folder / "ptxwcet.toml").write_text('[[check]]\nfiles = "kernel.ptx"\nlaunch = "l.toml"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        bound = ("kernel.ptx", *LAUNCH.split(), "--format", "json", "-o")
        for name in ("report.json", "old.json", "new.json"):
            assert run_program(*bound, name).code == 0
        trace = (
            "simulate",
            "launch",
            "kernel.ptx",
            "--launch",
            "l.toml",
            "--policy",
            "gto",
            "-o",
            "t.csv",
        )
        assert run_program(*trace).code == 0
        yield folder


def test_there_are_rows() -> None:
    assert len(ROWS) >= 30


@pytest.mark.parametrize("row", ROWS)
def test_a_row_runs(row: str, folder: Path) -> None:
    line = row.removeprefix("ptxwcet ")
    if line.startswith(ELSEWHERE):
        pytest.skip("an example of --help, which test_command_line runs")
    for words, meaning in WORDS.items():
        line = line.replace(words, meaning)
    for output in re.findall(r"-o (\S+)", line):  # facts are not written over others
        (folder / output).unlink(missing_ok=True)
    ended = run_program(*shlex.split(line))
    is_drawn = line.startswith("cfg") and shutil.which("dot") is None
    assert ended.code in ((0, 1) if is_drawn or line.startswith(MAY_REFUSE) else (0,)), ended.err
    assert "PW901" not in ended.err
