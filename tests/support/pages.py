"""What pages of documentation show: code blocks, commands with their output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block; a title is the name of the file that it is."""

    language: str
    title: str
    text: str


@dataclass(frozen=True)
class ShownCommand:
    """A command of a console, and the lines that it prints."""

    line: str
    output: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The line as a shell takes it apart."""
        return shlex.split(self.line)


def code_blocks(page: str) -> list[CodeBlock]:
    """The fenced blocks of a page, in order."""
    return [CodeBlock(*found) for found in _BLOCK.findall(page)]


def shown_commands(text: str) -> list[ShownCommand]:
    """The commands of a console, each after a ``$``; lines that end with ``\\`` go on."""
    _, *parts = re.split(r"^\$ ", re.sub(r" \\\n +", " ", text), flags=re.MULTILINE)
    commands = []
    for part in parts:
        line, *output = part.rstrip("\n").split("\n")
        commands.append(ShownCommand(line, tuple(output)))
    return commands


def missing(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Lines shown that are not printed in this order; ``...`` stands for anything."""
    left = iter(printed)
    problems = []
    skips = False
    for line in shown:
        if line.strip() == "...":
            skips = True
            continue
        start, dots, _ = line.partition("...")
        for candidate in left:
            if candidate == line or (dots and candidate.startswith(start)):
                break
            if not skips:
                problems.append(f"{line!r} is shown, {candidate!r} is printed")
                break
        else:
            problems.append(f"{line!r} is not printed")
        skips = False
    return problems
