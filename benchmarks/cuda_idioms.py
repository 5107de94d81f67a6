"""Idioms of CUDA with random constants and types, compiled by ``nvcc -O3`` in batches."""

from __future__ import annotations

from collections.abc import Iterator

from random_programs import RandomKernel

IDIOMS: tuple[str, ...] = ()


def compiled_kernels(kind: str, count: int, seed: int) -> Iterator[RandomKernel]:
    raise NotImplementedError
