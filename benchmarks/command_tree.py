"""Every command of the program, and the least arguments that it takes: found in the click tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ptxwcet.cli.main import commands
from ptxwcet.cli.paths import InputFile, LaunchInput, MachineInput, OutputFile, OutputFolder

OUTPUTS = (OutputFile, OutputFolder)


def all_commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words that call each command, and the command."""

    def below(words: tuple[str, ...], group: click.Group) -> Iterator[tuple]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*words, name), command
            if isinstance(command, click.Group):
                yield from below((*words, name), command)

    assert isinstance(commands, click.Group)
    yield from below((), commands)


def is_path(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.Path | click.File)


def is_input(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, InputFile)


def is_output(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, OUTPUTS)


def words_for(parameter: click.Parameter, value: str) -> list[str]:
    """The words that give a parameter a value."""
    if isinstance(parameter, click.Argument):
        return [value]
    return [parameter.opts[-1], value]


_VALUES = {"policy": "lrr", "changes": "fma.latency=2"}


def any_value(parameter: click.Parameter, folder: Path) -> str:
    """A value that click takes; files are made in ``folder``."""
    if is_path(parameter):
        path = folder / f"{parameter.name}-needed.txt"
        if is_input(parameter) and not isinstance(parameter.type, MachineInput):
            path.write_text("needed")
        return str(path)
    if isinstance(parameter.type, click.Choice):
        return str(next(iter(parameter.type.choices)))
    return _VALUES.get(parameter.name or "", "1")


def least_words(command: click.Command, folder: Path, without: set[str]) -> list[str]:
    """What a command cannot do without, but for the parameters named in ``without``.

    A file that it reads unless another is named is not there.
    """
    words = []
    for parameter in command.params:
        is_read = isinstance(parameter, click.Argument) and is_input(parameter)
        if (parameter.required or is_read) and parameter.name not in without:
            words += words_for(parameter, any_value(parameter, folder))
    return words


def is_launch(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, LaunchInput)


def has(command: click.Command, name: str) -> bool:
    return any(one.name == name for one in command.params)
