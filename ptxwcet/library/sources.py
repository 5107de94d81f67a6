"""What carries PTX: files, text, and the compiled kernels of Numba, Triton and CuPy.

Objects are known by what they have, so that none of those packages is imported here.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptxwcet.flow.facts.cuda_loops import parameter_names
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.opened.machine_code import machine_code
from ptxwcet.opened.nvcc import Compilation, compiled_ptx, ptx_text
from ptxwcet.opened.request import KernelNames, needs_tool
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_CAPABILITY = (8, 0)
_LONGEST = 300
_ENTRY = re.compile(r"^[^/\n]*\.entry\s+([\w$%.]+)\s*\(([^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]\d+)\s")
_HIDDEN = 2  # pointers to scratch memory, which Triton puts behind a kernel's own parameters


@dataclass(frozen=True, slots=True)
class PtxSource:
    """PTX under a name: the path of a file if ``text`` is None. ``kernel`` is the one meant.

    ``parameter_names`` are those of the language that the source is written in, where the object
    knows them.
    """

    path: str
    text: str | None = None
    kernel: str | None = None
    parameter_names: KernelNames = ()


_PLAIN = Compilation()


def ptx_of(
    source: object,
    signature: object = None,
    compilation: Compilation = _PLAIN,
    kernels: Sequence[str] = (),
    *,
    is_code: bool = False,
) -> PtxSource:
    """The PTX that an object is or carries; with ``is_code`` the listing of its machine code.

    A path; text of PTX, which has a line that begins with ``.version``; a compiled kernel of Triton
    (``asm``); a dispatcher of Numba (``inspect_asm``), which is compiled for sm_80 if it was not
    compiled for its ``signature`` yet; a ``RawKernel`` or ``RawModule`` of CuPy, whose CUDA source
    nvcc compiles; anything with PTX as its attribute ``ptx``. ``compilation`` says how CUDA source
    becomes PTX, and with the ``kernels`` which PTX of a binary is meant. Raises PtxwcetError: PW119
    for what carries none, PW120 for source that is not compiled, PW121 for a binary; TypeError for
    a ``compilation`` where nothing is compiled.
    """
    carried = _carried(source, signature, compilation)
    is_file = carried.text is None and needs_tool(carried.path)
    is_cuda = Path(carried.path).suffix.lower() == ".cu" if is_file else _is_cuda(source)
    if compilation.options and not is_cuda:
        raise TypeError("nvcc_options= is for CUDA source: this is compiled already")
    if compilation.architecture is not None and not (is_cuda or is_file or is_code):
        raise TypeError("arch= is for CUDA source and binaries: PTX is compiled already")
    if is_code and (carried.text is not None or not is_no_ptx(carried.path)):
        text = machine_code(carried.path, compilation, kernels, carried.text)
        return replace(carried, text=text)
    if not is_file:
        return carried
    return PtxSource(carried.path, ptx_text(carried.path, compilation, kernels))


def _is_cuda(source: object) -> bool:
    code = getattr(source, "code", None)
    return isinstance(code, str) and not _is_ptx(code)


def _carried(source: object, signature: object, compilation: Compilation) -> PtxSource:
    """The PTX that an object carries; of a path what lies there is not looked at."""
    match source:
        case os.PathLike():
            return PtxSource(os.fspath(source))
        case bytes():
            return PtxSource("<ptx>", source.decode("utf-8", "replace"))
        case str() if _is_ptx(source):
            return PtxSource("<ptx>", source)
        case str():
            return PtxSource(source)
    name = _name_of(source)
    asm = getattr(source, "asm", None)
    if isinstance(asm, Mapping) and isinstance(asm.get("ptx"), str):
        return PtxSource(f"<{name}>", asm["ptx"], None, _of_triton(source, asm["ptx"]))
    if callable(getattr(source, "inspect_asm", None)):
        return PtxSource(f"<{name}>", _of_dispatcher(source, name, signature))
    text = getattr(source, "ptx", None)
    if isinstance(text, (str, bytes)):
        return PtxSource(f"<{name}>", text if isinstance(text, str) else text.decode())
    path, code = getattr(source, "file_path", None), getattr(source, "code", None)
    if isinstance(path, str):
        return PtxSource(path)
    if isinstance(code, str):
        kernel = getattr(source, "name", None)
        meant = kernel if isinstance(kernel, str) else None
        if _is_ptx(code):
            return PtxSource(f"<{name}>", code, meant)
        ptx = _compiled(code, getattr(source, "options", ()), compilation)
        known = (
            (entry, names)
            for entry, declared in _ENTRY.findall(ptx)
            if (names := parameter_names(code, entry)) and len(names) == declared.count(".param ")
        )
        return PtxSource(f"<{name}>", ptx, meant, tuple(known))
    raise _no_ptx(
        f"{name}, a {type(source).__module__}.{type(source).__qualname__}, carries no PTX",
        "give a path, the text of PTX, or a compiled kernel of Numba, Triton or CuPy",
    )


def _is_ptx(text: str) -> bool:
    """Whether text is PTX and not the path of a file."""
    return any(line.lstrip().startswith(".version") for line in text.splitlines())


def _name_of(source: object) -> str:
    """What people call an object: its function's name, or that of its type."""
    for one in (source, getattr(source, "py_func", None), getattr(source, "fn", None)):
        name = getattr(one, "__name__", None) or getattr(one, "name", None)
        if isinstance(name, str) and name:
            return name
    return type(source).__name__


