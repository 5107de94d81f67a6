"""No output of any command replaces an input, or another output of the same call.

The commands and their paths are found in the click tree, so that a new one is covered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import command_tree as tree
import pytest
from click.testing import CliRunner

from ptxwcet.cli.command import Command
from ptxwcet.cli.main import commands
from ptxwcet.cli.paths import InputFile, OutputFile, OutputFolder, check_outputs

pytestmark = pytest.mark.fast

COMMANDS = dict(tree.all_commands())
PAIRS = [
    pytest.param(
        words, source.name, target.name, id=f"{' '.join(words)}-{source.name}-{target.name}"
    )
    for words, command in COMMANDS.items()
    for source in command.params
    if tree.is_input(source)
    for target in command.params
    if tree.is_output(target)
]
OUTPUT_PAIRS = [
    pytest.param(words, one.name, other.name, id=f"{' '.join(words)}-{one.name}-{other.name}")
    for words, command in COMMANDS.items()
    for one in command.params
    for other in command.params
    if tree.is_output(one) and tree.is_output(other) and one.name < other.name
]


def same(path: Path) -> Path:
    return path


def dotted(path: Path) -> Path:
    return Path(f"{path.parent}/./{path.name}")


def around(path: Path) -> Path:
    return path.parent / ".." / path.parent.name / path.name


def symbolic(path: Path) -> Path:
    link = path.with_name("symbolic.svg")
    link.symlink_to(path)
    return link


def hard(path: Path) -> Path:
    link = path.with_name("hard.svg")
    os.link(path, link)
    return link


SPELLINGS = (same, dotted, around, symbolic, hard)


def parameter(command: click.Command, name: str) -> click.Parameter:
    return next(one for one in command.params if one.name == name)


def test_there_are_commands_with_both() -> None:
    assert len(PAIRS) > 40
    assert len(OUTPUT_PAIRS) >= 6


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_path_says_what_it_is_for(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert isinstance(command, Command)
    for one in command.params:
        assert not tree.is_path(one) or tree.is_input(one) or tree.is_output(one), one.name
        if one.name in ("machine", "file", "launch_file", "facts_file", "source", "sidecar"):
            assert tree.is_path(one), f"{one.name} is a path without a role"


def test_a_path_without_a_role_is_noticed() -> None:
    assert tree.is_path(click.Option(["--x"], type=click.Path()))
    assert not tree.is_input(click.Option(["--x"], type=click.Path()))
    assert not tree.is_output(click.Option(["--x"], type=click.Path()))


@pytest.mark.every(2)
@pytest.mark.parametrize("spelled", SPELLINGS, ids=lambda one: one.__name__)
@pytest.mark.parametrize(("words", "source", "target"), PAIRS)
def test_no_output_replaces_an_input(
    words: tuple[str, ...],
    source: str,
    target: str,
    spelled: Callable[[Path], Path],
    tmp_path: Path,
) -> None:
    command = COMMANDS[words]
    one, other = parameter(command, source), parameter(command, target)
    folder = tmp_path / "inner"
    folder.mkdir()
    kept = folder / "kept.svg"
    kept.write_text("kept")
    arguments = [
        *words,
        *tree.least_words(command, tmp_path, {source, target}),
        *tree.words_for(one, str(kept)),
        *tree.words_for(other, str(spelled(kept))),
    ]
    answer = CliRunner().invoke(commands, arguments)
    assert answer.exit_code == 2, answer.output
    assert "would replace" in answer.output or "is a file" in answer.output
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(("words", "one", "other"), OUTPUT_PAIRS)
def test_no_output_replaces_another(
    words: tuple[str, ...], one: str, other: str, tmp_path: Path
) -> None:
    command = COMMANDS[words]
    arguments = [*words, *tree.least_words(command, tmp_path, {one, other})]
    for name in (one, other):
        arguments += tree.words_for(parameter(command, name), str(tmp_path / f"out{len(name)}.svg"))
    if len(one) != len(other):
        arguments = [word.replace(f"out{len(other)}.", f"out{len(one)}.") for word in arguments]
    answer = CliRunner().invoke(commands, arguments)
    assert answer.exit_code == 2, answer.output
    assert "would write the same file" in answer.output


def test_arrays_that_a_launch_file_names_are_inputs(tmp_path: Path) -> None:
    launch = tmp_path / "l.toml"
    launch.write_text('[arguments]\nx = { file = "x.npz" }\n[expected.y]\nfile = "deep/y.npz"\n')
    (tmp_path / "deep").mkdir()
    for name in ("x.npz", "deep/y.npz"):
        (tmp_path / name).write_text("kept")
    for words, command in COMMANDS.items():
        launches = [one for one in command.params if tree.is_launch(one)]
        for target in (one for one in command.params if tree.is_output(one)):
            if isinstance(target.type, OutputFolder) or not launches:
                continue
            for name in ("x.npz", "deep/y.npz"):
                arguments = [
                    *words,
                    *tree.least_words(command, tmp_path, {target.name, launches[0].name}),
                    *tree.words_for(launches[0], str(launch)),
                    *tree.words_for(target, str(tmp_path / name)),
                ]
                answer = CliRunner().invoke(commands, arguments)
                assert (answer.exit_code, "would replace" in answer.output) == (2, True), arguments
                assert (tmp_path / name).read_text() == "kept"


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["cfg", "k.ptx"], "k.cu"),
        (["instrument", "k.ptx"], "k.cu"),
        (["instrument", "record", "k.ptx", "--launch", "l.toml"], "k.json"),
    ],
)
def test_files_beside_an_input_are_inputs(
    words: list[str], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("k.ptx", "k.cu", "k.json", "l.toml"):
        Path(name).write_text("kept")
    answer = CliRunner().invoke(commands, [*words, "-o", target])
    assert (answer.exit_code, "would replace" in answer.output) == (2, True), answer.output
    assert Path(target).read_text() == "kept"


def test_the_second_file_of_instrument_is_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.json").write_text("kept")
    answer = CliRunner().invoke(commands, ["instrument", "k.json", "-o", "k.ptx"])
    assert (answer.exit_code, "would replace" in answer.output) == (2, True), answer.output


def test_a_folder_of_pictures_keeps_the_inputs_in_it(tmp_path: Path) -> None:
    """Pictures are .png and .svg: a measurement of such a name would be replaced, a .csv not."""
    for name, code in (("times.svg", 2), ("times.csv", 1)):
        kept = tmp_path / name
        kept.write_text("no times\n")
        answer = CliRunner().invoke(
            commands, ["pwcet", str(kept), "--picture", f"{tmp_path}/p.svg"]
        )
        assert ("would replace" in answer.output) == (code == 2)
        assert kept.read_text() == "no times\n"


def test_names_that_differ_in_case_are_taken_for_one_output() -> None:
    command = Command(
        "c", example="c", params=[click.Option([f"--{n}"], type=OutputFile()) for n in ("a", "b")]
    )
    with pytest.raises(click.UsageError, match="the same file"):
        check_outputs(command, {"a": Path("new.csv"), "b": Path("NEW.csv")})
    check_outputs(command, {"a": Path("new.csv"), "b": Path("newer.csv")})


def test_a_device_is_replaced_by_nothing() -> None:
    command = Command(
        "c", example="c", params=[click.Option([f"--{n}"], type=OutputFile()) for n in ("a", "b")]
    )
    check_outputs(command, {"a": Path("/dev/null"), "b": Path("/dev/null")})


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    from ptxwcet.support.whole_files import write_text

    link, place = tmp_path / "link", tmp_path / "place"
    link.symlink_to(place)
    write_text(link, "text", "PW233")
    assert link.is_symlink()
    assert place.read_text() == "text"


def test_a_machine_is_an_input() -> None:
    assert any(
        isinstance(one.type, InputFile) and one.name == "machine"
        for one in COMMANDS["bound",].params
    )
