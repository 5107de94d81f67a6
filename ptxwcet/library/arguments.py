"""Arguments of the functions of ``import ptxwcet``: none is swallowed, none of another type taken.

>>> import ptxwcet
>>> ptxwcet.bound("samples/saxpy.ptx", block=256, machin="titan-v")
Traceback (most recent call last):
TypeError: bound() has no argument 'machin': did you mean machine?
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypedDict, TypeVar, get_args, get_type_hints

from ptxwcet.bounds.methods import SAFE_NAME, names_to_report
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.support.toml_places import nearest

REFUSE, WORST = "refuse", "worst"
"""What becomes of an opcode without a row: ``on_unknown``."""

Dimensions = int | Sequence[int] | str
"""Threads of a block or blocks of a grid: ``256``, ``(32, 8)`` or ``"32x8"``."""
Parameter = int | float | str | range
"""A scalar parameter: a number, or all integers of a range."""
File = str | os.PathLike[str]
Files = File | Sequence[File]
"""A file, or several."""


class LaunchArguments(TypedDict, total=False):
    """Which kernel is meant, how it is launched, on which machine: see ``bound``."""

    block: Dimensions | None
    grid: Dimensions | None
    params: Mapping[str | int, Parameter] | None
    kernel: str | None
    signature: object
    arch: str | None
    machine_code: bool
    launch: File | None
    link: Files
    facts: File | None
    loop_bounds: Mapping[str | int, int] | None
    cuda_source: File | None
    machine: File
    memory_latency: int | None
    on_unknown: str


class BoundArguments(LaunchArguments, total=False):
    """What a bound may be asked for with: see ``bound``."""

    sms: int | None
    registers: int | None
    resident_blocks: int | None
    dynamic_shared: int | None
    ptxas_info: File | None
    co_runner: str | None
    policy: str | None
    method: str


_DEFAULTS = {
    "link": (),
    "machine": DEFAULT_MACHINE,
    "machine_code": False,
    "on_unknown": REFUSE,
    "method": SAFE_NAME,
}
"""Of the arguments above; the others are None if they are left out."""
_MOST_WORKERS = 1024
_MOST_SEED = 2**62

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def checked(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The function, which raises TypeError for arguments that it does not know or cannot take.

    Cost: constant, and linear in tables.
    """
    signature = _signature(function)
    name = getattr(function, "__name__", "")

    @wraps(function)
    def call(*positional: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        for key in named:
            if key not in signature.parameters:
                known = [one for one in signature.parameters if one != "source"]
                hint = nearest(key, known).strip() or f"known: {', '.join(known)}"
                raise TypeError(f"{name}() has no argument {key!r}: {hint}")
        for key, value in signature.bind(*positional, **named).arguments.items():
            default = signature.parameters[key].default
            expected = _expected(name, key, value)
            if expected and not (value is None and default is None):
                raise TypeError(f"{name}(): {key}={value!r:.80} is none: {expected}")
        return function(*positional, **named)

    call.__signature__ = signature  # type: ignore[attr-defined]  # with what **given stands for
    return call


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """The signature of a function, with the arguments of a TypedDict in the place of **given."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters[-1].kind is not inspect.Parameter.VAR_KEYWORD:
        return signature
    (model,) = get_args(get_type_hints(function)[parameters.pop().name])
    for key, kind in model.__annotations__.items():
        shown = kind.__forward_arg__
        default = _DEFAULTS.get(key)
        parameters.append(
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown
            )
        )
    return signature.replace(parameters=parameters)


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


def _is_size(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return 1 <= len(value) <= 3 and all(map(_is_whole, value))
    return _is_text(value) or _is_whole(value)


def _is_name(value: object) -> bool:
    return (_is_text(value) and "=" not in str(value)) or _is_whole(value)


def _is_parameter(value: object) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number or _is_text(value) or isinstance(value, range)


def _is_table(values: object, is_value: Callable[[object], bool]) -> bool:
    is_table = isinstance(values, Mapping)
    return is_table and all(map(_is_name, values)) and all(map(is_value, values.values()))  # type: ignore[attr-defined,call-overload]


def _one_of(*names: str) -> tuple[Callable[[object], bool], str]:
    return names.__contains__, f"one of {', '.join(names)} is wanted"


_SIZE = (_is_size, "a number, up to three numbers or a text as '32x8' are wanted")
_FILE = (_is_file, "the path of a file is wanted")
_TEXT = (_is_text, "a text is wanted")
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
    **dict.fromkeys(("kernel", "arch", "co_runner", "policy", "scheduler"), _TEXT),
    **dict.fromkeys(("source", "launch", "facts", "cuda_source", "ptxas_info", "machine"), _FILE),
    **dict.fromkeys(("plan", "cache", "output"), _FILE),
    "link": (_are_files, "the path of a file, or a list of them, is wanted"),
    **dict.fromkeys(("memory_latency", "sms", "registers", "resident_blocks"), _WHOLE),
    "dynamic_shared": _WHOLE,
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
    **dict.fromkeys(("resume", "machine_code"), _TRUTH),
}
