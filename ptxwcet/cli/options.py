"""The options that several commands have, each with one name, one meaning, one definition."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.cli.paths import (
    INPUT_FILE,
    INPUT_FILE_BESIDE_CUDA,
    KEPT_ANSWERS,
    KERNEL_OF_FILE,
    LAUNCH_FILE,
    MACHINE,
    OUTPUT_FILE,
    PTX_FILE,
    PTX_FILES,
    PTX_OR_STRING,
    STANDARD_INPUT,
    InputFile,
)
from ptxwcet.flow.launch import parse_dim3
from ptxwcet.opened.budgets import Budget, NotABudget, parse_budget
from ptxwcet.opened.front_ends import is_no_ptx, read_stream
from ptxwcet.opened.request import Request, needs_tool, request_of
from ptxwcet.simulator.policies import POLICY_NAMES, Policy
from ptxwcet.support import options as table
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_text
from ptxwcet.support.options import OPTIONS

Decorated = Callable[..., Any]
Option = Callable[[Decorated], Decorated]

_POLICIES = f"Warp scheduler: {POLICY_NAMES}."

_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")


# Completion never fails: without candidates it offers none.
def completed(words: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """Returns the completion function of a list of words."""
    return lambda _context, _parameter, incomplete: [
        CompletionItem(word) for word in words() if word.startswith(incomplete)
    ]


def _complete_kernels(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns the kernels of the preceding FILE or FILES, by their names in the PTX."""
    given = context.params.get("file") or context.params.get("files")
    names: list[str] = []
    # a preceding option without its value leaves the words unread
    for path in (given,) if isinstance(given, str) else given or context.args:
        try:
            names += _ENTRY.findall(read_text(path, MOST_TEXT_BYTES, "replace"))
        except (OSError, ValueError):
            continue
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


FILE: Option = click.argument("file", type=PTX_FILE)
FILE_ON_DISK: Option = click.argument("file", type=INPUT_FILE_BESIDE_CUDA)
FILES: Option = click.argument("files", type=PTX_FILES, nargs=-1, required=True)


# --- Options of the table -------------------------------------------------------------------------


def _checked_size(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Returns the size as given, if it is valid: else it is refused before files are read."""
    if text is not None and option.name is not None:
        parse_dim3(text, option.name)
    return text


def _budget(_: click.Context, option: click.Parameter, text: str | None) -> Budget | None:
    try:
        return None if text is None else parse_budget(text)
    except NotABudget as error:
        raise click.BadParameter(str(error), param=option) from None


_OF_KINDS: dict[table.Kind, dict[str, Any]] = {
    table.SIZE: {"callback": _checked_size},
    table.NAMES: {"multiple": True, "shell_complete": _complete_kernels},
    table.PLACES: {"multiple": True},
    table.TRUTH: {"is_flag": True},
    table.FILE: {"type": INPUT_FILE},
    table.FILES: {"type": INPUT_FILE_BESIDE_CUDA, "multiple": True},
    table.LAUNCH_FILE: {"type": LAUNCH_FILE},
    table.MACHINE: {"type": MACHINE},
    table.KEPT_ANSWERS: {"type": KEPT_ANSWERS},
    table.OUTPUT: {"type": OUTPUT_FILE},
    table.ANY_NUMBER: {"type": click.INT},
    table.FLOAT: {"type": click.FLOAT},
    table.FLOATS: {"type": click.FLOAT, "multiple": True},
    table.CYCLES: {"type": click.INT},  # loading the machine reports the valid range
    table.REGISTERS: {
        "type": InputFile(unless=lambda text: text == table.ASK_PTXAS or table.is_count(text))
    },
    table.PARAMETERS: {"multiple": True},
    table.LOOP_BOUNDS: {"multiple": True},
    table.BUDGET: {"callback": _budget},
}
"""How the command line reads values of a kind, for click."""


def option(name: str, help_text: str = "", **changes: Any) -> Option:
    """Returns an option of the table; ``changes`` are settings that a command overrides."""
    entry = OPTIONS[name]
    settings: dict[str, Any] = _OF_KINDS.get(entry.kind, {})
    if entry.kind.least is not None and not settings:
        settings = {"type": click.IntRange(entry.kind.least, entry.kind.most)}
    if isinstance(entry.kind, table.Words):
        settings = {"type": click.Choice(entry.kind.words)}
    settings = settings | ({"default": entry.default} if entry.default else {}) | changes
    names, *metavar = re.split(r" (?!-)", entry.words)
    settings = {
        "metavar": metavar[0] if metavar else None,
        "help": help_text or entry.help or None,
        "show_default": settings.get("default") is not None,
        **settings,
    }
    return click.option(*names.split(), name, **settings)


def all_of(*options: Option) -> Option:
    """Adds options to a command, in their order."""

    def add(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def of(*names: str) -> Option:
    """Adds options of the table to a command, in this order."""
    return all_of(*map(option, names))


def names_of(*options: Option) -> list[str]:
    """Returns the names of options, in their order."""
    added: Any = all_of(*options)(lambda: None)
    return [item.name for item in reversed(added.__click_params__)]


_ORDER = (
    *("kernel", "link", "arch", "machine_code", "nvcc_options", "block", "grid", "params"),
    *("launch", "cuda_source", "loop_bounds", "facts", "sms", "resident_blocks", "co_runner"),
)
"""The order in which ``--help`` lists the first options of a group."""


def _group(arguments: Any, without: Any = None) -> Option:
    """Returns the options of a class of the table, but those of another class."""
    left_out = without.__annotations__ if without else {}
    names = [
        item for item in arguments.__annotations__ if OPTIONS[item].words and item not in left_out
    ]
    rank = {name: place for place, name in enumerate(_ORDER)}
    return of(*sorted(names, key=lambda name: rank.get(name, len(rank))))


_LAUNCH = _group(table.LaunchArguments)
machine_options = _group(table.MachineArguments, table.LaunchArguments)
"""The options of the machine, for a command that takes its launch from a launch file."""
gpu_options = _group(table.GridArguments, table.MachineArguments)
"""The options of the launch's SMs, and of their numbers of resident blocks."""
launch_options = all_of(FILE, _LAUNCH)
"""FILE, and the options of the kernel and the launch."""
analysis_options = all_of(launch_options, machine_options)
"""The same, and the options of the machine."""
analysis_options_of_files = all_of(FILES, _LAUNCH, machine_options)
"""The options of an analysis, for a command that takes several FILES."""
version_options = all_of(
    *(click.argument(name, type=KERNEL_OF_FILE) for name in ("old", "new")),
    *(_LAUNCH, machine_options),
)
"""The options of an analysis, for a command that takes two versions: FILE or FILE:KERNEL."""
makespan_options = all_of(
    click.argument("file", type=PTX_OR_STRING, metavar="FILE|STRING"),
    *(_LAUNCH, of("machine", "on_unknown")),
)
"""The options of an analysis of no time, of a file or of a kernel string."""


# --- Options that go with others ------------------------------------------------------------------


def refuse_idle(why: str, *names: str) -> None:
    """Raises click.UsageError for an option that is given and counts for nothing here, with why."""
    context = click.get_current_context()
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[-1]} {why}")


