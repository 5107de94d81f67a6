"""The experiment of the hybrid analysis: the kernels of Betts and Donaldson's Table II.

python benchmarks/hybrid_experiment.py trace --store build/hybrid --inputs 100 --resume
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hybrid_kernels import HybridKernel, hybrid_kernels
from hybrid_runs import Store


def trace(store: Store, kernels: Sequence[HybridKernel], inputs: int, resume: bool) -> None:
    """Makes the runs that are not there."""
    for kernel in kernels:
        if not resume:
            store.clear(kernel)
        seconds, made = 0.0, 0
        for number in range(inputs):
            if store.run(kernel, number) is None:
                seconds += store.make(kernel, number).seconds
                made += 1
        print(f"{kernel.name}: {made} runs traced in {seconds:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=["trace"])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("--jitter", type=int, default=0)
    parser.add_argument("--kernels", default="")
    parser.add_argument("--resume", action="store_true")
    o = parser.parse_args()
    names = o.kernels.split(",") if o.kernels else None
    ks = [k for k in hybrid_kernels() if names is None or k.name in names]
    trace(Store(o.store, o.jitter), ks, o.inputs, o.resume)
    return 0


if __name__ == "__main__":
    sys.exit(main())
