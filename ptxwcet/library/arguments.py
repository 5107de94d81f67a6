"""Arguments of the functions of ``import ptxwcet``: none is swallowed, none of another type taken.

>>> import ptxwcet
>>> ptxwcet.bound("samples/saxpy.ptx", block=256, machin="titan-v")
Traceback (most recent call last):
TypeError: bound() has no argument 'machin': did you mean machine?
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, get_args, get_type_hints

from ptxwcet.bounds.methods import SAFE_NAME, names_to_report
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.library.hints import said_in_python
from ptxwcet.library.sources import ptx_of
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.nvcc import Compilation
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all
from ptxwcet.support.toml_places import nearest

REFUSE, WORST = "refuse", "worst"
"""What becomes of an opcode without a row: ``on_unknown``."""
ASK_PTXAS = "ptxas"
"""Who is asked for the ``registers`` of a thread."""

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


class LaunchArguments(TypedDict, total=False):
    """Which kernel is meant, and how it is launched: see ``bound``."""

    block: Dimensions | None
    grid: Dimensions | None
    params: Params | None
    kernel: Names | None
    signature: object
    arch: str | None
    machine_code: bool
    nvcc_options: Names
    launch: File | None
    link: Files
    facts: File | None
    loop_bounds: LoopBounds | None
    cuda_source: File | None


class PlaceArguments(LaunchArguments, total=False):
    """The same, and on which machine: see ``bound``."""

    machine: File
    memory_latency: int | None


class MachineArguments(PlaceArguments, total=False):
    """The same, and what opcodes without a row are charged: see ``bound``."""

    on_unknown: str


class GridArguments(MachineArguments, total=False):
    """The same, and what is said of the GPU: see ``bound``."""

    sms: int | None
    registers: int | str | None
    resident_blocks: int | None
    dynamic_shared: int | None
    ptxas_info: File | None
    co_runner: str | None


class BoundArguments(GridArguments, total=False):
    """What a bound may be asked for with: see ``bound``."""

    policy: str | None
    method: str
    executed: bool


_DEFAULTS = {
    **dict.fromkeys(("link", "nvcc_options"), ()),
    "machine": DEFAULT_MACHINE,
    "machine_code": False,
    "on_unknown": REFUSE,
    "method": SAFE_NAME,
    "executed": False,
}
"""Of the arguments above; the others are None if they are left out."""
_LEFT_OUT = {
    "cfg": "a graph has no bound, and opcodes without a row are drawn without costs",
    "facts": "the questions are about paths, which do not depend on it",
    "memory": "what accesses take of memory does not depend on it",
    "simulate": "one block is run, alone on an SM of the machine",
    "run": "the launch file states the launch, and execution knows no machine",
    "explain": "an explanation is of no kernel",
    **dict.fromkeys(("check", "sweep"), "the plan states it"),
}
"""Why functions do not take arguments that ``bound`` takes."""
_OF_SAFE = "it is about the method safe, of all schedules and paths"
_MOST_WORKERS = 1024
_MOST_SEED = 2**62

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def checked(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The function, which raises TypeError for arguments that it does not know or cannot take.

    The diagnostics of a PtxwcetError speak of arguments, and stand below the traceback. Cost:
    constant, and linear in tables.
    """
    signature = _signature(function)
    name = getattr(function, "__name__", "")

    @wraps(function)
    def call(*positional: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        __tracebackhide__ = True  # in notebooks
        for key in named:
            if key not in signature.parameters:
                if key in get_type_hints(BoundArguments):
                    raise TypeError(f"{name}() takes no {key}=: {_LEFT_OUT.get(name, _OF_SAFE)}")
                known = [one for one in signature.parameters if one != "source"]
                hint = nearest(key, known).strip() or f"known: {', '.join(known)}"
                raise TypeError(f"{name}() has no argument {key!r}: {hint}")
        try:
            given = signature.bind(*positional, **named).arguments
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        for key, value in given.items():
            default = signature.parameters[key].default
            expected = _expected(name, key, value)
            if expected and not (value is None and default is None):
                raise TypeError(f"{name}(): {key}={value!r:.80} is none: {expected}")
        try:
            return function(*positional, **named)
        except PtxwcetError as error:
            error.diagnostics = said_in_python(error.diagnostics)
            error.args = (error.diagnostics[0].message,)
            if not hasattr(error, "__notes__"):
                error.add_note(render_all(error.diagnostics))
            error.__traceback__ = None  # the reasons are of the input, not of these lines
            raise

    call.__signature__ = signature  # type: ignore[attr-defined]  # with what **given stands for
    return call


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """The signature of a function, with the arguments of a TypedDict in the place of **given."""
    signature = inspect.signature(function)
    names = function.__globals__
    parameters = []
    for one in signature.parameters.values():
        if one.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(one.replace(annotation=_evaluated(one.annotation, names)))
            continue
        (model,) = get_args(_evaluated(one.annotation, names))
        parameters += [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(key), annotation=kind
            )
            for key, kind in get_type_hints(model).items()
        ]
    result = _evaluated(signature.return_annotation, names)
    return signature.replace(parameters=parameters, return_annotation=result)


