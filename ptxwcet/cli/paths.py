"""Paths on the command line: their roles, and the guard that no output replaces an input.

A path parameter has one of the types of this module, which defines whether it is read or written;
:class:`~ptxwcet.cli.command.Command` has all of them compared before it begins. Two names are the
same file if the system reports so (links, another spelling of the path, a file system that ignores
case).
"""

from __future__ import annotations

import glob
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ptxwcet.cli.tree import CommandTree
from ptxwcet.machine.loader import find_machine_file, machine_names
from ptxwcet.opened.front_ends import suffixes
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, MOST_TOML_BYTES, open_input, read_text
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import NotToml, parse_toml

STANDARD_INPUT = "-"
PICTURES = (".png", ".svg")


class InputFile(click.Path):
    """A file that is read: it exists, is a regular file and can be opened.

    ``beside`` are suffixes of files that are also read, if they have its name and folder.
    ``unless`` tests for words that are not files.
    """

    def __init__(self, *beside: str, unless: Callable[[str], bool] = lambda _: False) -> None:
        super().__init__()
        self.beside = beside
        self.unless = unless

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the given value; raises click.BadParameter for a file that cannot be read."""
        path = os.fspath(value)
        if self.unless(path):
            return value
        try:
            open_input(path, MOST_DATA_BYTES).close()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.fail(f"cannot read '{path}': {reason}", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Returns files, and for the first word after a command also its subcommands."""
        if isinstance(ctx.command, CommandTree) and isinstance(param, click.Argument):
            return ctx.command.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, param, incomplete)

    def reads(self, value: str | Path) -> Iterator[Path]:
        """Yields every file that is read because of this one."""
        if self.unless(str(value)):
            return
        path = Path(value)
        yield path
        for suffix in self.beside:
            yield path.with_suffix(suffix)


class PtxInput(InputFile):
    """The PTX that is read: a file, or ``-`` for standard input."""

    patterns = False  # whether the command expands them (expand_patterns)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the path as given; click.BadParameter for one that cannot be read."""
        if value == STANDARD_INPUT or (self.patterns and expand_patterns([value]) != (value,)):
            return value
        return super().convert(value, param, ctx)

    def reads(self, value: str | Path) -> Iterator[Path]:
        """Yields the files and their companions in the same folder."""
        if value != STANDARD_INPUT:
            for path in expand_patterns([str(value)]) if self.patterns else (value,):
                yield from super().reads(path)


def is_kernel_string(text: str) -> bool:
    """Returns whether a word is one of capital letters, and not the name of a file that is here."""
    return text.isalpha() and text.isupper() and not os.path.exists(text)


class PtxInputs(PtxInput):
    """The same, or a pattern of such files, or a folder of them."""

    patterns = True


class KernelInput(PtxInput):
    """PTX to read, or a kernel of it: ``FILE:KERNEL``. A file of that name has priority."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the given value; raises click.BadParameter for a file that cannot be read."""
        super().convert(split_kernel(str(value))[0], param, ctx)
        return value

    def reads(self, value: str | Path) -> Iterator[Path]:
        """Yields the file and its companions in the same folder."""
        yield from super().reads(split_kernel(str(value))[0])


def split_kernel(text: str) -> tuple[str, str | None]:
    """Returns path and kernel of ``FILE:KERNEL``; no kernel without one, or without such a file."""
    ends = [place for place, letter in enumerate(text) if letter == ":"]
    for end in () if os.path.exists(text) else ends:  # names of C++ have colons, too
        if os.path.isfile(text[:end]):
            return text[:end], text[end + 1 :]
    return text, None


