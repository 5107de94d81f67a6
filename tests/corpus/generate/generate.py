"""Generates the PTX corpus: ``python generate.py nvcc|triton|numba|clang``.

Each origin needs its compiler (see ``../ptx/README.md`` for the versions used). Outputs go to
``../ptx/<origin>/`` and are committed; folders of the machine are cut from ``.file`` directives.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE.parent / "ptx"
NVCC = [
    ("constructs.cu", ("75", "86", "90", "100")),
    ("tensor.cu", ("75", "80", "90", "90a", "100")),
]


def without_folder(text: str, folder: str) -> str:
    """The text with the bytes of ``folder`` in debug sections replaced by dots, lengths kept."""
    separator = r"(?P<gap%d>[ \t]*,[ \t]*|[^\n]*\n[ \t]*\.b8[ \t]+)"
    codes = [str(ord(letter)) for letter in folder]
    pattern = codes[0] + "".join(separator % i + code for i, code in enumerate(codes[1:]))

    def dots(match: re.Match[str]) -> str:
        return "46" + "".join(f"{match[f'gap{i}']}46" for i in range(len(codes) - 1))

    return re.sub(rf"\b{pattern}\b", dots, text)


def save(path: Path, text: str) -> None:
    """Writes PTX without the folders that ``.file`` directives and debug sections name."""
    text = without_folder(text, str(HERE))
    text = re.sub(r'(\.file\s+\d+\s+")[^"]*/([^"/]+")', r"\1\2", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(path.relative_to(OUT), len(text))


def compile_nvcc() -> None:
    """nvcc for each (file, architecture) pair, with line information; one debug build."""
    for source, architectures in NVCC:
        for arch in architectures:
            flags = ["-ptx", f"-arch=sm_{arch}", "-lineinfo", "-std=c++17"]
            _nvcc(source, flags, OUT / "nvcc" / f"{Path(source).stem}_sm{arch}.ptx")
    _nvcc("debug.cu", ["-ptx", "-arch=sm_86", "-G"], OUT / "nvcc" / "debug_sm86.ptx")


def _nvcc(source: str, flags: list[str], target: Path) -> None:
    done = subprocess.run(
        ["nvcc", *flags, source, "-o", "-"], cwd=HERE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    save(target, done.stdout)


def compile_triton() -> None:
    """Triton's kernels for sm_80 and sm_90, without a GPU."""
    from triton_kernels import compiled

    for name, text in compiled():
        save(OUT / "triton" / f"{name}.ptx", text)


def compile_numba() -> None:
    """Numba's kernels for sm_86, without a GPU."""
    from numba_kernels import compiled

    for name, text in compiled():
        save(OUT / "numba" / f"{name}.ptx", text)


def compile_clang() -> None:
    """clang's NVPTX backend on OpenCL C."""
    for optimise in ("-O1", "-O2"):
        done = subprocess.run(
            ["clang", "-x", "cl", "-cl-std=CL2.0", "-target", "nvptx64-nvidia-cuda"]
            + ["-Xclang", "-target-feature", "-Xclang", "+ptx75", "-march=sm_80", optimise, "-S"]
            + ["opencl_kernels.cl", "-o", "-"],
            cwd=HERE,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        save(OUT / "clang" / f"opencl_kernels{optimise}.ptx", done.stdout)


if __name__ == "__main__":
    {
        "nvcc": compile_nvcc,
        "triton": compile_triton,
        "numba": compile_numba,
        "clang": compile_clang,
    }[sys.argv[1]]()
