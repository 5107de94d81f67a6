"""Sources of PTX: files, text, and the compiled kernels of Numba, Triton and CuPy.

Objects are recognised by their attributes, so that none of these packages is imported here.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptxwcet.flow.facts.cuda_loops import parameter_names
from ptxwcet.machine.architectures import architecture_of
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.opened.front_ends import is_no_ptx, read_code
from ptxwcet.opened.machine_code import machine_code
from ptxwcet.opened.nvcc import Compilation, compiled_ptx, ptx_text, require_architecture
from ptxwcet.opened.request import KernelNames, needs_tool
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

_WITHOUT_GPU = "sm_80"
"""For which objects are compiled where neither ``arch=`` nor the machine names an architecture."""
_LONGEST = 300
_ENTRY = re.compile(r"^[^/\n]*\.entry\s+([\w$%.]+)\s*\(([^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]\d+)\s")
_HIDDEN = 2  # pointers to scratch memory, which Triton appends to a kernel's own parameters


@dataclass(frozen=True, slots=True)
class PtxSource:
    """PTX under a name: the path of a file if ``text`` is None. ``kernel`` is the selected kernel.

    ``parameter_names`` are those of the language that the source is written in, if the object has
    them. ``how`` the object was compiled, if it was compiled here.
    """

    path: str
    text: str | None = None
    kernel: str | None = None
    parameter_names: KernelNames = ()
    how: str = ""


_PLAIN = Compilation()


def ptx_of(
    source: object,
    signature: object = None,
    compilation: Compilation = _PLAIN,
    kernels: Sequence[str] = (),
    *,
    is_code: bool = False,
    machine: str = DEFAULT_MACHINE,
) -> PtxSource:
    """Returns the PTX that an object is or contains; with ``is_code`` its machine code's listing.

    A source is a path; text of PTX, which has a line that begins with ``.version``; a compiled
    kernel of Triton (``asm``); a dispatcher of Numba (``inspect_asm``), which Numba compiles with
    the options of its decorator if it has not compiled it for its ``signature`` yet; a
    ``RawKernel`` or ``RawModule`` of CuPy, whose CUDA source nvcc compiles with its options; or
    anything with PTX as its attribute ``ptx``. Objects are compiled for the architecture of
    ``compilation``, else of the ``machine``. ``compilation`` defines how CUDA source becomes PTX,
    and with the ``kernels`` selects the PTX of a binary. Raises PtxwcetError: PW119 for an object
    without PTX and for options that cannot be passed on, PW120 for source that is not compiled,
    PW121 for a binary; TypeError for a ``compilation`` where nothing is compiled.
    """
    is_object = not isinstance(source, str | bytes | os.PathLike)
    target, why = _architecture(compilation, machine) if is_object else ("", "")
    carried = _carried(source, signature, _Compiled(compilation, target, why))
    is_file = carried.text is None and needs_tool(carried.path)
    is_cuda = Path(carried.path).suffix.lower() == ".cu" if is_file else _is_cuda(source)
    if compilation.options and not is_cuda:
        raise TypeError("nvcc_options= is for CUDA source: this is compiled already")
    if compilation.architecture is not None and not (is_cuda or is_file or is_code or carried.how):
        more = "; Triton compiles for its target=" if hasattr(source, "asm") else ""
        raise TypeError(f"arch= is for CUDA source and binaries: PTX is compiled already{more}")
    cubin = _asm(source).get("cubin")
    if is_code and isinstance(cubin, bytes) and compilation.architecture is None:
        return replace(carried, text=read_code(carried.path, cubin).text)
    if carried.how:
        compilation = replace(compilation, architecture=target)
    if is_code and (carried.text is not None or not is_no_ptx(carried.path)):
        text = machine_code(carried.path, compilation, kernels, carried.text)
        return replace(carried, text=text)
    if not is_file:
        return carried
    return PtxSource(carried.path, ptx_text(carried.path, compilation, kernels))


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The compilation of an object: as requested, and for an architecture with a reason."""

    asked: Compilation
    target: str
    why: str

    def how(self, compiler: str, options: Sequence[str]) -> str:
        """Returns how an object is compiled, for people."""
        listed = f", with {' '.join(options)}" if options else ""
        return f"by {compiler} for {self.target}, {self.why}{listed}"


def _architecture(compilation: Compilation, machine: str) -> tuple[str, str]:
    """Returns for which architecture an object is compiled, and why for that."""
    if compilation.architecture is not None:
        require_architecture(compilation.architecture)
        return compilation.architecture, "as arch= states"
    capability = load_machine(machine).compute_capability
    if capability is None:
        return _WITHOUT_GPU, "for this machine is no GPU and arch= states none"
    return architecture_of(capability), "the compute capability of the machine"


