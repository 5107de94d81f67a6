"""What the arguments of functions ask for, as the requests that commands make of their options."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Unpack

from ptxwcet.bounds.methods import SAFE_NAME
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.library.arguments import (
    ASK_PTXAS,
    WORST,
    BoundArguments,
    Dimensions,
    File,
    Files,
    Names,
    Parameter,
)
from ptxwcet.library.sources import ptx_of
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.nvcc import Compilation
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


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
    carried = ptx_of(source, signature, compilation, asked, is_code=is_code)
    registers = given.get("registers")
    return Request(
        carried.path,
        asked or (() if carried.kernel is None else (carried.kernel,)),
        _dimensions(given.get("block")),
        _dimensions(given.get("grid")),
        tuple(f"{key}={shown(one)}" for key, one in (given.get("params") or {}).items()),
        source=path_of(given.get("cuda_source")),
        loop_bounds=tuple(f"{at}={most}" for at, most in (given.get("loop_bounds") or {}).items()),
        machine=os.fspath(given.get("machine", DEFAULT_MACHINE)),
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
