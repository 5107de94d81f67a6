"""Compiles the corpus: ``python generate.py nvcc|clang|triton|numba``, one origin a call.

Every origin needs its own tool: nvcc 13.0 and clang on PATH (``CLANG`` names another one), or the
packages triton, numba-cuda[cu13] and nvidia-nvvm==13.0.88 in the Python that runs this. Sources are
copied to a new folder and compiled there; that folder's name is then taken out of the PTX, so that
the same tools give the same bytes everywhere. Where ptxas is on PATH it must accept each file.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "ptx"


@dataclass(frozen=True)
class Output:
    """One PTX file: its name, the architecture (``86``) and the command or call that made it."""

    name: str
    arch: str
    command: str
    text: str


# --- what is compiled ------------------------------------------------------------------------------

NVCC_FLAGS = {
    "constructs": "-lineinfo",
    "debug": "-G",
    "inlined": "-lineinfo",
    "separate": "-rdc=true",
}
NVCC = {
    "arithmetic": "75 100",
    "async": "80 90 100",
    "atomics": "75 90",
    "blackwell": "100a",
    "calls": "75 86",
    "constructs": "75 86 90 100",
    "control": "86 100",
    "debug": "86 100",
    "directives": "86 90",
    "groups": "80 90",
    "halves": "75 80 90",
    "hopper": "90a",
    "inlined": "75 86",
    "memory": "80 100",
    "scopes": "80 90",
    "separate": "86",
    "small_floats": "90a 100a",
    "switches": "75 100",
    "tensor": "75 80 90a 100",
    "textures": "75 90",
    "video": "75 86",
    "warps": "75 80 100a",
}
NVCC_BESIDES = [  # source, architecture, flags, name
    ("control", "86", "-Xcicc -O0", "control_unoptimised_86"),
    ("async", "90", "-lineinfo", "async_lines_90"),
    ("arithmetic", "86", "--use_fast_math", "arithmetic_fast_86"),
    ("control", "86", "-G", "control_debug_86"),
]

CLANG_CUDA = "-x cuda --cuda-device-only -nocudainc -nocudalib -Wno-unknown-cuda-version"
CLANG = [  # source, architecture, flags, name
    ("basics.cu", "75", f"{CLANG_CUDA} -O2 -gline-tables-only", "basics_lines_75"),
    ("basics.cu", "86", f"{CLANG_CUDA} -O2", "basics_86"),
    ("basics.cu", "100", f"{CLANG_CUDA} -O3 -ffast-math", "basics_fast_100"),
    ("basics.cu", "86", f"{CLANG_CUDA} -O0", "basics_unoptimised_86"),
    ("ampere.cu", "80", f"{CLANG_CUDA} -O2", "ampere_80"),
    ("opencl_kernels.cl", "80", "-x cl -cl-std=CL2.0 -target nvptx64-nvidia-cuda -O1", "opencl_80"),
    ("opencl_kernels.cl", "90", "-x cl -cl-std=CL2.0 -target nvptx64-nvidia-cuda -O2", "opencl_90"),
    ("hopper.ll", "90a", "-target nvptx64-nvidia-cuda -O1", "hopper_90a"),
]

TRITON = {
    "add": "80",
    "softmax": "80 100",
    "norm": "80 90",
    "sort_and_scan": "80",
    "histogram": "80",
    "matmul": "80 90 100",
    "matmul_int8": "80",
    "matmul_descriptors": "80 90 100",
    "matmul_specialised": "90 100",
    "attention": "80 90 100",
}

NUMBA = {
    "saxpy": "75",
    "saxpy_lines": "86",
    "matmul": "80",
    "reduce": "90",
    "warp_sum": "86",
    "local_sort": "86",
    "special": "86",
    "checked": "86",
}


# --- paths of this machine -------------------------------------------------------------------------

FILE_PATH = re.compile(r'^(\s*\.file\s+\d+\s+")[^"\n]*/([^"/\n]+")', re.MULTILINE)
BYTES = re.compile(r"^\s*\.b8[ \t]+([0-9][0-9, \t]*)", re.MULTILINE)
NUMBER = re.compile(r"\d+")


def without_paths(text: str, folders: Iterable[Path]) -> str:
    """``text`` with file names alone in ``.file`` and, in debug bytes, ``/corpus`` for ``folders``.

    The bytes keep their number, since lengths are written elsewhere in the section.
    """
    text = FILE_PATH.sub(r"\1\2", text)
    places = [
        (row.start(1) + number.start(), row.start(1) + number.end())
        for row in BYTES.finditer(text)
        for number in NUMBER.finditer(row.group(1))
    ]
    values = [int(text[start:end]) & 255 for start, end in places]
    data, changed = bytes(values), bytes(values)
    for folder in folders:
        name = os.fsencode(folder)
        changed = changed.replace(name, b"/corpus".ljust(len(name), b"/"))
    pieces, done = [], 0
    for (start, end), old, new in zip(places, data, changed, strict=True):
        if old != new:
            pieces += [text[done:start], str(new)]
            done = end
    return "".join([*pieces, text[done:]])


@contextmanager
def build_folder(sources: Path) -> Iterator[Path]:
    """A new current folder with a copy of ``sources`` (a folder's files, or one file).

    Its name is fixed, since nvcc hashes it into names of internal symbols.
    """
    before, folder = Path.cwd(), Path(tempfile.gettempdir()).resolve() / "ptxwcet-corpus"
    folder.mkdir()
    try:
        for source in sources.iterdir() if sources.is_dir() else [sources]:
            shutil.copy(source, folder)
        os.chdir(folder)
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


# --- one function an origin ------------------------------------------------------------------------


def compile_file(command: str, folder: Path) -> str:
    """The PTX that a compiler writes to ``out.ptx``."""
    subprocess.run([*command.split(), "-o", "out.ptx"], check=True, cwd=folder)
    return without_paths((folder / "out.ptx").read_text(encoding="utf-8"), [folder])


def first_line(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[0]


def from_nvcc() -> tuple[str, list[Output]]:
    """nvcc's PTX of the files in ``cuda``."""
    jobs = [
        (source, arch, NVCC_FLAGS.get(source, ""), f"{source}_{arch}")
        for source, archs in NVCC.items()
        for arch in archs.split()
    ]
    outputs = []
    with build_folder(HERE / "cuda") as folder:
        for source, arch, flags, name in jobs + NVCC_BESIDES:
            command = " ".join(f"nvcc -ptx -arch=sm_{arch} {flags} {source}.cu".split())
            outputs.append(Output(name, arch, command, compile_file(command, folder)))
    found = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    return "nvcc " + found.stdout.split("release ")[1].split("\n")[0], outputs


def from_clang() -> tuple[str, list[Output]]:
    """clang's PTX of the files in ``clang``, without a CUDA toolkit."""
    clang = os.environ.get("CLANG", "clang")
    outputs = []
    with build_folder(HERE / "clang") as folder:
        for source, arch, flags, name in CLANG:
            option = "--cuda-gpu-arch" if source.endswith(".cu") else "-march"
            command = f"-S {flags} {option}=sm_{arch} {source}"
            text = compile_file(f"{clang} {command}", folder)
            outputs.append(Output(name, arch, f"clang {command}", text))
    return first_line(clang, "--version"), outputs


def from_triton() -> tuple[str, list[Output]]:
    """Triton's PTX of the kernels in ``triton_kernels.py``; no GPU is needed."""
    outputs = []
    with build_folder(HERE / "triton_kernels.py") as folder:
        os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        sys.path.insert(0, str(folder))
        kernels = importlib.import_module("triton_kernels")
        for name, archs in TRITON.items():
            for arch in archs.split():
                text = kernels.compile_to_ptx(name, int(arch))
                text = without_paths(text, [folder, Path(sys.prefix)])
                call = f'triton_kernels.compile_to_ptx("{name}", {arch})'
                outputs.append(Output(f"{name}_{arch}", arch, call, text))
    return f"triton {version('triton')}", outputs


def from_numba() -> tuple[str, list[Output]]:
    """Numba's PTX of the kernels in ``numba_kernels.py``; no GPU is needed."""
    outputs = []
    with build_folder(HERE / "numba_kernels.py") as folder:
        sys.path.insert(0, str(folder))
        kernels = importlib.import_module("numba_kernels")
        for name, arch in NUMBA.items():
            text = without_paths(kernels.compile_to_ptx(name, int(arch)), [folder])
            call = f'numba_kernels.compile_to_ptx("{name}", {arch})'
            outputs.append(Output(f"{name}_{arch}", arch, call, text))
    tools = ", ".join(f"{tool} {version(tool)}" for tool in ("numba", "numba-cuda", "nvidia-nvvm"))
    return tools, outputs


# --- results ---------------------------------------------------------------------------------------


def write(origin: str, tool: str, outputs: list[Output]) -> None:
    """The PTX files and ``MANIFEST.toml`` of an origin; older files of it go."""
    folder = CORPUS / origin
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.ptx"):
        old.unlink()
    lines = [f'tool = "{tool}"']
    for output in outputs:
        name = f"{output.name}.ptx"
        (folder / name).write_text(output.text.rstrip("\n") + "\n", encoding="utf-8")
        lines += ["", "[[file]]", f'name = "{name}"', f"command = '{output.command}'"]
    (folder / "MANIFEST.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def assemble(origin: str) -> None:
    """Stops when ptxas, if there, refuses a file of an origin."""
    if shutil.which("ptxas") is None:
        return
    for path in sorted((CORPUS / origin).glob("*.ptx")):
        found = re.search(r"^\s*\.target\s+(sm_\w+)", path.read_text(encoding="utf-8"), re.M)
        assert found is not None, path
        command = ["ptxas", "-c", "-arch", found.group(1), str(path), "-o", os.devnull]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


ORIGINS: dict[str, Callable[[], tuple[str, list[Output]]]] = {
    "nvcc": from_nvcc,
    "clang": from_clang,
    "triton": from_triton,
    "numba": from_numba,
}


def main() -> None:
    """Compiles one origin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("origin", choices=ORIGINS)
    origin = parser.parse_args().origin
    if os.environ.get("PYTHONHASHSEED") != "0":  # Numba writes hashes of strings into names
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    write(origin, *ORIGINS[origin]())
    assemble(origin)


if __name__ == "__main__":
    main()
