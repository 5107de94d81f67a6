"""Runs the microbenchmarks on a GPU, and returns their clocks as a table of results.

The clocks of the first of four rounds are left out: the instruction caches are cold in it.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.machine.microbenchmarks import microbenchmarks
from ptxwcet.machine.results import COLUMNS
from ptxwcet.support.gpu import GpuLaunch, launch_on_gpu, load_bindings

_BUFFER_BYTES = 256 << 20  # copied before it is loaded; the remainder evicts that part from the L2
_ROUNDS = 4


def measure_on_gpu() -> str:
    """Returns the text of a table of results of the first GPU.

    Raises PtxwcetError (PW661) without a GPU. Cost: a launch for each microbenchmark.
    """
    bindings = load_bindings()
    memory = np.zeros(_BUFFER_BYTES, dtype=np.uint8)
    lines = [",".join(COLUMNS)]
    for benchmark in microbenchmarks().values():
        times = np.zeros(2 * _ROUNDS + 1, dtype=np.uint64)
        arguments = (times, memory)
        launch = GpuLaunch(benchmark.text(), "microbenchmark", (1, 1, 1), (32, 1, 1), 0, arguments)
        after = launch_on_gpu(bindings, launch)[0]
        assert after is not None, "times is an array"
        for short, long in after[2 : 2 * _ROUNDS].reshape(-1, 2):
            lines.append(f"{benchmark.name},{short},{long}")
    return "\n".join((*lines, ""))
