r"""PTX from CUDA source, by the user's own nvcc, and from binaries, by cuobjdump.

A name or option must not start another program while CUDA source is compiled: nvcc hands the names
of files and the values of options to a shell, between double quotes, where ``$``, a backquote,
``"`` and ``\`` have special meanings. nvcc does not accept a file name that begins with ``@`` or
``-``. A file whose name or folder has anything but letters, digits and harmless marks is therefore
compiled as a copy, under a name of our own in a private folder; ``#line`` gives messages and line
numbers the user's name, and ``#include "..."`` looks into the user's folder, by a link with a name
of our own. Permitted options are in a list: they change the PTX and have no other effect.

Both tools are the user's, found on the PATH. Nothing is guessed: the architecture to compile for
has to be stated, and so has the selected PTX of a binary, if it holds several.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ptxwcet.flow.facts.debug_names import loses_names, with_debug_names
from ptxwcet.opened.front_ends import read_source
from ptxwcet.opened.request import SOURCE
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, UsageError
from ptxwcet.support.input_files import MOST_DATA_BYTES, MOST_TEXT_BYTES, read_bytes, read_text
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import whole_file

COMPILER = "nvcc"
COMPILED = "compiled"
"""The folder of compiled files, within a folder of cached answers."""
MOST_SECONDS = 600
_MOST_LISTED = 8
_PASSING = re.compile(r"tmpxft_[0-9a-f]+_[0-9a-f]+-")
"""The beginning of the names of nvcc's temporary files."""
_HARMLESS = re.compile(r"[\w./][\w .,/+=:~-]*")
_MACROS = {"-D", "--define-macro"}
_FOLDERS = {"-I", "--include-path"}
_WORDS = {
    *("-U", "--undefine-macro", "-std", "--std"),
    *("-isystem", "--system-include", "-include", "--pre-include"),
    *("-arch", "--gpu-architecture", "-m", "--machine", "-O", "--optimize"),
    *("-maxrregcount", "--maxrregcount", "-ftz", "--ftz", "-fmad", "--fmad"),
    *("-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt", "-rdc"),
    *("--relocatable-device-code", "-default-stream", "--default-stream"),
    *("-diag-suppress", "--diag-suppress", "-diag-warn", "--diag-warn"),
    *("-ftemplate-depth", "--ftemplate-depth", "-dopt", "--dopt"),
}
_ALONE = {
    *("-use_fast_math", "--use_fast_math", "-lineinfo", "--generate-line-info"),
    *("-G", "--device-debug", "-g", "--debug", "-w", "--disable-warnings", "-restrict"),
    *("--restrict", "-expt-relaxed-constexpr", "--expt-relaxed-constexpr"),
    *("-expt-extended-lambda", "--expt-extended-lambda", "-extended-lambda"),
    *("--extended-lambda", "-dc", "--device-c", "-extra-device-vectorization"),
    *("--extra-device-vectorization", "-allow-unsupported-compiler"),
    *("--allow-unsupported-compiler", "-m64", "-O0", "-O1", "-O2", "-O3"),
}
_JOINED = ("-D", "-U", "-I")
_VALUES = {
    **dict.fromkeys(_WORDS, re.compile(r"[\w.,/+=:~-]+")),
    **dict.fromkeys(_FOLDERS, re.compile(r"[\w .,/+=:~-]+")),
    **dict.fromkeys(_MACROS, re.compile(r"[^$`\\\x00-\x1f\x7f]+")),  # nvcc escapes their quotes
}