def _of_dispatcher(source: Any, name: str, signature: object) -> str:
    """The PTX of one signature of a dispatcher."""
    try:
        ptx = source.inspect_asm()
    except Exception:  # without a driver Numba raises errors of its own
        ptx = {}
    if isinstance(ptx, str):
        return ptx
    if signature is not None:
        return str(ptx[signature]) if signature in ptx else _by_numba(source, name, signature)
    if not ptx:
        raise _no_ptx(
            f"{name} has not been compiled for any signature",
            "say signature=, for example 'void(float32[::1], int32)', or call the kernel once",
        )
    if len(ptx) > 1:
        listed = "; ".join(map(str, ptx))
        raise _no_ptx(f"{name} was compiled for {len(ptx)} signatures: {listed}", "say signature=")
    return str(next(iter(ptx.values())))


def _by_numba(source: Any, name: str, signature: object) -> str:
    """The PTX that Numba, which made the object, compiles of its function; no GPU is needed."""
    numba = sys.modules.get("numba.cuda")
    if numba is None or not hasattr(source, "py_func"):
        raise _no_ptx(f"{name} was not compiled for {signature}", "call it once")
    try:
        found = numba.compile_ptx(source.py_func, signature, cc=_CAPABILITY)
    except Exception as error:
        reason = " ".join(str(error).split())[:_LONGEST] or type(error).__name__
        raise _no_ptx(f"Numba does not compile {name}: {reason}", "call the kernel once") from None
    return str(found[0])


def _of_triton(source: object, ptx: str) -> KernelNames:
    """What Triton calls the parameters of its kernel: those that are no constants, in their order.

    None where that does not fit the types of the PTX, which may have pointers of Triton behind.
    """
    of = getattr(source, "src", None)
    signature, constants = getattr(of, "signature", None), getattr(of, "constants", None)
    order = [*getattr(getattr(of, "fn", None), "arg_names", ())]
    entries = _ENTRY.findall(ptx)
    if not isinstance(signature, Mapping) or len(entries) != 1:
        return ()
    places = (
        key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in constants or ()
    )
    fixed = {order[one] if one in range(len(order)) else one for one in places}
    if [one for one in order if one in signature] != [*signature] or not fixed <= {*order}:
        return ()
    own = {name: str(kind) for name, kind in signature.items() if name not in fixed}
    own = {name: kind for name, kind in own.items() if kind != "constexpr"}
    ((entry, declared),) = entries
    types = _PARAMETER.findall(declared)
    wanted = [f"{_WIDTHS.get('*' if kind.startswith('*') else kind)}" for kind in own.values()]
    behind = types[len(wanted) :]
    is_read = len(types) == declared.count(".param ") and "[" not in declared
    fits = [kind[1:] for kind in types[: len(wanted)]] == wanted
    fits &= len(behind) <= _HIDDEN and {*behind} <= {"u64"}
    return ((entry, tuple(own)),) if is_read and fits else ()


_WIDTHS = {
    "*": 64,
    **{f"{kind}{width}": width for kind in "iu" for width in (8, 16, 32, 64)},
    **{f"fp{width}": width for width in (16, 32, 64)},
    "bf16": 16,
}
"""Bits of the types of Triton; ``i1`` and what is more than one parameter are left out."""


def _compiled(code: str, options: object, compilation: Compilation) -> str:
    """CUDA source compiled to PTX by the compiler on the path. Raises PtxwcetError (PW120)."""
    given = [*map(str, options)] if isinstance(options, (list, tuple)) else []
    if compilation.architecture is not None:
        given.append(f"-arch={compilation.architecture}")
    given += ["-rdc=true"] * compilation.is_linked + list(compilation.options)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cu")
        file.write_text(code, encoding="utf-8")
        return compiled_ptx(str(file), given)


def _no_ptx(message: str, help_text: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW119", message, help=help_text))