def expand_patterns(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the files, each once; of a folder the files that a front end reads by the suffix, as
    ``*.ptx``, and without these the files compiled from them; of a pattern that the shell did not
    expand the matching files.

    A pattern without a match, and the name of an existing file, stays as it is.
    """
    paths: dict[str, None] = {}
    for name in names:
        groups = [[name]] if glob.has_magic(name) and not os.path.exists(name) else []
        if os.path.isdir(name):
            groups = [
                [os.path.join(glob.escape(name), f"*{end}") for end in ends] for ends in suffixes()
            ]
        found = (sorted(path for one in group for path in glob.glob(one)) for group in groups)
        paths.update(dict.fromkeys(next(filter(None, found), [name])))
    return tuple(paths)


class LaunchInput(InputFile):
    """A launch file: the arrays that it names are read, too."""

    def reads(self, value: str | Path) -> Iterator[Path]:
        """Yields the file and the files that it names; a malformed file names none."""
        yield from super().reads(value)
        for name in _named_files(_tables(value)):
            yield Path(value).parent / name


def _tables(path: str | Path) -> dict[str, Any]:
    try:
        return parse_toml(SourceFile(str(path), read_text(path, MOST_TOML_BYTES)))
    except (OSError, ValueError, NotToml, tomllib.TOMLDecodeError):
        return {}  # the command itself reports the problem


class SequenceInput(InputFile):
    """A sequence file: files named by its launches, and by their launch files, are also read."""

    table, patterns = "launch", "file"

    def reads(self, value: str | Path) -> Iterator[Path]:
        """Yields the file and the files that it names; a malformed file names none."""
        yield from super().reads(value)
        entries = _tables(value).get(self.table)
        for entry in entries if isinstance(entries, list) else ():
            for key in (self.patterns, "launch", "facts", "source", "ptxas_info", "machines"):
                names = entry.get(key) if isinstance(entry, dict) else None
                for name in names if isinstance(names, list) else [names]:
                    if isinstance(name, str) and "\0" not in name:
                        yield from self._named(str(Path(value).parent / name), key)

    def _named(self, path: str, key: str) -> Iterator[Path]:
        """Yields the files that are read because a table names a path, or a pattern of them."""
        kind = LaunchInput() if key == "launch" else InputFile(".cu")
        for one in expand_patterns([path]) if key == self.patterns else (path,):
            yield from kind.reads(one)


class PlanInput(SequenceInput):
    """A plan of checks."""

    table, patterns = "check", "files"


class MachineInput(InputFile):
    """A machine: the name of a machine of the tool, or the path of a machine file."""

    name = "machine"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Returns the machines of the tool, else files."""
        known = [CompletionItem(name) for name in machine_names() if name.startswith(incomplete)]
        return known or super().shell_complete(ctx, param, incomplete)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the name or path as given: the command reports its problems (PW301)."""
        return value

    def reads(self, value: str | Path) -> Iterator[Path]:
        """Yields where the machine is kept; nothing if there is none of that name."""
        try:
            yield find_machine_file(str(value))
        except PtxwcetError:
            return


def why_unreachable(path: Path) -> str | None:
    """Returns why no file can exist at a path, such as a name that is too long; else None.

    From Python 3.14 on ``Path.exists`` and the like only report that no file exists.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror
    return None


class OutputFile(click.Path):
    """A file that is written; its folder exists.

    Its name ends in one of ``ends``, if there are any. ``beside`` is the suffix of a second file of
    its name that the command writes.
    """

    def __init__(self, *ends: str, beside: str | None = None) -> None:
        super().__init__(path_type=Path)
        self.ends = ends
        self.beside = beside

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the path; raises click.BadParameter before any work if it cannot be a file."""
        path = Path(value)
        if reason := why_unreachable(path):
            self.fail(f"cannot write '{path}': {reason}", param, ctx)
        if path.is_dir():
            self.fail(f"cannot write '{path}': it is a folder", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"cannot write '{path}': there is no folder '{path.parent}'", param, ctx)
        return super().convert(value, param, ctx)

    def writes(self, value: Path) -> Iterator[Written]:
        """Yields every file that is written because of this one."""
        yield Written(value)
        if self.beside is not None:
            yield Written(value.with_suffix(self.beside))


class OutputFileOrFolder(OutputFile):
    """A file that is written, or a folder that is there and gets files of these ``names``."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the path; click.BadParameter for one that cannot be a file."""
        return Path(value) if os.path.isdir(value) else super().convert(value, param, ctx)

    def writes(self, value: Path) -> Iterator[Written]:
        """Yields the file, or those in the folder."""
        if value.is_dir():
            yield from (Written(value / name) for name in self.names)
        else:
            yield Written(value)


class OutputFolder(click.Path):
    """A folder that files with one of the ``suffixes`` are written into; it is made if missing."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__(path_type=Path, file_okay=False)
        self.suffixes = suffixes

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the path; click.BadParameter for one that cannot be a folder."""
        path = Path(value)
        if reason := why_unreachable(path):
            self.fail(f"cannot write '{path}': {reason}", param, ctx)
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        if not there.is_dir():
            self.fail(f"cannot write '{path}': '{there}' is a file", param, ctx)
        return super().convert(value, param, ctx)

    def writes(self, value: Path) -> Iterator[Written]:
        """Yields the folder, and what may be written into it."""
        yield Written(value, self.suffixes)


class PictureFiles(OutputFolder):
    """The name of a picture, with which the names of several begin."""

    def __init__(self) -> None:
        super().__init__(*PICTURES)
        self.ends = PICTURES

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the path; click.BadParameter for one that cannot be."""
        super().convert(Path(value).parent, param, ctx)
        return Path(value)

    def writes(self, value: Path) -> Iterator[Written]:
        """Yields the pictures in the folder of the name."""
        yield Written(value.parent, self.suffixes)


@dataclass(frozen=True, slots=True)
class Written:
    """A file that is written, or with ``suffixes`` a folder in which such files are."""

    path: Path
    suffixes: tuple[str, ...] = ()

    def hits(self, other: Path) -> bool:
        """Returns whether writing would replace the file ``other``."""
        if is_same_file(self.path, other):
            return True
        if not self.suffixes or other.suffix not in self.suffixes:
            return False
        return any(is_same_file(self.path, folder) for folder in _folders(other))


def check_outputs(command: click.Command, params: dict[str, Any]) -> None:
    """Raises click.UsageError if an output is the same file as an input or as another output.

    An output whose name has a wrong suffix is refused as well.
    """
    inputs: list[Path] = []
    outputs: list[tuple[str, Written]] = []
    for parameter in command.params:
        value = params.get(parameter.name or "")
        if value is None or value == ():
            continue
        for named in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter.type, InputFile):
                inputs += parameter.type.reads(named)
            elif isinstance(parameter.type, OutputFile | OutputFolder):
                option = parameter.opts[-1]
                outputs += [(option, row) for row in parameter.type.writes(named)]
    for number, (option, written) in enumerate(outputs):
        for path in inputs:
            if written.hits(path):
                raise click.UsageError(f"{option}: writing '{written.path}' would replace '{path}'")
        for other, earlier in outputs[:number]:
            if written.hits(earlier.path) or earlier.hits(written.path):
                message = f"{other} and {option} would write the same file, '{written.path}'"
                raise click.UsageError(message)
    for parameter in command.params:
        given, ends = params.get(parameter.name or ""), getattr(parameter.type, "ends", ())
        if ends and given is not None and given.suffix not in ends:
            message = f"'{given}' should end in {' or '.join(ends)}"
            raise click.BadParameter(message, param=parameter)


def is_same_file(path: Path, other: Path) -> bool:
    """Returns whether two paths lead to the same file, which need not exist.

    A device or a pipe is not a file that could be replaced: it is never the same. If neither
    exists, names that differ only in case are the same: on some file systems they are.
    """
    try:
        if path.exists() and other.exists():
            special = not (path.is_file() or path.is_dir())
            return not special and os.path.samefile(path, other)
        return os.path.realpath(path).casefold() == os.path.realpath(other).casefold()
    except (OSError, ValueError):
        return False


def _folders(path: Path) -> tuple[Path, ...]:
    """Returns the folders of a file as named and with links resolved."""
    return path.parent, Path(os.path.realpath(path)).parent


def _named_files(tables: Any) -> Iterator[str]:
    """Yields the values of every key ``file`` of a launch file. Depth is limited by the reader."""
    if isinstance(tables, dict):
        for key, value in tables.items():
            if key == "file" and isinstance(value, str):
                yield value
            else:
                yield from _named_files(value)
    elif isinstance(tables, list):
        for value in tables:
            yield from _named_files(value)


INPUT_FILE = InputFile()
INPUT_FILE_BESIDE_CUDA = InputFile(".cu")
PTX_FILE = PtxInput(".cu")
PTX_OR_STRING = PtxInput(".cu", unless=is_kernel_string)
PTX_FILES = PtxInputs(".cu")
KERNEL_OF_FILE = KernelInput(".cu")
LAUNCH_FILE = LaunchInput()
MACHINE = MachineInput()
OUTPUT_FILE = OutputFile()
PICTURE_FILES = PictureFiles()
KEPT_ANSWERS = OutputFolder(".sqlite")
