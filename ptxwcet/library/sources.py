"""What carries PTX: files, text, and the compiled kernels of Numba, Triton and CuPy.

Objects are known by what they have, so that none of those packages is imported here.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptxwcet.opened.nvcc import compiled_ptx
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_CAPABILITY = (8, 0)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class PtxSource:
    """PTX under a name: the path of a file if ``text`` is None. ``kernel`` is the one meant."""

    path: str
    text: str | None = None
    kernel: str | None = None


def ptx_of(source: object, signature: object = None) -> PtxSource:
    """The PTX that an object is or carries.

    A path; text of PTX, which has a line that begins with ``.version``; a compiled kernel of Triton
    (``asm``); a dispatcher of Numba (``inspect_asm``), which is compiled for sm_80 if it was not
    compiled for its ``signature`` yet; a ``RawKernel`` or ``RawModule`` of CuPy, whose CUDA source
    nvcc compiles; anything with PTX as its attribute ``ptx``. Raises PtxwcetError: PW119 for what
    carries none, PW120 for source that is not compiled.
    """
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
        return PtxSource(f"<{name}>", asm["ptx"])
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
        ptx = code if _is_ptx(code) else _compiled(code, getattr(source, "options", ()))
        return PtxSource(f"<{name}>", ptx, meant)
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


def _compiled(code: str, options: object) -> str:
    """CUDA source compiled to PTX by the compiler on the path. Raises PtxwcetError (PW120)."""
    given = [*map(str, options)] if isinstance(options, (list, tuple)) else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cu")
        file.write_text(code, encoding="utf-8")
        return compiled_ptx(str(file), given)


def _no_ptx(message: str, help_text: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW119", message, help=help_text))