def _asm(source: object) -> Mapping[str, object]:
    """Returns the code that a compiled kernel of Triton carries, by its kind."""
    asm = getattr(source, "asm", None)
    return asm if isinstance(asm, Mapping) else {}


def _is_cuda(source: object) -> bool:
    code = getattr(source, "code", None)
    return isinstance(code, str) and not _is_ptx(code)


def _carried(source: object, signature: object, compiled: _Compiled) -> PtxSource:
    """Returns the PTX of an object; the file of a path is not read."""
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
    if isinstance(text := _asm(source).get("ptx"), str):
        return PtxSource(f"<{name}>", text, None, _of_triton(source, text))
    if callable(getattr(source, "inspect_asm", None)):
        return _of_dispatcher(source, name, signature, compiled)
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
        options = _options_of_cupy(source, name)
        ptx, how = _compiled(code, options, compiled)
        declared_names = (
            (entry, names)
            for entry, declared in _ENTRY.findall(ptx)
            if (names := parameter_names(code, entry)) and len(names) == declared.count(".param ")
        )
        return PtxSource(f"<{name}>", ptx, meant, tuple(declared_names), how)
    raise _no_ptx(
        f"{name}, a {type(source).__module__}.{type(source).__qualname__}, carries no PTX",
        "give a path, the text of PTX, or a compiled kernel of Numba, Triton or CuPy",
    )


def _is_ptx(text: str) -> bool:
    """Returns whether text is PTX and not the path of a file."""
    return any(line.lstrip().startswith(".version") for line in text.splitlines())


def _name_of(source: object) -> str:
    """Returns the name of an object: its function's name, or its type's."""
    for named in (source, getattr(source, "py_func", None), getattr(source, "fn", None)):
        name = getattr(named, "__name__", None) or getattr(named, "name", None)
        if isinstance(name, str) and name:
            return name
    return type(source).__name__


def _of_dispatcher(source: Any, name: str, signature: object, compiled: _Compiled) -> PtxSource:
    """Returns the PTX of one signature of a dispatcher of Numba, compiled here if it is not yet.

    It is compiled here, too, where an architecture is stated. Raises PtxwcetError (PW119).
    """
    options = _options_of_numba(source, name, compiled.asked)
    try:
        ptx = source.inspect_asm()
    except Exception:  # without a driver Numba raises its own errors
        ptx = {}
    if isinstance(ptx, str):
        return PtxSource(f"<{name}>", ptx)
    if signature is None:
        if not ptx:
            raise _no_ptx(
                f"{name} has not been compiled for any signature",
                "say signature=, for example 'void(float32[::1], int32)'",
            )
        if len(ptx) > 1:
            listed = "; ".join(map(str, ptx))
            message = f"{name} was compiled for {len(ptx)} signatures: {listed}"
            raise _no_ptx(message, "say signature=")
        (signature,) = ptx
    if signature in ptx and compiled.asked.architecture is None:
        return PtxSource(f"<{name}>", str(ptx[signature]))
    text = _by_numba(source, name, signature, compiled.target, options)
    version = getattr(sys.modules.get("numba"), "__version__", "")
    stated = [
        f"{key}={value}"
        for key, value in sorted(options.items())
        if value != _USUAL.get(key, False)
    ]
    return PtxSource(f"<{name}>", text, how=compiled.how(f"Numba {version}".strip(), stated))


_USUAL = {"opt": True}
"""Usual values of options of Numba's decorator, not reported; others are False or None."""
_WITHOUT_EFFECT = frozenset({"device", "extensions", "lto"})
"""Options that change no code of a kernel that is linked with nothing: how arguments are handed
over, and when a program is linked."""


def _options_of_numba(source: Any, name: str, asked: Compilation) -> dict[str, object]:
    """Returns the options of a dispatcher's decorator that affect Numba's compilation.

    Raises PtxwcetError (PW119) for options that its compilation to PTX does not take.
    """
    given = getattr(source, "targetoptions", None)
    numba = sys.modules.get("numba.cuda")
    if not isinstance(given, Mapping) or numba is None:
        return {}
    if given.get("device"):
        raise _no_ptx(f"{name} is a device function (device=True)", "give a kernel that calls it")
    taken = inspect.signature(numba.compile_ptx).parameters
    options = {key: value for key, value in given.items() if key not in _WITHOUT_EFFECT}
    left = [key for key, value in options.items() if key not in taken and value not in _INERT]
    left = [key for key in left if key != "link" or not asked.is_linked]
    if left:
        listed = ", ".join(f"{key}={options[key]!r:.60}" for key in left)
        raise _no_ptx(
            f"{name} is compiled with {listed}, which Numba's PTX does not have in it",
            _INSTEAD.get(left[0], f"leave {left[0]}= out of the decorator"),
        )
    return {key: value for key, value in options.items() if key in taken and value is not None}