def _evaluated(annotation: str, names: dict[str, Any]) -> Any:
    """A type for people who ask for help; as it is written if its package is not imported yet."""
    try:
        return eval(annotation, names)
    except NameError:
        return annotation


def _expected(function: str, key: str, value: Any) -> str | None:
    """What an argument has to be; None if it is."""
    if key == "source" and function != "run":
        return None  # ptx_of says what carries no PTX
    is_good, what = _KINDS.get(key, (_is_any, ""))
    return None if is_good(value) else what


def _is_any(value: object) -> bool:
    return True


def _is_whole(value: object, least: int | None = None, most: int = 0) -> bool:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    return is_whole and (least is None or least <= int(value) <= most)  # type: ignore[call-overload]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_file(value: object) -> bool:
    return _is_text(value) or isinstance(value, os.PathLike)


def _are_files(value: object) -> bool:
    return _is_file(value) or (isinstance(value, list | tuple) and all(map(_is_file, value)))


def _are_texts(value: object) -> bool:
    return _is_text(value) or (isinstance(value, list | tuple) and all(map(_is_text, value)))


def _are_changes(values: object) -> bool:
    is_table = isinstance(values, Mapping) and bool(values) and all(map(_is_text, values))
    return is_table and all(
        _is_whole(one) or _is_text(one) or isinstance(one, range)
        for one in values.values()  # type: ignore[attr-defined]
    )


def _is_size(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return 1 <= len(value) <= 3 and all(map(_is_whole, value))
    return _is_text(value) or _is_whole(value)


def _is_name(value: object) -> bool:
    return (_is_text(value) and "=" not in str(value)) or _is_whole(value)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_parameter(value: object) -> bool:
    return _is_number(value) or _is_text(value) or isinstance(value, range)


def _is_table(values: object, is_value: Callable[[object], bool]) -> bool:
    is_table = isinstance(values, Mapping)
    return is_table and all(map(_is_name, values)) and all(map(is_value, values.values()))  # type: ignore[attr-defined,call-overload]


def _one_of(*names: str) -> tuple[Callable[[object], bool], str]:
    return names.__contains__, f"one of {', '.join(names)} is wanted"


_SIZE = (_is_size, "a number, up to three numbers or a text as '32x8' are wanted")
_FILE = (_is_file, "the path of a file is wanted")
_TEXT = (_is_text, "a text is wanted")
_TEXTS = (_are_texts, "a text, or a list of them, is wanted")
_WHOLE = (_is_whole, "a whole number is wanted")
_TRUTH = (lambda value: isinstance(value, bool), "True or False is wanted")

_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("block", "grid"), _SIZE),
    "params": (
        lambda value: _is_table(value, _is_parameter),
        "a mapping of names or places to numbers, texts or ranges is wanted",
    ),
    "loop_bounds": (
        lambda value: _is_table(value, _is_whole),
        "a mapping of labels or lines to whole numbers is wanted",
    ),
    **dict.fromkeys(("arch", "co_runner", "policy", "scheduler", "symbolic"), _TEXT),
    **dict.fromkeys(("at", "kernel", "nvcc_options"), _TEXTS),
    **dict.fromkeys(("source", "launch", "facts", "cuda_source", "ptxas_info", "machine"), _FILE),
    **dict.fromkeys(("plan", "cache", "output"), _FILE),
    "link": (_are_files, "the path of a file, or a list of them, is wanted"),
    **dict.fromkeys(("memory_latency", "sms", "resident_blocks", "dynamic_shared"), _WHOLE),
    "registers": (
        lambda value: _is_whole(value) or value == ASK_PTXAS,
        f"a whole number, or {ASK_PTXAS!r} to ask it, is wanted",
    ),
    "changes": (
        _are_changes,
        "a mapping of figures to numbers or ranges, as {'memory.latency': 300}, is wanted",
    ),
    "threshold": (
        lambda value: _is_number(value) and value >= 0,
        "a number of per cent is wanted",
    ),
    "on_unknown": _one_of(REFUSE, WORST),
    "method": (
        lambda value: value in names_to_report(),
        "a method is wanted: safe, scheduled, or another package's",
    ),
    "seed": (
        lambda value: _is_whole(value, 0, _MOST_SEED),
        "a whole number from 0 to 2**62 is wanted",
    ),
    "workers": (
        lambda value: _is_whole(value, 1, _MOST_WORKERS),
        f"a whole number from 1 to {_MOST_WORKERS:,} is wanted",
    ),
    "jitter": _WHOLE,
    "max_instructions": (
        lambda value: _is_whole(value, 1, _MOST_SEED),
        "a whole number from 1 is wanted",
    ),
    **dict.fromkeys(("resume", "executed", "machine_code", "ptx", "simulate"), _TRUTH),
}


