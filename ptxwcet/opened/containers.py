"""PTX out of what is not PTX yet: CUDA source that nvcc compiles, binaries that cuobjdump opens.

Both tools are the user's, found on the PATH. Nothing is guessed: for which architecture to compile
has to be said, and so has which PTX of a binary is meant, if it holds several.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxwcet.opened.front_ends import is_no_ptx, read_source
from ptxwcet.opened.nvcc import MOST_SECONDS, compiled_ptx, is_harmless, not_compiled
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input

OPENER = "cuobjdump"
_SOURCE = ".cu"
_MARKS = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>")  # ELF, fat binary, static library
_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d{2,3}[af]?)")
_ENTRY = re.compile(r"^[^/\n]*\.entry\s+([\w$%.]+)", re.MULTILINE)
_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class Compilation:
    """How PTX is made of FILE: for which ``architecture``, as ``sm_86``, with which options of nvcc
    beside it. ``is_linked``: as a part of a program, which keeps what other files define open.
    """

    architecture: str | None = None
    options: tuple[str, ...] = ()
    is_linked: bool = False


def needs_tool(path: str) -> bool:
    """Whether a file is CUDA source or a binary, by its name and first bytes. Cost: constant.

    A binary that a front end reads itself is none.
    """
    if is_no_ptx(path):
        return False
    if Path(path).suffix.lower() == _SOURCE:
        return True
    try:
        with open_input(path, MOST_DATA_BYTES) as file:
            return file.read(8).startswith(_MARKS)
    except OSError:
        return False  # whoever reads it says why


def ptx_text(path: str, compilation: Compilation, kernels: Sequence[str] = ()) -> str:
    """The PTX of a file for which :func:`needs_tool` is true.

    Of a binary with several PTX files that one is taken that is for the architecture, if one is
    named, and has the ``kernels``. Raises PtxwcetError: PW120 (not compiled), PW121 (no PTX, or
    not one). Cost: a run of the tool.
    """
    if Path(path).suffix.lower() == _SOURCE:
        return _compiled(path, compilation)
    with tempfile.TemporaryDirectory(prefix="ptxwcet-") as folder:
        return _extracted(path, compilation, kernels, Path(folder))


def _compiled(path: str, compilation: Compilation) -> str:
    if compilation.architecture is None:
        raise not_compiled(
            f"'{path}' is CUDA source: for which architecture is not said",
            "for example --arch sm_86; what is compiled for another one is other code",
        )
    linked = ("-rdc=true",) if compilation.is_linked else ()
    return compiled_ptx(path, (f"-arch={compilation.architecture}", *linked, *compilation.options))


def _extracted(path: str, compilation: Compilation, kernels: Sequence[str], folder: Path) -> str:
    tool = shutil.which(OPENER)
    if tool is None:
        raise _no_ptx(
            f"'{path}' is a binary, and {OPENER} is not on the PATH to take the PTX out of it",
            "install the CUDA toolkit, or give the PTX: nvcc -ptx writes it",
        )
    binary = str(Path(path).resolve())
    if not is_harmless(binary):
        (folder / "binary").symlink_to(binary)
        binary = "binary"
    try:
        done = subprocess.run(
            [tool, "-xptx", "all", binary],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS,
            check=False,
        )
        said = done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"{OPENER}: {error}"
    files = sorted(folder.glob("*.ptx"))
    if not files:
        raise _no_ptx(
            f"'{path}' holds no PTX, only machine code that {OPENER} can list",
            "keep the PTX when it is built: nvcc -ptx, or -gencode arch=compute_86,code=compute_86",
            tuple(said.splitlines()[:2]),
        )
    texts = {one.name: read_source(one).text for one in files}
    meant = _for_architecture(texts, compilation.architecture)
    if not meant:
        raise _no_ptx(
            f"'{path}' holds no PTX for {compilation.architecture}",
            "name one that it holds",
            _listed(texts),
        )
    if len(meant) > 1 and kernels:
        meant = {name: text for name, text in meant.items() if _has(text, kernels)} or meant
    if len(meant) > 1:
        raise _no_ptx(
            f"'{path}' holds {len(meant)} PTX files: which one is meant is not said",
            "name an architecture (--arch), a kernel (--kernel), or both",
            _listed(meant),
        )
    return next(iter(meant.values()))


def _for_architecture(texts: dict[str, str], architecture: str | None) -> dict[str, str]:
    if architecture is None:
        return texts
    wanted = _ARCHITECTURE.fullmatch(architecture)
    number = None if wanted is None else wanted[1]
    return {
        name: text
        for name, text in texts.items()
        if (found := _ARCHITECTURE.search(name)) is not None and found[1] == number
    }


def _has(text: str, kernels: Sequence[str]) -> bool:
    """Whether PTX has all of the kernels, by parts of their mangled names at least."""
    entries = _ENTRY.findall(text)
    return all(any(kernel in entry for entry in entries) for kernel in kernels)


def _listed(texts: dict[str, str]) -> tuple[str, ...]:
    rows = []
    for name, text in list(texts.items())[:_MOST_LISTED]:
        entries = _ENTRY.findall(text)
        rows.append(f"{name}: {', '.join(entries[:_MOST_LISTED]) or 'no kernel'}")
    more = len(texts) - len(rows)
    return (*rows, f"and {more} more") if more else tuple(rows)


def _no_ptx(message: str, remedy: str, notes: tuple[str, ...] = ()) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW121", message, help=remedy, notes=notes))
