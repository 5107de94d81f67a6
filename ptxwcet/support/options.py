"""The table of options: what the command line, plans, launch files and Python let a user state.

An option is a field of one of the classes below: its name and its type in Python, and in the
annotation an :class:`Option` with the rest. All that any of these entry points knows of an option
comes from here: words and help of the command line (``cli.options``), keys and values of plans
(``opened.launch_tables``), keys of launch files (``emulator.launch_files``), signatures and checks
of Python's functions (``library.arguments``), the fields of a request (``opened.request``).
"""

# annotations are evaluated here: the table is made of them
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Annotated, Any, TypedDict

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

Dimensions = int | Sequence[int] | str
"""Threads of a block or blocks of a grid: ``256``, ``(32, 8)`` or ``"32x8"``."""
Parameter = int | float | str | range
"""A scalar parameter: a number, or all integers of a range."""
# keys of a mapping are of one type, or mixed: Mapping is covariant in its values alone
Params = Mapping[str, Parameter] | Mapping[int, Parameter] | Mapping[str | int, Parameter]
"""Parameters by CUDA name, PTX name or place."""
LoopBounds = Mapping[str, int] | Mapping[int, int] | Mapping[str | int, int]
"""Iterations by labels or lines."""
File = str | os.PathLike[str]
Files = File | Sequence[File]
"""A file, or several."""
Names = str | Sequence[str]
"""A name or a word, or several."""

REFUSE, WORST = "refuse", "worst"
"""What becomes of an opcode without a row: ``on_unknown``."""
ASK_PTXAS = "ptxas"
"""Who is asked for the ``registers`` of a thread."""
MOST_SEED = 2**62


def is_count(text: str) -> bool:
    """Returns whether a word is a number that is no longer than any that makes sense."""
    return text.isdecimal() and len(text) < 10


# --- Kinds of values ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of values of options.

    ``is_argument`` decides whether a value of Python is of this kind, and ``wanted`` describes such
    values; ``is_value``, ``held`` and ``listed`` do the same for a value of a plan, and for a list
    of them where a plan takes lists. ``read`` returns the value that a request has, where the paths
    of files begin with a folder. Keys of plans are listed in the order of ``rank``. ``least`` and
    ``most`` are the limits of a number.
    """

    is_argument: Callable[[Any], bool]
    wanted: str
    is_value: Callable[[Any], bool] = lambda value: False
    held: str = ""
    listed: str = ""
    read: Callable[[Any, str], Any] = lambda value, folder: value
    rank: int = 0
    least: int | None = None
    most: int | None = None

    def __call__(
        self, words: str = "", help: str = "", plans: tuple[str, ...] = (), **others: Any
    ) -> "Option":
        """Returns an option whose values are of this kind."""
        return Option(self, words, help, plans, **others)


def is_whole(value: object, least: int | None = None, most: int | None = None) -> bool:
    """Returns whether a value is a whole number between two limits; those that are None are no
    limits.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return (least is None or least <= int(value)) and (most is None or int(value) <= most)


def is_text(value: object) -> bool:
    """Returns whether a value is a text that is not empty."""
    return isinstance(value, str) and bool(value)


def _is_file(value: object) -> bool:
    return is_text(value) or isinstance(value, os.PathLike)


