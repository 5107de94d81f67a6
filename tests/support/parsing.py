"""PTX as tests have it, as modules and kernels."""

from __future__ import annotations

from pathlib import Path

from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.source import SourceFile


def parse_text(text: str, name: str = "k.ptx") -> Module:
    return parse_module(SourceFile(name, text))


def parse_kernel(text: str, name: str = "k.ptx") -> Kernel:
    """The only kernel of a text."""
    (kernel,) = parse_text(text, name).kernels
    return kernel


def parse_file(path: Path | str) -> Module:
    return parse_module(read_source(path))


def kernels_of(path: Path | str) -> dict[str, Kernel]:
    """The kernels of a file by their names."""
    return {kernel.name: kernel for kernel in parse_file(path).kernels}


def places_of(kernel: Kernel, *classes: OpClass) -> list[int]:
    """The indices of the instructions of some op classes, in order."""
    return [at for at, one in enumerate(kernel.instructions) if one.op_class in classes]
