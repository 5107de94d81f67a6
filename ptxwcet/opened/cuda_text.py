"""The CUDA source of a request, and its names of the parameters of a kernel."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptxwcet.flow.facts.cuda_loops import CudaSource, parameter_names
from ptxwcet.flow.facts.placing import main_file
from ptxwcet.flow.values.accesses import OF_CONSTANT, field_name, fields_of
from ptxwcet.ir.kernel import Kernel, UnreadKernel
from ptxwcet.opened.front_ends import read_source
from ptxwcet.opened.request import SOURCE, Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, Severity
from ptxwcet.support.input_files import MOST_TEXT_BYTES, is_supplied, read_text
from ptxwcet.support.source import SourceFile, Span

if TYPE_CHECKING:
    from ptxwcet.flow.facts.cuda_structs import Members
    from ptxwcet.flow.facts.debug_names import DebugParameter

_LOGGER = logging.getLogger(__name__)


def cuda_parameter_names(kernel: Kernel, request: Request) -> tuple[str, ...] | None:
    """Returns names from the given CUDA source, from the one in the file's folder, from the one
    that the kernel's lines name, or from the request.

    Without one that fits, ``param_3`` for those that begin with the kernel's mangled name; else
    None.
    """
    told = _debug_names(kernel, request)
    if told is not None:
        return tuple(one.name for one in told)
    said = dict(request.parameter_names).get(kernel.name)
    if said is not None and request.source is None:
        own = tuple(parameter.name for parameter in kernel.parameters)
        return (*said, *own[len(said) :]) if len(said) <= len(own) else None
    source = cuda_source(request)
    text = _source_of_lines(kernel) if source is None else source.text
    names = None if text is None else parameter_names(text, kernel.name)
    if names is not None and len(names) == len(kernel.parameters):
        return names
    if kernel.readable == kernel.name or not kernel.parameters:
        return None
    return tuple(parameter.name.removeprefix(f"{kernel.name}_") for parameter in kernel.parameters)


def cuda_names(kernel: Kernel, request: Request) -> dict[str, str]:
    """Returns the CUDA names of parameters, by PTX name, and of members of structs, by the name of
    their word; without a source as :func:`cuda_parameter_names`.
    """
    names = cuda_parameter_names(kernel, request)
    own = [parameter.name for parameter in kernel.parameters]
    called = {} if names is None else dict(zip(own, names, strict=True))
    fields = fields_of(kernel)
    told, text = _debug_names(kernel, request), None
    members: Mapping[int, Members] = dict(enumerate(one.members for one in told or ()))
    if told is None and own and kernel.name not in dict(request.parameter_names):
        source = cuda_source(request)
        text = _source_of_lines(kernel) if source is None else source.text
    sizes, lost = [parameter.size_bytes for parameter in kernel.parameters], set[str]()
    if text is not None and any(field.index != OF_CONSTANT for field in fields.values()):
        # imported here: only kernels with a struct parameter need it
        from ptxwcet.flow.facts.cuda_structs import members_of_parameters

        members = members_of_parameters(text, kernel.name, sizes)
    for name, word in fields.items():
        whole, _, offset = name.partition("+")
        member, size = members.get(word.index, {}).get(int(offset), ("", 0))
        if size == word.size_bytes:
            called[name] = called[whole] + member
        elif word.index == OF_CONSTANT and name == field_name(whole, 0):
            called[name] = whole
        elif word.index != OF_CONSTANT:
            lost.add(called.get(whole, whole))
    if text is not None and len(parameter_names(text, kernel.name) or ()) != len(own):
        _LOGGER.warning("%s", _lost(kernel, "its parameters").render())
    elif text is not None and lost:
        _LOGGER.warning("%s", _lost(kernel, f"members of {', '.join(sorted(lost))}").render())
    return called


def _lost(kernel: Kernel, lost: str) -> Diagnostic:
    """Returns the warning that a source does not reveal the names of a kernel's parameters."""
    return Diagnostic(
        "PW226",
        f"kernel {kernel.readable}: the source does not tell the names of {lost} as it is written",
        kernel.span,
        notes=("of macros, templates, aliases, enumerations and bases only the compiler knows",),
        help="give the CUDA source itself (--arch sm_86): nvcc is asked for them then; or name "
        "parameters by index, and members by their offsets",
        severity=Severity.WARNING,
    )


def _debug_names(kernel: Kernel, request: Request) -> tuple[DebugParameter, ...] | None:
    """Returns the parameters from debug information in the kernel's file, unless a source is named;
    None if they differ from the kernel's.
    """
    if request.source is not None or kernel.span is None:
        return None
    if ".debug_info" not in kernel.span.source.text:
        return None
    # imported here: only files with debug information need it
    from ptxwcet.flow.facts.debug_names import debug_names

    told = debug_names(kernel.span.source.text).get(kernel.name, ())
    sizes = [parameter.size_bytes for parameter in kernel.parameters]
    return told if sizes and [one.size for one in told] == sizes else None


def _source_of_lines(kernel: Kernel) -> str | None:
    """Returns the file of the kernel's lines, if it is below the working directory."""
    if isinstance(kernel, UnreadKernel) or (file := main_file(kernel)) is None:
        return None
    path = Path(file)
    if not path.is_absolute():
        return None
    # A spelling of its own, because another input of this path may be supplied.
    name = os.path.join(path.parent, os.curdir, path.name)
    is_here = is_supplied(name)
    if is_here is None:
        is_here = Path.cwd() in path.resolve().parents
    if not is_here:
        return None
    try:
        return read_text(name, MOST_TEXT_BYTES, "replace")
    except (OSError, ValueError):
        return None


def cuda_source(request: Request) -> CudaSource | None:
    """Returns the given CUDA source, or the one in the file's folder, if there is one.

    Raises PtxwcetError (PW213) for a given source that cannot be read.
    """
    path = Path(request.source or Path(request.path).with_suffix(".cu"))
    try:
        return CudaSource(path.name, read_text(path, MOST_TEXT_BYTES, "replace"))
    except OSError as error:
        if request.source is None:
            return None
        raise PtxwcetError(
            Diagnostic("PW213", f"cannot read --source '{path}': {error.strerror}")
        ) from None


def cuda_place(path: str, line: int, column: int) -> tuple[str, int, int] | None:
    """Returns the place in available CUDA source from which a place in PTX was made; else None."""
    if Path(path).suffix.lower() != ".ptx":
        return None
    beside = str(Path(path).with_suffix(SOURCE))
    try:
        ptx = read_source(path)
        begin = ptx.line_starts()[line - 1] + column - 1
        text = read_text(beside, MOST_TEXT_BYTES, "replace") if os.path.isfile(beside) else ""
    except (OSError, ValueError, IndexError, PtxwcetError):  # the file has changed since
        return None
    made = replace(ptx, made_of=SourceFile(beside, text))
    written = Span(made, begin, begin + 1).written
    if written is None or not os.path.isfile(written.source.name):
        return None
    return written.source.name, written.line, written.column
