"""Outputs that cannot be written: one clear line at every option that names one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from programs import run_program

from ptxwcet.cli.main import commands
from ptxwcet.cli.paths import OutputFile, OutputFolder

pytestmark = pytest.mark.fast

LONG = "a" * 300


def walked(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command with each of its options that names an output."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from walked(inner, (*words, name))
    for parameter in command.params:
        if isinstance(parameter.type, OutputFile | OutputFolder):
            is_option = isinstance(parameter, click.Option)
            yield (*words, parameter.opts[-1]) if is_option else words


OUTPUTS = sorted(set(walked(commands)))


def test_there_are_such_options() -> None:
    assert len(OUTPUTS) > 20


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
@pytest.mark.parametrize("place", [LONG, f"{LONG}/x", "file/x"])
def test_what_cannot_be_written_is_told(words: tuple[str, ...], place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run_program(*words, str(tmp_path / place))
    assert ended.code == 2
    assert "PW901" not in ended.err
