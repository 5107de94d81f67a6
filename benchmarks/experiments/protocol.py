"""What the multi-phase protocol compares, and what its text leaves open about SGEMM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.kernel_files import kernel_folder
from ptxwcet.simulator.policies import Policy

POLICIES = (Policy.LRR, Policy.GTO)
METHODS = ("safe", "gub", "lower")
_DEPTH = 1024


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of how the paper runs SGEMM with fewer than 32 warps.

    With ``has_own_codes`` there is a code for each number of warps, which computes so many rows of
    C; otherwise the code of the 32 x 32 tile is launched with fewer warps. ``follows_threads``: K
    is 32 times the number of warps; otherwise it is 1024.
    """

    name: str
    says: str
    has_own_codes: bool
    follows_threads: bool

    def path(self, version: str) -> Path:
        """The PTX file of a version of SGEMM."""
        if self.has_own_codes:
            return kernel_folder("sgemm") / "sgemm_warps.ptx"
        return kernel_folder("samples") / f"sgemm_{version}.ptx"

    def kernel(self, version: str, warps: int) -> str:
        """The kernel in that file."""
        return f"{version}_{warps}" if self.has_own_codes else f"sgemm_{version}"

    def parameter(self, warps: int) -> str:
        """K, the columns of A and rows of B, as it is given to the kernel: its last parameter."""
        depth = 32 * warps if self.follows_threads else _DEPTH
        return f"{4 if self.has_own_codes else 5}={depth}"


READINGS = (
    Reading("one code", "the code of the 32 x 32 tile with fewer warps, K = 1024", False, False),
    Reading("own codes", "a code for each number of warps, K = 1024", True, False),
    Reading("own K", "a code for each number of warps, K = 32 times the warps", True, True),
)
"""The nearest to the paper's figures comes first."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Bounds and runs of a block in cycles, by method and by policy.

    ``profile`` and ``simulated`` are a single warp's, ``reading`` is of an SGEMM of Table 4.
    """

    kernel: str
    block: str
    warps: int
    latency: int
    bounds: dict[str, int]
    runs: dict[str, int]
    profile: int
    simulated: int
    reading: Reading | None = None

    def over(self, method: str, policy: str) -> float:
        """How far a bound lies above a run, in percent."""
        return 100 * (self.bounds[method] / self.runs[policy] - 1)

    def above_lower(self, policy: str) -> float:
        """How far a run lies above the lower bound, in percent."""
        return 100 * (self.runs[policy] / self.bounds["lower"] - 1)