_INERT: tuple[object, ...] = (None, False, (), [], "", "never")
_INSTEAD = {
    "link": "link its PTX here: link=FILE",
    "max_registers": "leave max_registers= out of the decorator, and state registers= of a thread",
}


def _by_numba(
    source: Any, name: str, signature: object, target: str, options: Mapping[str, object]
) -> str:
    """Returns the PTX that Numba compiles of its object's function; it needs no GPU."""
    numba, named = sys.modules.get("numba.cuda"), re.search(r"(\d+)(\d)[af]?$", target)
    if numba is None or not hasattr(source, "py_func") or named is None:
        raise _no_ptx(f"{name} was not compiled for {signature}", "call it once")
    capability = int(named[1]), int(named[2])
    try:
        compiled = numba.compile_ptx(source.py_func, signature, cc=capability, **options)
    except Exception as error:
        reason = " ".join(_COLOURS.sub("", str(error)).split())[:_LONGEST] or type(error).__name__
        library = _LIBRARY.search(f"{type(error).__name__} {reason}")
        if library is not None:
            remedy = _INSTALL
        elif target in reason.replace("compute_", "sm_"):
            remedy = f"install a CUDA toolkit that compiles for {target}, or say another: arch="
        else:
            remedy = "mend the kernel, or the types of its arguments in signature="
        message = f"Numba does not compile {name} for {target}: {reason}"
        raise _no_ptx(message, remedy) from None
    return str(compiled[0])


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LIBRARY = re.compile(r"libnvrtc|libnvvm[. ]so|libNVVM cannot|libdevice|NotFound|cannot be found")
_INSTALL = (
    "install the compiler's libraries: pip install 'numba-cuda[cu13]' (of CUDA 12: [cu12]), or the "
    "CUDA toolkit"
)


def _of_triton(source: object, ptx: str) -> KernelNames:
    """Returns Triton's names of its kernel's parameters without constants, in order.

    The result is empty if it does not match the types of the PTX, which may append pointers.
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
    fixed = {order[place] if place in range(len(order)) else place for place in places}
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
"""Bits of Triton's types; ``i1`` and types with several parameters are left out."""


def _options_of_cupy(source: object, name: str) -> list[str]:
    """Returns the options that CuPy gives its compiler. Raises PtxwcetError (PW119) for others."""
    options = getattr(source, "options", None) or ()
    refused = [one for one in ("translate_cucomplex", "jitify") if getattr(source, one, False)]
    if not isinstance(options, list | tuple):
        refused.append(f"options={options!r:.60}")
    if refused:
        message = f"{name} is compiled with {refused[0]}, which is not passed on to nvcc"
        raise _no_ptx(message, "leave it out, or give the PTX that CuPy made")
    is_cooperative = getattr(source, "enable_cooperative_groups", False)
    return [*map(str, options), *(["-rdc=true"] if is_cooperative else [])]


def _compiled(code: str, options: list[str], compiled: _Compiled) -> tuple[str, str]:
    """Compiles CUDA source to PTX by the compiler on the path; returns the PTX and how.

    Raises PtxwcetError (PW120).
    """
    asked = compiled.asked
    given = [*options, *(["-rdc=true"] if asked.is_linked else []), *asked.options]
    own = next((word for word in given if word.startswith(("-arch", "--gpu-architecture"))), None)
    if own is not None and asked.architecture is not None:
        raise TypeError(f"arch= and the option {own!r} both name an architecture: leave one out")
    if own is None:
        given.insert(len(options), f"-arch={compiled.target}")
    elif named := re.search(r"(?:sm|compute)_\w+", " ".join(given[given.index(own) :][:2])):
        compiled = replace(compiled, target=named[0], why="as its options state")
    else:
        message = f"the option {own!r} names no architecture: what it means depends on the machine"
        raise _no_ptx(message, "say which in the options, for example '-arch=sm_90', or arch=")
    shown = [option for option in given if not option.startswith("-arch=")]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cu")
        file.write_text(code, encoding="utf-8")
        return compiled_ptx(str(file), given), compiled.how("nvcc", shown)


def _no_ptx(message: str, help_text: str) -> PtxwcetError:
    return PtxwcetError(Diagnostic("PW119", message, help=help_text))