# --- What the arguments of functions ask for, as the requests that commands make of their options -


def request_of(source: object, **given: Unpack[BoundArguments]) -> Request:
    """The request of ``source`` and what is said of its launch.

    Raises PtxwcetError; TypeError for what says nothing of this source.
    """
    signature, arch, links = given.get("signature"), given.get("arch"), paths_of(given.get("link"))
    if signature is not None and not hasattr(source, "inspect_asm"):
        raise TypeError("signature= is of a dispatcher of Numba: this source has none")
    options = given.get("nvcc_options", ())
    words = shlex.split(options) if isinstance(options, str) else options
    asked = _names(given.get("kernel"))
    compilation = Compilation(arch, tuple(words), is_linked=bool(links))
    is_code = given.get("machine_code", False)
    machine = os.fspath(given.get("machine", DEFAULT_MACHINE))
    carried = ptx_of(source, signature, compilation, asked, is_code=is_code, machine=machine)
    registers = given.get("registers")
    return Request(
        carried.path,
        asked or (() if carried.kernel is None else (carried.kernel,)),
        _dimensions(given.get("block")),
        _dimensions(given.get("grid")),
        tuple(f"{key}={shown(one)}" for key, one in (given.get("params") or {}).items()),
        source=path_of(given.get("cuda_source")),
        loop_bounds=tuple(f"{at}={most}" for at, most in (given.get("loop_bounds") or {}).items()),
        machine=machine,
        memory_latency_cycles=given.get("memory_latency"),
        unknown_at_worst=given.get("on_unknown") == WORST,
        policy=given.get("policy"),
        method=given.get("method", SAFE_NAME),
        launch_file=path_of(given.get("launch")),
        facts_file=path_of(given.get("facts")),
        text=carried.text,
        gpu=GridWishes(
            given.get("sms"),
            given.get("resident_blocks"),
            None if registers is None or registers == ASK_PTXAS else int(registers),
            registers_source="registers=",
            co_runner=given.get("co_runner"),
            dynamic_shared=given.get("dynamic_shared"),
        ),
        ptxas_info=path_of(given.get("ptxas_info")),
        asks_ptxas=registers == ASK_PTXAS,
        links=links,
        parameter_names=carried.parameter_names,
        how=carried.how,
        is_code=is_code and carried.text is not None,
    )


def said(path: str, **given: object) -> str:
    """The arguments of a call, as they are written; of objects their names."""
    words = [repr(path)]
    words += [f"{key}={value!r:.200}" for key, value in given.items() if value is not None]
    return ", ".join(words)


def paths_of(files: Files | None) -> tuple[str, ...]:
    """The paths of one file or several."""
    if files is None or isinstance(files, str | os.PathLike):
        return () if files is None else (os.fspath(files),)
    return tuple(os.fspath(file) for file in files)


def path_of(file: File | None) -> str | None:
    """The path of a file, if one is given."""
    return None if file is None else os.fspath(file)


def shown(value: Parameter) -> str:
    """A value as an option says it. Raises PtxwcetError (PW213) for a range that is none."""
    if not isinstance(value, range):
        return str(value)
    if value.step != 1 or not value:
        message = f"{value} is no range of integers one after the other"
        raise PtxwcetError(Diagnostic("PW213", message, help="give range(least, most + 1)"))
    return f"{value[0]}..{value[-1]}"


def require_one(path: str, kernels: Sequence[str]) -> None:
    """Raises PtxwcetError (PW208) if one kernel is meant and there are several."""
    if len(kernels) != 1:
        message = f"{path} has {len(kernels)} kernels: {', '.join(kernels)}"
        raise PtxwcetError(Diagnostic("PW208", message, help="say which one: kernel=NAME"))


def _names(names: Names | None) -> tuple[str, ...]:
    if names is None or isinstance(names, str):
        return () if names is None else (names,)
    return tuple(names)


def _dimensions(size: Dimensions | None) -> str | None:
    if size is None or isinstance(size, str):
        return size
    return "x".join(map(str, size)) if isinstance(size, Sequence) else str(size)
