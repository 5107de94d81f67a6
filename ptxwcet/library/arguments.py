"""Checks of the arguments of ``import ptxwcet``: unknown names and wrong types are errors.

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
from typing import Any, ParamSpec, TypeVar, Unpack, get_args, get_type_hints

from ptxwcet.bounds.methods import names_to_report
from ptxwcet.library.hints import said_in_python
from ptxwcet.library.sources import ptx_of
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.nvcc import Compilation
from ptxwcet.opened.request import Request
from ptxwcet.opened.request import request_of as request_of_options
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all
from ptxwcet.support.options import (
    ANYTHING,
    FILE,
    OPTIONS,
    TEXT,
    TRUTH,
    BoundArguments,
    Kind,
    is_number,
    is_text,
    is_whole,
    names_of,
)
from ptxwcet.support.toml_places import nearest

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

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def checked(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Wraps a function so that it raises TypeError for unknown or ill-typed arguments.

    The diagnostics of a PtxwcetError name arguments, and are printed below the traceback. Cost:
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
                names = [parameter for parameter in signature.parameters if parameter != "source"]
                hint = nearest(key, names).strip() or f"known: {', '.join(names)}"
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
            error.__traceback__ = None  # the reasons concern the input, not these lines
            raise

    call.__signature__ = signature  # type: ignore[attr-defined]  # without **given
    return call


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """Returns the signature of a function, with a TypedDict's arguments in place of ``**given``."""
    signature = inspect.signature(function)
    names = function.__globals__
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(annotation=_evaluated(parameter.annotation, names)))
            continue
        (model,) = get_args(_evaluated(parameter.annotation, names))
        parameters += [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, default=OPTIONS[key].default, annotation=kind
            )
            for key, kind in get_type_hints(model).items()
        ]
    result = _evaluated(signature.return_annotation, names)
    return signature.replace(parameters=parameters, return_annotation=result)


def _evaluated(annotation: str, names: dict[str, Any]) -> Any:
    """Returns a type for ``help``; its text if its package is not imported yet."""
    try:
        return eval(annotation, names)
    except NameError:
        return annotation


def _expected(function: str, key: str, value: Any) -> str | None:
    """Returns the text of the required value of an argument; None if the value is valid."""
    if key == "source" and function != "run":
        return None  # ptx_of reports sources without PTX
    kind = _KINDS[key] if key in _KINDS else OPTIONS[key].kind
    return None if kind.is_argument(value) else kind.wanted


def _are_changes(values: object) -> bool:
    is_table = isinstance(values, Mapping) and bool(values) and all(map(is_text, values))
    return is_table and all(
        is_whole(value) or is_text(value) or isinstance(value, range)
        for value in values.values()  # type: ignore[attr-defined]
    )


_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("code", "old", "new"), ANYTHING),
    "scheduler": TEXT,
    **dict.fromkeys(("source", "plan", "output"), FILE),
    "changes": Kind(
        _are_changes,
        "a mapping of figures to numbers or ranges, as {'memory.latency': 300}, is wanted",
    ),
    "threshold": Kind(
        lambda value: is_number(value) and value >= 0, "a number of per cent is wanted"
    ),
    "method": Kind(
        lambda value: value in names_to_report(),
        "a method is wanted: safe, scheduled, or another package's",
    ),
    **dict.fromkeys(("ptx", "simulate"), TRUTH),
}
"""The kinds of arguments that are no options, and of those that other packages may extend."""


# --- Requests from the arguments of functions, as commands make them of their options -------------


def request_of(source: object, **given: Unpack[BoundArguments]) -> Request:
    """Returns the request for ``source`` and the given launch.

    Raises PtxwcetError; TypeError for arguments that do not apply to this source.
    """
    signature, arch, links = given.get("signature"), given.get("arch"), given.get("link")
    if signature is not None and not hasattr(source, "inspect_asm"):
        raise TypeError("signature= is of a dispatcher of Numba: this source has none")
    options = given.get("nvcc_options", ())
    words = shlex.split(options) if isinstance(options, str) else options
    asked = names_of(given.get("kernel") or ())
    compilation = Compilation(arch, tuple(words), is_linked=bool(links))
    is_code = given.get("machine_code", False)
    machine = os.fspath(given.get("machine", DEFAULT_MACHINE))
    carried = ptx_of(source, signature, compilation, asked, is_code=is_code, machine=machine)
    return request_of_options(
        carried.path,
        {**given, "kernel": asked or carried.kernel},
        registers_source="registers=",
        text=carried.text,
        parameter_names=carried.parameter_names,
        how=carried.how,
        is_code=is_code and carried.text is not None,
    )


def said(path: str, **given: object) -> str:
    """Returns the arguments of a call as text; objects by their names."""
    words = [repr(path)]
    words += [f"{key}={value!r:.200}" for key, value in given.items() if value is not None]
    return ", ".join(words)


def require_one(path: str, kernels: Sequence[str]) -> None:
    """Raises PtxwcetError (PW208) if one kernel is meant and there are several."""
    if len(kernels) != 1:
        message = f"{path} has {len(kernels)} kernels: {', '.join(kernels)}"
        raise PtxwcetError(Diagnostic("PW208", message, help="say which one: kernel=NAME"))
