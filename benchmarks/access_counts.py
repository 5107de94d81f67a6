"""What the analysis of accesses says of many launches, as text that can be compared.

    python benchmarks/access_counts.py [random kernels] > after.txt
    diff before.txt after.txt

A line an access: of the launch files of samples, suite and hybrid experiment, of every kernel of
every PTX file of the project with some blocks and nothing else known, and of random kernels full of
accesses (300 unless told otherwise). It says counts, least, exactness, reason and a digest of what
is known of the address. It depends on the sources alone.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from access_kernels import access_kernel
from experiments.hybrid_kernels import hybrid_kernels
from kernel_suite import entries, module_of

from ptxwcet.ir.kernel import Kernel
from ptxwcet.memory.analysis import AnalysedAccess, KernelAccesses
from ptxwcet.opened.opening import Opened, RefusedKernel, open_request
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import kernel_accesses

PROJECT = Path(__file__).parents[1]
SAMPLES = PROJECT / "samples"
BLOCKS = ("1", "40", "256", "32x32", "4x3x17")
"""For files without launches: whole warps and others, in rows of many and of few threads."""


def main() -> None:
    """Prints all lines."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for name, request in _requests(count):
        for line in _lines(request):
            print(name, line)


def _requests(count: int) -> Iterator[tuple[str, Request]]:
    for launch in sorted(SAMPLES.glob("launches/*.toml")):
        name = tomllib.loads(launch.read_text(encoding="utf-8"))["kernel"]
        (ptx,) = (p for p in SAMPLES.glob("*.ptx") if f".entry {name}(" in p.read_text("utf-8"))
        yield f"samples {launch.stem}", Request(str(ptx), launch_file=str(launch))
    for entry in entries():
        facts = entry.facts and str(entry.facts)
        request = Request(str(entry.path), launch_file=str(entry.launch), facts_file=facts)
        yield f"suite {entry.kernel}", request
    for kernel in hybrid_kernels():
        for launch in (kernel.launch, kernel.small):
            yield f"hybrid {launch.parent.name} {launch.stem}", kernel.request(launch)
    annotated = PROJECT / "tests/kernels"  # several kernels in one text
    for path in sorted(set(PROJECT.rglob("*.ptx")) - set(annotated.glob("*.ptx"))):
        for block in BLOCKS:
            yield f"{path.relative_to(PROJECT)} {block}", Request(str(path), block=block)
    for seed in range(count):
        random = access_kernel(seed)
        block, grid = ("x".join(map(str, size)) for size in (random.block, random.grid))
        request = Request(
            "k.ptx", block=block, grid=grid, parameters=random.parameters, text=random.text
        )
        yield f"random {seed}", request


def _lines(request: Request) -> Iterator[str]:
    try:
        module = None if request.text is not None else module_of(Path(request.path))
        opened = open_request(request, module)
    except PtxwcetError as error:
        yield f"refused {error.diagnostics[0].code}"
        return
    kernels = opened.kernels
    for kernel, answer in zip(kernels, opened.each(partial(_found, opened)), strict=True):
        if isinstance(answer, RefusedKernel):
            yield f"{kernel.name} refused {answer.diagnostics[0].code}"
            continue
        yield f"{kernel.name} pointers {' '.join(answer.pointers)}"
        for access in answer.accesses:
            yield f"{kernel.name} {_line(access)}"


def _found(opened: Opened, kernel: Kernel) -> KernelAccesses:
    return kernel_accesses(opened.whole(kernel), opened.launch_of(kernel))


def _line(analysed: AnalysedAccess) -> str:
    access, most, least = analysed.access, analysed.most, analysed.least
    counts = [
        f"{kind} {getattr(most, kind)}/{getattr(least, kind)}"
        for kind in ("sectors", "lines", "passes", "words", "serial")
        if getattr(most, kind) or getattr(least, kind)
    ]
    value = analysed.value
    text = "nothing" if value is None else repr([pattern.key[:-1] for pattern in value])
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    said = "exact" if analysed.exact else "at most"
    what = f"{analysed.index} {access.space.value} {access.purpose.value} {access.access_bytes}"
    return f"{what} {said} {', '.join(counts)} ({analysed.reason}) {digest}"


if __name__ == "__main__":
    main()