def compiled(
    path: str, options: Sequence[str], form: str = "ptx", kept: Path | None = None
) -> bytes:
    """Returns nvcc's output for a file and these options, which name no output: PTX, or ``cubin``.

    Files next to the user's file can be included. ``kept`` is a cache folder, in which outputs are
    found again for the same preprocessed text and the same steps. Raises PtxwcetError: PW120 (no
    nvcc on the PATH, an option that is not permitted, source that cannot be read or does not
    compile), PW825 (an unusable folder). Cost: a run of nvcc, at most ten minutes.
    """
    tool = shutil.which(COMPILER)
    if tool is None:
        raise not_compiled(
            f"'{path}' is CUDA source, and {COMPILER} is not on the PATH to compile it",
            "install the CUDA toolkit, or give the PTX that the compiler made of it",
        )
    _require_permitted(options)
    with tempfile.TemporaryDirectory(prefix="ptxwcet-") as folder:
        source = [path] if is_harmless(path) else _copied(path, folder)
        target = Path(folder, f"kernel.{form}")
        command = [f"-{form}", "-lineinfo", *options, "-o", str(target), *source]
        place = None if kept is None else _place_of(kept, tool, command, [*options, *source])
        if place is not None and (found := _found(place)) is not None:
            return found
        done = tool_run([tool, *command])
        if done.returncode or not target.is_file():
            message = (done.stderr or done.stdout).replace(source[-1], path)
            raise not_compiled(
                f"{COMPILER} does not compile '{path}'",
                "options of the compiler go into --nvcc-options, in a plan nvcc_options, for "
                "example '-Iinclude -DN=4'",
                tuple(message.splitlines()[:_MOST_LISTED]),
            )
        made = read_bytes(target, MOST_TEXT_BYTES)
        if place is not None:
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(place, "PW825") as file:
                file.write(hashlib.sha256(made).hexdigest().encode() + b"\n" + made)
        return made


def _place_of(
    kept: Path, tool: str, command: Sequence[str], compiles: Sequence[str]
) -> Path | None:
    """Returns the cached path of a command's output; None if the command fails.

    The compiler proper reads only the preprocessed text, which contains all included files; ``nvcc
    --dryrun`` prints its calls, with the effects of the environment.
    """
    target = Path(command[command.index("-o") + 1])
    text = target.with_suffix(".ii")
    done = tool_run([tool, "-E", *compiles, "-o", str(text)])
    steps = tool_run([tool, "--dryrun", *command])
    if done.returncode or steps.returncode or not text.is_file():
        return None
    whole = hashlib.sha256(read_bytes(text, MOST_DATA_BYTES))
    said = _PASSING.sub("", steps.stderr).replace(str(target.parent), "")
    whole.update(f"{tool_run([tool, '--version']).stdout}{said}".encode())
    return kept / COMPILED / f"{whole.hexdigest()}{target.suffix}"


def _found(place: Path) -> bytes | None:
    """Returns the content of a cached file, if it is complete."""
    try:
        digest, _, made = read_bytes(place, MOST_TEXT_BYTES).partition(b"\n")
    except OSError:
        return None
    return made if hashlib.sha256(made).hexdigest().encode() == digest else None


def compiled_ptx(path: str, options: Sequence[str], kept: Path | None = None) -> str:
    """Returns the PTX of a file. Raises PtxwcetError and costs as :func:`compiled` does."""
    return compiled(path, options, kept=kept).decode("utf-8", "replace")