def several(is_one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Returns what decides whether a value is of a kind, or is a list of such values."""
    return lambda value: (
        is_one(value) or (isinstance(value, list | tuple) and all(map(is_one, value)))
    )


def _is_size(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return 1 <= len(value) <= 3 and all(map(is_whole, value))
    return is_text(value) or is_whole(value)


def _is_name(value: object) -> bool:
    return (is_text(value) and "=" not in str(value)) or is_whole(value)


def is_number(value: object) -> bool:
    """Returns whether a value is a number of any type."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_parameter(value: object) -> bool:
    return is_number(value) or is_text(value) or isinstance(value, range)


def _is_table(value: object, is_entry: Callable[[object], bool]) -> bool:
    return (
        isinstance(value, Mapping)
        and all(map(_is_name, value))
        and all(map(is_entry, value.values()))
    )


def _size(value: Any, folder: str) -> str:
    return "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _path(value: File, folder: str) -> str:
    return os.path.join(folder, os.fspath(value))


def paths_of(values: Files, folder: str = "") -> tuple[str, ...]:
    """Returns the paths of a file or several."""
    listed = (values,) if isinstance(values, str | os.PathLike) else values
    return tuple(_path(item, folder) for item in listed)


def _entries(table: Mapping[Any, Any] | tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Returns a table as the command line writes it, an entry ``NAME=VALUE`` each."""
    if isinstance(table, tuple):
        return table
    return tuple(f"{name}={_entry(value)}" for name, value in table.items())


def _entry(value: Parameter) -> str:
    """Returns a value as an option has it. Raises PtxwcetError (PW213) for a range with gaps."""
    if not isinstance(value, range):
        return str(value)
    if value.step != 1 or not value:
        message = f"{value} is no range of integers one after the other"
        raise PtxwcetError(Diagnostic("PW213", message, help="give range(least, most + 1)"))
    return f"{value[0]}..{value[-1]}"


def names_of(names: Names, folder: str = "") -> tuple[str, ...]:
    """Returns a name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def whole(
    least: int | None = None, most: int | None = None, *, wanted: str = "a whole number is wanted"
) -> Kind:
    """Returns the kind of the whole numbers of a range, of which Python checks no more than that
    they are whole, unless ``wanted`` states the range.
    """
    limits = (least, most) if "from" in wanted else ()
    held = f"a whole number from {least} to {most or 0:,}"
    return Kind(
        lambda value: is_whole(value, *limits),
        wanted,
        lambda value: type(value) is int and is_whole(value, least, most),
        held,
        f"{held}, a text {{...}} that gives one, a list or a range of them",
        rank=5,
        least=least,
        most=most,
    )


_LISTED = "a text or a list of texts"
_MAPPED = (
    lambda value: (
        isinstance(value, Mapping)
        and all(type(item) in (int, float, str) for item in value.values())
    ),
    "a table of names and numbers",
)
ANYTHING = Kind(lambda value: True, "")
FLOAT, FLOATS = replace(ANYTHING), replace(ANYTHING)
TEXT = Kind(is_text, "a text is wanted", is_text, "a text", _LISTED)
TEXTS = replace(TEXT, is_argument=several(is_text), wanted="a text, or a list of them, is wanted")
NAMES = replace(TEXTS, read=names_of)
BUDGET, PLACES = replace(TEXT), replace(TEXTS)
TRUTH = Kind(
    lambda value: isinstance(value, bool),
    "True or False is wanted",
    lambda value: type(value) is bool,
    "true or false",
    "true or false, or both in a list",
    rank=1,
)
SIZE = Kind(
    _is_size,
    "a number, up to three numbers or a text as '32x8' are wanted",
    lambda value: is_text(value) or type(value) is int,
    "a text",
    "a text, a whole number, or a list of them",
    _size,
    rank=2,
)
FILE = Kind(_is_file, "the path of a file is wanted", is_text, "a text", _LISTED, _path, rank=3)
LAUNCH_FILE, KEPT_ANSWERS, OUTPUT = (replace(FILE) for _ in range(3))
MACHINE = replace(FILE, read=lambda value, folder: os.fspath(value))
FILES = Kind(
    several(_is_file),
    "the path of a file, or a list of them, is wanted",
    several(is_text),
    _LISTED,
    read=paths_of,
    rank=4,
)
CYCLES, ANY_NUMBER = whole(1, 10**6), whole()
REGISTERS = replace(
    whole(1, 1024),
    is_argument=lambda value: is_whole(value) or value == ASK_PTXAS,
    wanted=f"a whole number, or {ASK_PTXAS!r} to ask it, is wanted",
    read=lambda value, folder: int(value),
)
PARAMETERS = Kind(
    lambda value: _is_table(value, _is_parameter),
    "a mapping of names or places to numbers, texts or ranges is wanted",
    *_MAPPED,
    read=_entries,
    rank=6,
)
LOOP_BOUNDS = replace(
    PARAMETERS,
    is_argument=lambda value: _is_table(value, is_whole),
    wanted="a mapping of labels or lines to whole numbers is wanted",
)


@dataclass(frozen=True, slots=True, eq=False)
class Words(Kind):
    """The kind of a few words."""

    words: tuple[str, ...] = ()


def words(*those: str, read: Callable[[Any, str], Any] = lambda value, folder: value) -> Words:
    """Returns the kind of these words."""
    wanted, held = f"one of {', '.join(those)} is wanted", " or ".join(map(repr, those))
    return Words(those.__contains__, wanted, those.__contains__, held, read=read, words=those)


# --- The table ------------------------------------------------------------------------------------

EVERY_PLAN = ("check", "sweep", "launch")
"""The plans of checks and of sweeps, and the files of launches one after the other."""


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table. ``name`` is that of the field.

    ``words`` are its names on the command line, then what ``--help`` calls its value where the type
    does not. ``plans`` are those whose tables have it as a key, called ``key``, and with ``at_top``
    also above them, for all tables. ``field`` is the field of a request, or of its GPU, that has
    its value; field and key are called as the option unless they are stated. ``launch_key`` is the
    key of a launch file, with unit and remedy for a wrong value.
    """

    kind: Kind
    words: str = ""
    help: str = ""
    plans: tuple[str, ...] = ()
    field: str = ""
    key: str = ""
    at_top: bool = False
    launch_key: str = ""
    launch_unit: str = ""
    launch_remedy: str | None = None
    default: Any = None
    name: str = ""

    @property
    def word(self) -> str:
        """Its long name on the command line, empty if it is none there."""
        return next((item for item in self.words.split() if item.startswith("--")), "")


class LaunchArguments(TypedDict, total=False):
    """Which kernel is meant, and how it is launched: see ``bound``."""

    block: Annotated[
        Dimensions | None,
        SIZE("--block", "Threads of a block: 256, 32x8, 8x8x4.  [default: .reqntid]", EVERY_PLAN),
    ]
    grid: Annotated[
        Dimensions | None, SIZE("--grid", "Blocks of the grid.  [default: any grid]", EVERY_PLAN)
    ]
    params: Annotated[
        Params | None,
        PARAMETERS(
            "--param NAME=VALUE",
            "Value of a scalar parameter, by index, PTX name or CUDA name; a range as 1..4096; "
            "of a pointer of what it is a multiple, as align:16, or how large its array is, which "
            "is set aside in the L2 cache, as bytes:65536; of a tensor map its box and the bytes "
            "of an element, as box:64x128:2.",
            EVERY_PLAN,
            field="parameters",
        ),
    ]
    kernel: Annotated[
        Names | None, NAMES("-k --kernel", "Only this kernel.  [default: all]", field="kernels")
    ]
    signature: Annotated[object, ANYTHING()]
    arch: Annotated[
        str | None,
        TEXT(
            "--arch sm_N",
            "FILE is CUDA source: compile it for sm_N; a binary: take its PTX for sm_N.",
            EVERY_PLAN,
            at_top=True,
        ),
    ]
    machine_code: Annotated[
        bool,
        TRUTH(
            "--machine-code",
            "Take the machine code: compile CUDA source or PTX to it, for --arch; of a binary "
            "take that which it holds.",
            EVERY_PLAN,
            at_top=True,
            default=False,
        ),
    ]
    nvcc_options: Annotated[
        Names,
        TEXTS(
            "--nvcc-options TEXT",
            "FILE is CUDA source: more options of nvcc, for example '-Iinclude -DN=4'.",
            EVERY_PLAN,
            at_top=True,
            default=(),
        ),
    ]
    launch: Annotated[
        File | None,
        LAUNCH_FILE(
            "--launch",
            "Launch file: says kernel, block, grid, parameters and constants.",
            EVERY_PLAN,
            field="launch_file",
        ),
    ]
    link: Annotated[
        Files,
        FILES(
            "--link",
            "PTX file that FILE is linked with (nvcc -rdc=true): has functions and variables that "
            "FILE declares .extern.",
            EVERY_PLAN,
            field="links",
            default=(),
        ),
    ]
    facts: Annotated[
        File | None,
        FILE(
            "--facts",
            "Facts file: loop bounds, branches and parameters (ptxwcet facts writes a template).",
            EVERY_PLAN,
            field="facts_file",
        ),
    ]
    loop_bounds: Annotated[
        LoopBounds | None,
        LOOP_BOUNDS(
            "--loop-bound PLACE=N",
            "Most body executions of a loop for each entry; PLACE is a label, or a line of the "
            "CUDA source (27, or kernel.cu:27 where several files have code in the kernel).",
            EVERY_PLAN,
        ),
    ]
    cuda_source: Annotated[
        File | None,
        FILE(
            "--source",
            "CUDA source that names the parameters.  [default: the .cu beside FILE]",
            EVERY_PLAN,
            field="source",
            key="source",
        ),
    ]


class PlaceArguments(LaunchArguments, total=False):
    """The same, and on which machine: see ``bound``."""

    machine: Annotated[
        File,
        MACHINE(
            "--machine",
            "Machine file: a name (ptxwcet machine) or a path.",
            default="orin-ecrts2025-memory",
        ),
    ]
    memory_latency: Annotated[
        int | None,
        CYCLES(
            "--mem-latency",
            "Global-memory latency in cycles.  [default: the machine's]",
            ("sweep",),
            field="memory_latency_cycles",
            at_top=True,
        ),
    ]


class MachineArguments(PlaceArguments, total=False):
    """The same, and what opcodes without a row are charged: see ``bound``."""

    on_unknown: Annotated[
        str,
        words(REFUSE, WORST, read=lambda value, folder: value == WORST)(
            "--on-unknown",
            "An opcode without a row: refuse, or charge the machine's slowest row.",
            field="unknown_at_worst",
            default=REFUSE,
        ),
    ]


class GridArguments(MachineArguments, total=False):
    """The same, and what is said of the GPU: see ``bound``."""

    sms: Annotated[
        int | None,
        whole(1, 1024)("--sms", "SMs of the GPU.  [default: the machine's]", ("check", "sweep")),
    ]
    registers: Annotated[
        int | str | None,
        REGISTERS(
            "--registers N|FILE|ptxas",
            "Registers of a thread: a number, what ptxas -v printed or a cubin, or ask the ptxas "
            "on the PATH.  [default: those of the launch file]",
            EVERY_PLAN,
            launch_key="registers_per_thread",
            launch_remedy="ptxas -v reports it",
        ),
    ]
    resident_blocks: Annotated[
        int | None,
        whole(1, 1024)(
            "--resident-blocks",
            "Blocks that an SM holds.  [default: computed from the machine's limits]",
            EVERY_PLAN,
        ),
    ]
    dynamic_shared: Annotated[
        int | None,
        whole(0, 1 << 20)(  # above any device
            "--dynamic-shared BYTES",
            "Shared memory that the launch gives a block beside the kernel's variables.  "
            "[default: that of the launch file]",
            EVERY_PLAN,
            launch_key="dynamic_shared_bytes",
            launch_unit=" of bytes",
        ),
    ]
    ptxas_info: Annotated[File | None, FILE(plans=EVERY_PLAN)]
    co_runner: Annotated[
        str | None,
        TEXT(
            "--co-runner BYTES,GB/S",
            "Others use the memory of the GPU beside the launch: at once and on average at most.",
        ),
    ]


class BoundArguments(GridArguments, total=False):
    """What a bound may be asked for with: see ``bound``."""

    policy: Annotated[str | None, TEXT("--policy", plans=("sweep",), at_top=True)]
    method: Annotated[str, TEXT("--method NAME", plans=("sweep",), at_top=True, default="safe")]
    executed: Annotated[bool, TRUTH("--executed", default=False)]


class OtherArguments(TypedDict, total=False):
    """Options that say nothing of a launch, which some functions and commands have."""

    seed: Annotated[
        int, whole(0, MOST_SEED, wanted="a whole number from 0 to 2**62 is wanted")("--seed N")
    ]
    jitter: Annotated[
        int,
        ANY_NUMBER(
            "--jitter PERCENT", "Shorten each initiation and latency at random by up to so much."
        ),
    ]
    max_instructions: Annotated[
        int,
        whole(1, MOST_SEED, wanted="a whole number from 1 is wanted")(
            "--max-instructions N",
            "Give up an execution after so many warp-instructions.",
            default=10**9,
        ),
    ]
    workers: Annotated[
        int | None, whole(1, 1024, wanted="a whole number from 1 to 1,024 is wanted")("--workers")
    ]
    cache: Annotated[File | None, KEPT_ANSWERS("--cache FOLDER")]
    resume: Annotated[bool, TRUTH("--resume")]
    at: Annotated[Names, PLACES("--at PLACE,...")]
    symbolic: Annotated[str | None, TEXT("--symbolic NAME=LEAST..MOST")]
    divergent: Annotated[str, TEXT("--divergent")]


class CommandOptions(TypedDict, total=False):
    """Options that several commands have, and no function of Python."""

    budget: Annotated[
        int | str | None,
        BUDGET(
            "--budget [OF:]TIME",
            "Fail if a bound exceeds so many cycles, or a time: 2000us, block:2ms, kernel:9000.  "
            "[default: of the kernel with a grid, else of a block]",
            ("check",),
        ),
    ]
    require: Annotated[
        str | None,
        words("safe-bound", "estimate")(
            "--require",
            "Fail if a bound has a weaker guarantee.  [default: safe-bound with --budget, else "
            "estimate]",
            ("check",),
            at_top=True,
        ),
    ]
    form: Annotated[str, ANYTHING("--format")]
    report_file: Annotated[
        File, OUTPUT("-o --output PATH", "Write the report to a file.  [default: standard output]")
    ]
    output: Annotated[File, OUTPUT("-o --output PATH")]
    folder: Annotated[File, OUTPUT("-o --output PATH")]
    runs: Annotated[int, whole(1, 100_000)("--runs N")]
    cases: Annotated[int, whole(1, 10**9)("--cases N")]
    inputs: Annotated[int, whole(1)("--inputs")]
    events: Annotated[int, whole(1, 2**31)("--events N")]
    launch_gap: Annotated[int, whole(0, 10**9)("--launch-gap CYCLES")]
    picture: Annotated[File, OUTPUT("--picture PATH")]
    probabilities: Annotated[Sequence[float], FLOATS("--probability P")]
    save: Annotated[File, OUTPUT("--save PATH")]
    seconds: Annotated[float, FLOAT("--timeout SECONDS")]


OPTIONS: dict[str, Option] = {
    name: replace(row, name=name, key=row.key or name, field=row.field or name)
    for arguments in (BoundArguments, OtherArguments, CommandOptions)
    for name, hint in arguments.__annotations__.items()
    for row in hint.__metadata__
}
"""The options by name, in the order of the fields."""


def options_of_plan(plan: str) -> list[Option]:
    """Returns the options that tables of a plan may have: those of every plan come first, sizes
    before files, files before numbers.
    """
    own = (item for item in OPTIONS.values() if plan in item.plans)
    return sorted(own, key=lambda item: (item.plans != EVERY_PLAN, item.kind.rank))
