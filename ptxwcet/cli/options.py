"""Every option that more than one command has: one spelling, one meaning, one definition."""

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


# A completion never fails: where nothing can be offered, nothing is.
def completed(words: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """What completes one of some words."""
    return lambda _context, _parameter, incomplete: [
        CompletionItem(word) for word in words() if word.startswith(incomplete)
    ]


def _complete_kernels(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns the kernels of the FILE or FILES that stand before, by their names in the PTX."""
    given = context.params.get("file") or context.params.get("files")
    found: list[str] = []
    # an option without its value leaves the words before it unread
    for path in (given,) if isinstance(given, str) else given or context.args:
        try:
            found += _ENTRY.findall(read_text(path, MOST_TEXT_BYTES, "replace"))
        except (OSError, ValueError):
            continue
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


FILE: Option = click.argument("file", type=PTX_FILE)
FILE_ON_DISK: Option = click.argument("file", type=INPUT_FILE_BESIDE_CUDA)
FILES: Option = click.argument("files", type=PTX_FILES, nargs=-1, required=True)


# --- Options of the table -------------------------------------------------------------------------


def _checked_size(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Returns the size as it is given, if it is one: no file is read for a mistake (PW210)."""
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
    table.CYCLES: {"type": click.INT},  # whoever loads the machine says which
    table.REGISTERS: {
        "type": InputFile(unless=lambda text: text == table.ASK_PTXAS or table.is_count(text))
    },
    table.PARAMETERS: {"multiple": True},
    table.LOOP_BOUNDS: {"multiple": True},
    table.BUDGET: {"callback": _budget},
}
"""How the command line reads values of a kind, for click."""


def option(name: str, help_text: str = "", **changes: Any) -> Option:
    """Returns an option of the table; ``changes`` are what click is told otherwise by a command."""
    row = OPTIONS[name]
    settings: dict[str, Any] = _OF_KINDS.get(row.kind, {})
    if row.kind.least is not None and not settings:
        settings = {"type": click.IntRange(row.kind.least, row.kind.most)}
    if isinstance(row.kind, table.Words):
        settings = {"type": click.Choice(row.kind.words)}
    settings = settings | ({"default": row.default} if row.default else {}) | changes
    names, *metavar = re.split(r" (?!-)", row.words)
    settings = {
        "metavar": metavar[0] if metavar else None,
        "help": help_text or row.help or None,
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
    return [one.name for one in reversed(added.__click_params__)]


_ORDER = (
    *("kernel", "link", "arch", "machine_code", "nvcc_options", "block", "grid", "params"),
    *("launch", "cuda_source", "loop_bounds", "facts", "sms", "resident_blocks", "co_runner"),
)
"""Which options ``--help`` lists first, of those that stand together."""


def _group(arguments: Any, without: Any = None) -> Option:
    """Adds the options of a class of the table, but those of another class."""
    left_out = without.__annotations__ if without else {}
    names = [one for one in arguments.__annotations__ if OPTIONS[one].words and one not in left_out]
    rank = {name: place for place, name in enumerate(_ORDER)}
    return of(*sorted(names, key=lambda name: rank.get(name, len(rank))))


_LAUNCH = _group(table.LaunchArguments)
machine_options = _group(table.MachineArguments, table.LaunchArguments)
"""What says which machine, for a command that takes its launch from a launch file."""
gpu_options = _group(table.GridArguments, table.MachineArguments)
"""What says which SMs a launch has, and how many blocks each holds."""
launch_options = all_of(FILE, _LAUNCH)
"""FILE, and what says which kernel and which launch."""
analysis_options = all_of(launch_options, machine_options)
"""The same, and what says which machine."""
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


# --- Options that commands say more of ------------------------------------------------------------


def policy(help_text: str = _POLICIES, **changes: Any) -> Option:
    """Returns the warp scheduler of a simulated machine, or the known one of a bound."""
    complete = completed(lambda: [one.value for one in Policy])
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
    """How many things are done at once on this computer, or the cluster that does them instead."""
    others = "; or a running Dask scheduler, whose workers do the work: tcp://host:8786"
    shown = f"{help_text}{others if cluster else ''}.  [default: one a core]"
    metavar = "N|ADDRESS" if cluster else "N"
    return option("workers", shown, type=_Workers(cluster=cluster), metavar=metavar)


PICTURES_HELP = "Draw pictures; their names begin with PATH, which ends in .png or .svg."


def report_options_of(*kinds: str) -> Option:
    """Adds how a report of these kinds is printed and where."""
    return all_of(format_option(*kinds), option("report_file"))


def format_option(*kinds: str, help_text: str = "") -> Option:
    """In which form a command prints; the first kind is the default."""
    return option("form", help_text, type=click.Choice(kinds), default=kinds[0])


report_options = report_options_of("text", "json")
"""How a report is printed and where: its text or JSON, on standard output or in a file."""


# --- What they ask for ----------------------------------------------------------------------------


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
        # here: PTX needs neither compiler nor opener
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