def tool_run(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Returns a tool of the toolkit, which has ended; one that does not start or end has failed."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MOST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"{Path(command[0]).name}: {error}"
        return subprocess.CompletedProcess(command, 1, "", said)


def is_harmless(path: str) -> bool:
    """Returns whether a name is safe for a tool: also as absolute path, and with links resolved."""
    names = path, os.path.abspath(path), os.path.realpath(path)
    return all(_HARMLESS.fullmatch(name) for name in names)


def _copied(path: str, folder: str) -> list[str]:
    """Returns a copy of the source, and the options for its include files."""
    try:
        data = read_bytes(path, MOST_TEXT_BYTES)
    except OSError as error:
        raise not_compiled(
            f"cannot read '{path}': {error.strerror}", "give a file that can be read"
        ) from None
    name = re.sub(rb'[\x00-\x1f\x7f"\\]', b"?", os.fsencode(path))
    copy, beside = Path(folder, "kernel.cu"), Path(folder, "beside")
    copy.write_bytes(b'#line 1 "' + name + b'"\n' + data.removeprefix(b"\xef\xbb\xbf"))
    beside.symlink_to(Path(path).absolute().parent, target_is_directory=True)
    # as if the copy were there: for the form with quotes only, and before all -I
    return ["-Xcompiler", "-iquote", "-Xcompiler", str(beside), str(copy)]


def _require_permitted(options: Sequence[str]) -> None:
    """Raises PtxwcetError (PW120) for an option that may do more than change the PTX."""
    left = iter(options)
    for option in left:
        name, equals, value = option.partition("=")
        if option in _VALUES:
            value = next(left, "")
        elif option in _ALONE:
            continue
        elif not equals or name not in _VALUES:
            name, value = option[:2], option[2:]
        if name not in _VALUES or (name not in _JOINED and name + value == option):
            raise not_compiled(
                f"the option '{option}' of {COMPILER} is not passed on",
                "only options that change the PTX are, such as -I, -D, -U, -std, -include, "
                "-use_fast_math, -maxrregcount; others may write files or run programs: compile "
                "yourself with 'nvcc -ptx -lineinfo' and give the PTX",
            )
        if not _VALUES[name].fullmatch(value) or value.startswith(("@", "-")):
            raise not_compiled(
                f"the option '{option}' of {COMPILER} has a value that a shell may carry out",
                "leave out $, `, \\ and what else means something to a shell: define the macro in "
                "a header, reach the folder by a link",
            )


def not_compiled(message: str, remedy: str, notes: tuple[str, ...] = ()) -> PtxwcetError:
    """Returns the error of CUDA source that is not compiled."""
    return PtxwcetError(Diagnostic("PW120", message, help=remedy, notes=notes))


def no_architecture(message: str, remedy: str) -> UsageError:
    """Returns the error of a missing or invalid architecture."""
    return UsageError(not_compiled(message, remedy).diagnostics)


OPENER = "cuobjdump"
_Read = TypeVar("_Read")
_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d{2,3}[af]?)")
_FAMILIES = ("native", "all", "all-major")
_ENTRY = re.compile(r"^[^/\n]*\.entry\s+([\w$%.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Compilation:
    """The compilation of FILE to PTX: its ``architecture``, as ``sm_86``, and further options of
    nvcc. ``is_linked``: as a part of a program, which leaves symbols of other files open. ``kept``
    is a cache folder, also for compiled files.
    """

    architecture: str | None = None
    options: tuple[str, ...] = ()
    is_linked: bool = False
    kept: Path | None = None


def ptx_text(path: str, compilation: Compilation, kernels: Sequence[str] = ()) -> str:
    """Returns the PTX of a file for which :func:`~ptxwcet.opened.request.needs_tool` is true.

    If a binary has several PTX files, the one for the architecture, if named, and with the
    ``kernels`` is selected. Raises PtxwcetError: PW120 (not compiled), PW121 (no PTX, or several).
    Cost: a run of the tool.
    """
    if Path(path).suffix.lower() == SOURCE:
        return _compiled(path, compilation)
    return _extracted(path, compilation, kernels)


def require_architecture(name: str) -> None:
    """Raises PtxwcetError (PW120) for a word that no compiler knows as an architecture."""
    if _ARCHITECTURE.fullmatch(name) is None and name not in _FAMILIES:
        number = re.search(r"\d{2,3}[af]?$", name)
        near = "" if number is None else f"did you mean sm_{number[0]}? "
        raise no_architecture(f"{name!r} is no architecture", f"{near}for example sm_86")


def _compiled(path: str, compilation: Compilation) -> str:
    if compilation.architecture is None:
        raise no_architecture(
            f"'{path}' is CUDA source: for which architecture is not said",
            'for example --arch sm_86, in a plan arch = "sm_86"; what is compiled for another one '
            "is other code",
        )
    require_architecture(compilation.architecture)
    linked = ("-rdc=true",) if compilation.is_linked else ()
    options = (f"-arch={compilation.architecture}", *linked, *compilation.options)
    return named(path, compiled_ptx(path, options, compilation.kept), options, compilation.kept)


def named(
    path: str, text: str, options: Sequence[str], kept: Path | None = None, mark: str = "//"
) -> str:
    """Returns compiled CUDA source, with the compiler's names after ``mark`` if the source as
    written reveals too few. Cost: then another :func:`compiled`.
    """
    with contextlib.suppress(OSError, ValueError, PtxwcetError):  # names change no code
        if loses_names(text, read_text(path, MOST_TEXT_BYTES, "replace")):
            return with_debug_names(text, compiled_ptx(path, ("-G", *options), kept), mark)
    return text


def extracted(
    path: str, form: str, content: str, read: Callable[[Path], _Read]
) -> tuple[dict[str, _Read], str]:
    """Returns the files of a form that cuobjdump extracts from a binary, as ``ptx``, by their
    names, and its messages. Raises PtxwcetError (PW121) without cuobjdump, and errors of ``read``.
    """
    tool = shutil.which(OPENER)
    if tool is None:
        raise nothing_found(
            f"'{path}' is a binary, and {OPENER} is not on the PATH to take {content} out of it",
            f"install the CUDA toolkit, or give {content}: nvcc -{form} writes it",
        )
    option = {"ptx": "-xptx", "cubin": "-xelf"}[form]
    with tempfile.TemporaryDirectory(prefix="ptxwcet-") as folder:
        binary = str(Path(path).resolve())
        if not is_harmless(binary):
            Path(folder, "binary").symlink_to(binary)
            binary = "binary"
        said = tool_run([tool, option, "all", binary], folder).stderr
        files = sorted(Path(folder).glob(f"*.{form}"))
        return {file.name: read(file) for file in files}, said


def _extracted(path: str, compilation: Compilation, kernels: Sequence[str]) -> str:
    texts, messages = extracted(path, "ptx", "the PTX", lambda one: read_source(one).text)
    if not texts:
        raise nothing_found(
            f"'{path}' holds no PTX, only machine code that {OPENER} can list",
            "bound its machine code: --machine-code; or keep the PTX when it is built: nvcc -ptx, "
            "or -gencode arch=compute_86,code=compute_86",
            tuple(messages.splitlines()[:2]),
        )
    meant = _for_architecture(texts, compilation.architecture)
    if not meant:
        raise nothing_found(
            f"'{path}' holds no PTX for {compilation.architecture}",
            "name one that it holds",
            _listed(texts),
        )
    if len(meant) > 1 and kernels:
        meant = {name: text for name, text in meant.items() if _has(text, kernels)} or meant
    if len(meant) > 1:
        raise nothing_found(
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
    """Returns whether PTX has all of the kernels, by parts of their mangled names at least."""
    entries = _ENTRY.findall(text)
    return all(any(kernel in entry for entry in entries) for kernel in kernels)


def _listed(texts: dict[str, str]) -> tuple[str, ...]:
    rows = []
    for name, text in list(texts.items())[:_MOST_LISTED]:
        entries = _ENTRY.findall(text)
        rows.append(f"{name}: {', '.join(entries[:_MOST_LISTED]) or 'no kernel'}")
    more = len(texts) - len(rows)
    return (*rows, f"and {more} more") if more else tuple(rows)


def nothing_found(message: str, remedy: str, notes: tuple[str, ...] = ()) -> PtxwcetError:
    """Returns the error of a binary without the required content, or with several candidates."""
    return PtxwcetError(Diagnostic("PW121", message, help=remedy, notes=notes))
