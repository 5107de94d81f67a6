"""The samples in the block sizes that their code allows, on the multi-phase paper's machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.kernel_files import kernel_folder
from ptxwcet.opened.request import Request

MACHINE = "orin-ecrts2025"


@dataclass(frozen=True, slots=True)
class SampleLaunch:
    """A sample and how it is launched."""

    name: str
    block: str | None
    grid: str | None = None
    parameters: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The PTX file."""
        return kernel_folder("samples") / f"{self.name}.ptx"

    def request(self, latency: int) -> Request:
        """The bounds of the kernels in the file, with this latency of global memory in cycles."""
        return Request(
            str(self.path),
            block=self.block,
            grid=self.grid,
            parameters=self.parameters,
            machine=MACHINE,
            memory_latency_cycles=latency,
        )


def sample_launches() -> list[SampleLaunch]:
    """Every sample that is bounded without facts, in all its launches."""
    lines = ("32", "64", "128", "256", "512", "1024")
    launches = [
        SampleLaunch("sgemm_naive", "32x32", None, ("K=1024",)),
        SampleLaunch("sgemm_double_buffered", "32x32", None, ("K=1024",)),
        SampleLaunch("sgemm_cp_async", "32x32", None, ("K=1024",)),
        SampleLaunch("transpose_tiled", "32x8"),
        SampleLaunch("scan", "1024"),
        SampleLaunch("bitonic_sort", "1024"),
        SampleLaunch("stencil_2d", "32x8"),
        SampleLaunch("block_reduce", "256", None, ("n=10000",)),
        SampleLaunch("convolution", "128", "8", ("n=1000",)),
        SampleLaunch("triton_add", None, "8", ("3=4000",)),
    ]
    launches += [SampleLaunch("vector_add", block, "4", ("n=1000",)) for block in lines]
    launches += [SampleLaunch("saxpy", block, "4", ("n=100000",)) for block in lines]
    launches += [SampleLaunch("histogram", "256", grid, ("n=100000",)) for grid in ("2", "8", "32")]
    launches += [SampleLaunch("triangular", block, None, ("n=1000",)) for block in lines]
    launches += [SampleLaunch("loops", block, None, ("n=1000",)) for block in lines]
    launches += [
        SampleLaunch("transpose_naive", f"32x{rows}", "32x125", ("width=1000", "height=1000"))
        for rows in (4, 8, 16, 32)
    ]
    return launches
