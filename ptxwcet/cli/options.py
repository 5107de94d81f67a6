"""Every option that more than one command has: one spelling, one meaning, one definition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ptxwcet.claims import Guarantee
from ptxwcet.cli.paths import (
    ASK_PTXAS,
    INPUT_FILE,
    INPUT_FILE_BESIDE_CUDA,
    KERNEL_OF_FILE,
    LAUNCH_FILE,
    MACHINE,
    OUTPUT_FILE,
    PTX_FILE,
    PTX_FILES,
    PTX_OR_STRING,
    InputFile,
    is_number,
)
from ptxwcet.flow.launch import MOST_DYNAMIC_SHARED, parse_dim3
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.budgets import Budget, NotABudget, parse_budget
from ptxwcet.opened.request import MOST_INSTRUCTIONS
from ptxwcet.simulator.policies import POLICY_NAMES, Policy
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_text

Decorated = Callable[..., Any]
Option = Callable[[Decorated], Decorated]

_MOST_SEED = 2**62
_MOST_WORKERS = 1024
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
    """The kernels of the FILE or FILES that stand before, by their names in the PTX."""
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
KERNELS: Option = click.option(
    "-k",
    "--kernel",
    "kernels",
    multiple=True,
    shell_complete=_complete_kernels,
    help="Only this kernel.  [default: all]",
)
SOURCE: Option = click.option(
    "--source",
    type=INPUT_FILE,
    help="CUDA source that names the parameters.  [default: the .cu beside FILE]",
)
LINKS: Option = click.option(
    "--link",
    "links",
    multiple=True,
    type=INPUT_FILE_BESIDE_CUDA,
    help="PTX file that FILE is linked with (nvcc -rdc=true): has functions and variables that "
    "FILE declares .extern.",
)
MACHINE_FILE: Option = click.option(
    "--machine",
    type=MACHINE,
    default=DEFAULT_MACHINE,
    show_default=True,
    help="Machine file: a name (ptxwcet machine) or a path.",
)
MEMORY_LATENCY: Option = click.option(
    "--mem-latency", type=int, help="Global-memory latency in cycles.  [default: the machine's]"
)
UNKNOWN_OPCODES: Option = click.option(
    "--on-unknown",
    type=click.Choice(["refuse", "worst"]),
    default="refuse",
    show_default=True,
    help="An opcode without a row: refuse, or charge the machine's slowest row.",
)


def _checked_size(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """The size as it is given, if it is one: no file is read for a mistake (PW210)."""
    if text is not None and option.name is not None:
        parse_dim3(text, option.name)
    return text


def _budget(_: click.Context, option: click.Parameter, text: str | None) -> Budget | None:
    try:
        return None if text is None else parse_budget(text)
    except NotABudget as error:
        raise click.BadParameter(str(error), param=option) from None


BUDGET: Option = click.option(
    "--budget",
    callback=_budget,
    metavar="[OF:]TIME",
    help="Fail if a bound exceeds so many cycles, or a time: 2000us, block:2ms, kernel:9000.  "
    "[default: of the kernel with a grid, else of a block]",
)
REQUIRE: Option = click.option(
    "--require",
    type=click.Choice([Guarantee.SAFE_BOUND.value, Guarantee.ESTIMATE.value]),
    help="Fail if a bound has a weaker guarantee.  [default: safe-bound with --budget, else "
    "estimate]",
)
SMS: Option = click.option(
    "--sms", type=click.IntRange(1, 1024), help="SMs of the GPU.  [default: the machine's]"
)
RESIDENT_BLOCKS: Option = click.option(
    "--resident-blocks",
    type=click.IntRange(1, 1024),
    help="Blocks that an SM holds.  [default: computed from the machine's limits]",
)
REGISTERS: Option = click.option(
    "--registers",
    type=InputFile(unless=lambda text: text == ASK_PTXAS or is_number(text)),
    metavar="N|FILE|ptxas",
    help="Registers of a thread: a number, what ptxas -v printed or a cubin, or ask the ptxas on "
    "the PATH.  [default: those of the launch file]",
)
DYNAMIC_SHARED: Option = click.option(
    "--dynamic-shared",
    type=click.IntRange(0, MOST_DYNAMIC_SHARED),
    metavar="BYTES",
    help="Shared memory that the launch gives a block beside the kernel's variables.  [default: "
    "that of the launch file]",
)
CO_RUNNER: Option = click.option(
    "--co-runner",
    metavar="BYTES,GB/S",
    help="Others use the memory of the GPU beside the launch: at once and on average at most.",
)
_MACHINE = (MACHINE_FILE, MEMORY_LATENCY, UNKNOWN_OPCODES)


def launch_file(*, required: bool = False) -> Option:
    """The launch file: what to run, and what a bound may take as given."""
    return click.option(
        "--launch",
        "launch_file",
        type=LAUNCH_FILE,
        required=required,
        help="Launch file: says kernel, block, grid, parameters and constants.",
    )


LAUNCHED = (
    click.option(
        "--block",
        callback=_checked_size,
        help="Threads of a block: 256, 32x8, 8x8x4.  [default: .reqntid]",
    ),
    click.option("--grid", callback=_checked_size, help="Blocks of the grid.  [default: any grid]"),
    click.option(
        "--param",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of a scalar parameter, by index, PTX name or CUDA name; a range as 1..4096; "
        "of a pointer of what it is a multiple, as align:16, or how large its array is, which is "
        "set aside in the L2 cache, as bytes:65536; of a tensor map its box and the bytes of an "
        "element, as box:64x128:2.",
    ),
)
"""A launch without a launch file."""
_LAUNCH = (
    KERNELS,
    LINKS,
    click.option(
        "--arch",
        metavar="sm_N",
        help="FILE is CUDA source: compile it for sm_N; a binary: take its PTX for sm_N.",
    ),
    click.option(
        "--machine-code",
        is_flag=True,
        help="Take the machine code: compile CUDA source or PTX to it, for --arch; of a binary "
        "take that which it holds.",
    ),
    click.option(
        "--nvcc-options",
        metavar="TEXT",
        help="FILE is CUDA source: more options of nvcc, for example '-Iinclude -DN=4'.",
    ),
    *LAUNCHED,
    launch_file(),
    SOURCE,
    click.option(
        "--loop-bound",
        "loop_bounds",
        multiple=True,
        metavar="PLACE=N",
        help="Most body executions of a loop for each entry; PLACE is a label, or a line of the "
        "CUDA source (27, or kernel.cu:27 where several files have code in the kernel).",
    ),
    click.option(
        "--facts",
        "facts_file",
        type=INPUT_FILE,
        help="Facts file: loop bounds, branches and parameters (ptxwcet facts writes a template).",
    ),
)


def refuse_idle(why: str, *names: str) -> None:
    """Raises click.UsageError for an option that is given and counts for nothing here, with why."""
    context = click.get_current_context()
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        if one.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{one.opts[-1]} {why}")


def refuse_idle_seed(policy: str | None, jitter: int | None) -> None:
    """Raises click.UsageError for a seed where nothing of a run is drawn at random."""
    if policy != Policy.RANDOM.value and not jitter:
        refuse_idle("is of --policy random and of --jitter: nothing else is random here", "seed")


def all_of(*options: Option) -> Option:
    """Adds options to a command, in their order."""

    def add(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return add


launch_options = all_of(FILE, *_LAUNCH)
"""FILE, and what says which kernel and which launch."""
analysis_options = all_of(launch_options, *_MACHINE)
"""The same, and what says which machine."""
analysis_options_of_files = all_of(FILES, *_LAUNCH, *_MACHINE)
"""The options of an analysis, for a command that takes several FILES."""
version_options = all_of(
    *(click.argument(name, type=KERNEL_OF_FILE) for name in ("old", "new")), *_LAUNCH, *_MACHINE
)
"""The options of an analysis, for a command that takes two versions: FILE or FILE:KERNEL."""
makespan_options = all_of(
    click.argument("file", type=PTX_OR_STRING, metavar="FILE|STRING"),
    *_LAUNCH,
    MACHINE_FILE,
    UNKNOWN_OPCODES,
)
"""The options of an analysis of no time, of a file or of a kernel string."""
gpu_options = all_of(SMS, RESIDENT_BLOCKS, CO_RUNNER, REGISTERS, DYNAMIC_SHARED)
"""What says which SMs a launch has, and how many blocks each holds."""
machine_options = all_of(*_MACHINE)
"""What says which machine, for a command that takes its launch from a launch file."""


def policy(help_text: str = _POLICIES, *, required: bool = False) -> Option:
    """The warp scheduler of a simulated machine, or the known one of a bound."""
    complete = completed(lambda: [one.value for one in Policy])
    return click.option("--policy", required=required, shell_complete=complete, help=help_text)


def number(
    name: str,
    help_text: str,
    kind: click.ParamType[Any],
    default: float | None = None,
    metavar: str = "N",
    parameter: str = "",
) -> Option:
    """A number, with its default if there is one; ``parameter`` is its name in the code."""
    return click.option(
        name,
        *([parameter] if parameter else []),
        type=kind,
        default=default,
        show_default=default is not None,
        metavar=metavar,
        help=help_text,
    )


def seed(help_text: str, default: int | None = 0) -> Option:
    """The seed of all that is drawn at random."""
    return number("--seed", help_text, click.IntRange(0, _MOST_SEED), default)


def jitter(
    default: int | None = 0,
    help_text: str = "Shorten each initiation and latency at random by up to so much.",
) -> Option:
    """How far timings of a run are shortened at random."""
    return number("--jitter", help_text, click.INT, default, "PERCENT")


def launch_gap(default: int | None, help_text: str) -> Option:
    """How far apart the blocks of a grid start."""
    return number("--launch-gap", help_text, click.IntRange(0, 10**9), default, "CYCLES")


def max_instructions(
    default: int = MOST_INSTRUCTIONS,
    help_text: str = "Give up an execution after so many warp-instructions.",
) -> Option:
    """After how many instructions a run is given up."""
    return number("--max-instructions", help_text, click.IntRange(1, 2**62), default)


def timeout(
    default: float | None, help_text: str, kind: click.ParamType[Any] = click.FLOAT
) -> Option:
    """How long a command may search: what it gives does not depend on it elsewhere."""
    return number("--timeout", help_text, kind, default, "SECONDS", "seconds")


class _Workers(click.IntRange):
    """How many work at once here; for a ``cluster`` also the address of a Dask scheduler."""

    def __init__(self, *, cluster: bool) -> None:
        super().__init__(1, _MOST_WORKERS)
        self.cluster = cluster

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return value if self.cluster and ":" in str(value) else super().convert(value, param, ctx)


def workers(help_text: str, *, cluster: bool = False) -> Option:
    """How many things are done at once on this computer, or the cluster that does them instead."""
    others = "; or a running Dask scheduler, whose workers do the work: tcp://host:8786"
    return click.option(
        "--workers",
        type=_Workers(cluster=cluster),
        metavar="N|ADDRESS" if cluster else "N",
        help=f"{help_text}{others if cluster else ''}.  [default: one a core]",
    )


def written_to(help_text: str, *, required: bool = False, kind: click.Path = OUTPUT_FILE) -> Option:
    """Where a command writes the file that it is for."""
    return click.option(
        "-o", "--output", "output", type=kind, required=required, metavar="PATH", help=help_text
    )


def picture(help_text: str, kind: click.Path = OUTPUT_FILE) -> Option:
    """A picture that is drawn; the end of its name says in which form."""
    return click.option("--picture", type=kind, metavar="PATH", help=help_text)


PICTURES_HELP = "Draw pictures; their names begin with PATH, which ends in .png or .svg."


def saved(help_text: str) -> Option:
    """Where times are kept that a command measures itself, on a simulated machine."""
    return click.option("--save", type=OUTPUT_FILE, metavar="PATH", help=help_text)


def executed(help_text: str) -> Option:
    """The paths that the inputs of the launch file take, instead of all that there may be."""
    return click.option("--executed", is_flag=True, help=help_text)


def probabilities(help_text: str) -> Option:
    """Probabilities of exceedance, for which times are wanted."""
    return click.option(
        "--probability", "probabilities", type=float, multiple=True, metavar="P", help=help_text
    )


def report_options_of(*kinds: str) -> Option:
    """Adds how a report of these kinds is printed and where."""
    output = click.option(
        "-o",
        "--output",
        "report_file",
        type=OUTPUT_FILE,
        metavar="PATH",
        help="Write the report to a file.  [default: standard output]",
    )
    return all_of(format_option(*kinds), output)


def format_option(*kinds: str, help_text: str = "") -> Option:
    """In which form a command prints; the first kind is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(kinds),
        default=kinds[0],
        show_default=True,
        help=help_text or None,
    )


report_options = report_options_of("text", "json")
"""How a report is printed and where: its text or JSON, on standard output or in a file."""
