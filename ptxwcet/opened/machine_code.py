"""Machine code from CUDA source and PTX, by the user's compiler, and from binaries.

CUDA source is compiled by nvcc as for its PTX (:mod:`ptxwcet.opened.nvcc`), PTX by ptxas; the
architecture has to be stated. Binaries are read as they are; cuobjdump extracts compressed machine
code. Nothing is guessed: if there are several cubins, one has to be selected.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptxwcet.opened.front_ends import held_code, read_code, read_source
from ptxwcet.opened.nvcc import (
    OPENER,
    Compilation,
    compiled,
    extracted,
    named,
    no_architecture,
    not_compiled,
    nothing_found,
    tool_run,
)
from ptxwcet.opened.request import SOURCE, needs_tool
from ptxwcet.support.input_files import MOST_DATA_BYTES, MOST_TEXT_BYTES, read_bytes

if TYPE_CHECKING:
    from ptxwcet.opened.front_ends import HeldCode

ASSEMBLER = "ptxas"
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})[af]?")
_MOST_LISTED = 8
_WHOLE = (
    "compile it whole (without -rdc=true and -dc), or give what nvlink makes of the program: "
    "'nvcc -dlink -cubin'"
)


def machine_code(
    path: str, compilation: Compilation, kernels: Sequence[str] = (), text: str | None = None
) -> str:
    """Returns the machine code's listing of CUDA source, of PTX (``text`` if read) or a binary.

    If a binary has several cubins, the one for the architecture, if named, and with the ``kernels``
    is selected. Raises PtxwcetError: PW112, PW120 (not compiled), PW121 (no cubin, or several),
    PW123 and PW124 (cannot be read or listed). Cost: runs of the tools.
    """
    if compilation.is_linked:
        raise not_compiled("machine code is not linked here: --link is for PTX", _WHOLE)
    architecture = compilation.architecture
    if architecture is not None and _ARCHITECTURE.fullmatch(architecture) is None:
        message = f"'{architecture}' is no architecture of machine code"
        raise no_architecture(message, "it is called as sm_86")
    if text is None and needs_tool(path) and Path(path).suffix.lower() != SOURCE:
        data = _found(path, architecture, kernels)
    elif architecture is None:
        message = f"for which architecture '{path}' is to be machine code is not said"
        remedy = (
            'for example --arch sm_86, in a plan arch = "sm_86"; what is compiled for another one '
            "is other code"
        )
        raise no_architecture(message, remedy)
    elif text is None and needs_tool(path):
        options = (f"-arch={architecture}", *compilation.options)
        data = compiled(path, options, "cubin", compilation.kept)
        return named(path, read_code(path, data).text, options, compilation.kept, ".names")
    else:
        whole = read_source(path).text if text is None else text
        data = _assembled(path, whole, architecture)
    return read_code(path, data).text


def _assembled(path: str, text: str, architecture: str) -> bytes:
    tool = shutil.which(ASSEMBLER)
    if tool is None:
        raise not_compiled(
            f"there is no {ASSEMBLER} on the PATH to make machine code of '{path}'",
            "install the CUDA toolkit, or give the cubin",
        )
    with tempfile.TemporaryDirectory(prefix="ptxwcet-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text, encoding="utf-8")
        command = [tool, f"-arch={architecture}", "-lineinfo", "-o", str(target), str(source)]
        done = tool_run(command)
        if done.returncode or not target.is_file():
            raise not_compiled(
                f"{ASSEMBLER} does not compile '{path}' for {architecture}",
                f"compile the source for {architecture}, or name another architecture",
                tuple(done.stderr.replace(str(source), path).splitlines()[:_MOST_LISTED]),
            )
        return read_bytes(target, MOST_TEXT_BYTES)


def _found(path: str, architecture: str | None, kernels: Sequence[str]) -> bytes:
    """Returns the selected cubin of a binary."""
    try:
        held = held_code(path, read_bytes(path, MOST_DATA_BYTES))
        if any(code.data is None for code in held):
            files, _ = extracted(path, "cubin", "the machine code", _cubin)
            held = [code for data in files.values() for code in held_code(path, data)]
    except OSError as error:
        message = f"cannot read '{path}': {error.strerror}"
        raise nothing_found(message, "give a file that can be read") from None
    if not held:
        raise nothing_found(
            f"'{path}' holds no machine code of a GPU",
            f"if it holds PTX, take that out ('{OPENER} -xptx all') and give it, with --arch",
        )
    named = None if architecture is None else _ARCHITECTURE.fullmatch(architecture)
    meant = [code for code in held if named is None or code.architecture == int(named[1])]
    if not meant:
        message = f"'{path}' holds no machine code for {architecture}"
        raise nothing_found(message, "name one that it holds", _listed(held))
    # parts of a linked program have no readable kernels
    meant = [code for code in meant if code.kernels] or meant[:1]
    if len(meant) > 1 and kernels:
        meant = [code for code in meant if _has(code.kernels or (), kernels)] or meant
    if len(meant) > 1:
        raise nothing_found(
            f"'{path}' holds {len(meant)} cubins: which one is meant is not said",
            "name an architecture (--arch), a kernel (--kernel), or both",
            _listed(meant),
        )
    data = meant[0].data
    assert data is not None
    return data


def _has(found: Sequence[str], kernels: Sequence[str]) -> bool:
    """Returns whether a cubin has all of the kernels, by parts of their mangled names at least."""
    return all(any(kernel in one for one in found) for kernel in kernels)


def _listed(held: Sequence[HeldCode]) -> tuple[str, ...]:
    rows = []
    for one in held[:_MOST_LISTED]:
        names = ", ".join((one.kernels or ("no kernel",))[:_MOST_LISTED])
        rows.append(f"sm_{one.architecture}: {names}")
    more = len(held) - len(rows)
    return (*rows, f"and {more} more") if more else tuple(rows)


def _cubin(path: Path) -> bytes:
    return read_bytes(path, MOST_TEXT_BYTES)