def refuse_idle_seed(policy: str | None, jitter: int | None) -> None:
    """Raises click.UsageError for a seed where nothing of a run is drawn at random."""
    if policy != Policy.RANDOM.value and not jitter:
        refuse_idle("is of --policy random and of --jitter: nothing else is random here", "seed")


# --- Options with a help text of the command ------------------------------------------------------


def policy(help_text: str = _POLICIES, **changes: Any) -> Option:
    """Returns the warp scheduler of a simulated machine, or the known one of a bound."""
    complete = completed(lambda: [item.value for item in Policy])
    return option("policy", help_text, shell_complete=complete, **changes)


class _Workers(click.IntRange):
    """How many work at once here; for a ``cluster`` also the address of a Dask scheduler."""

    def __init__(self, *, cluster: bool) -> None:
        kind = OPTIONS["workers"].kind
        super().__init__(kind.least, kind.most)
        self.cluster = cluster

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return value if self.cluster and ":" in str(value) else super().convert(value, param, ctx)


def workers(help_text: str, *, cluster: bool = False) -> Option:
    """Returns the option of the number of local workers, or of the cluster that replaces them."""
    others = "; or a running Dask scheduler, whose workers do the work: tcp://host:8786"
    shown = f"{help_text}{others if cluster else ''}.  [default: one a core]"
    metavar = "N|ADDRESS" if cluster else "N"
    return option("workers", shown, type=_Workers(cluster=cluster), metavar=metavar)


PICTURES_HELP = "Draw pictures; their names begin with PATH, which ends in .png or .svg."


def report_options_of(*kinds: str) -> Option:
    """Adds how a report of these kinds is printed and where."""
    return all_of(format_option(*kinds), option("report_file"))


def format_option(*kinds: str, help_text: str = "") -> Option:
    """Returns the option of the output format; the first kind is the default."""
    return option("form", help_text, type=click.Choice(kinds), default=kinds[0])


report_options = report_options_of("text", "json")
"""How a report is printed and where: its text or JSON, on standard output or in a file."""


# --- The request from options ---------------------------------------------------------------------


def request_from(file: str, **given: Any) -> Request:
    """Returns the request of the shared options, by name.

    PTX on standard input (``-``) is read here, CUDA source compiled and a binary opened. Raises
    PtxwcetError: PW112 (no PTX), PW120 and PW121 (none made or found), PW123 and PW124.
    """
    arch, nvcc_options, machine_code = map(given.get, ("arch", "nvcc_options", "machine_code"))
    text = None
    if file == STANDARD_INPUT:
        read = read_stream(sys.stdin.buffer, "<stdin>")
        file, text = read.name, read.text
    is_made = text is None and needs_tool(file)
    is_code = bool(machine_code) and not (text is None and is_no_ptx(file))
    if is_made and nvcc_options and not file.lower().endswith(".cu"):
        raise click.UsageError("--nvcc-options is for CUDA source: a binary is compiled already")
    if not is_made and (nvcc_options or (arch and not is_code)):
        raise click.UsageError(
            "--arch and --nvcc-options are for CUDA source and binaries: PTX is compiled already"
        )
    if is_made or is_code:
        # imported here: PTX needs neither compiler nor cuobjdump
        from ptxwcet.opened.nvcc import Compilation, ptx_text

        compilation = Compilation(arch, tuple(_split(nvcc_options or "")), bool(given["link"]))
        if not is_code:
            text = ptx_text(file, compilation, given["kernel"])
        else:
            from ptxwcet.opened.machine_code import machine_code as code_of

            text = code_of(file, compilation, given["kernel"], text)
    return request_of(file, given, text=text, is_code=is_code)


def grid_of(given: dict[str, Any]) -> GridWishes:
    """Takes the options of the GPU out of others, for a command that runs one launch.

    Raises click.UsageError if ptxas is to state the registers.
    """
    registers = given.pop("registers")
    if registers is not None and not table.is_count(registers):
        raise click.UsageError("--registers is a number here: ptxas says them to bounds alone")
    number = None if registers is None else int(registers)
    gap = given.pop("launch_gap", None) or 0
    return GridWishes(given.pop("sms"), given.pop("resident_blocks"), number, gap)


def _split(text: str) -> list[str]:
    """Options as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--nvcc-options: {error}") from None
