"""Random kernels against the analysis of accesses: none may need more than it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from access_containment import compare
from access_kernels import AccessKernel, access_kernel
from executed_transactions import executed_transactions

from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request
from ptxwcet.timing.launch_costs import kernel_accesses


@dataclass
class Attacked:
    """Kernels, the accesses that they executed, those of them that are exact, and what is wrong."""

    kernels: int = 0
    accesses: int = 0
    exact: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Attacked) -> None:
        """Sums both."""
        self.kernels += other.kernels
        self.accesses += other.accesses
        self.exact += other.exact
        self.wrong += other.wrong


def attack(seed: int) -> Attacked:
    """The kernel of a seed, analysed and executed; an analysis that fails is wrong as well."""
    return attack_kernel(access_kernel(seed))


def attack_kernel(one: AccessKernel) -> Attacked:
    """The same for a kernel that is given."""
    request = Request(
        "k.ptx",
        block="x".join(map(str, one.block)),
        grid="x".join(map(str, one.grid)) if one.says_grid else None,
        parameters=one.parameters,
        text=one.text,
    )
    opened = open_request(request)
    (kernel,) = opened.kernels
    executed, seen = executed_transactions(kernel, opened.module, one.launch())
    try:
        found = kernel_accesses(opened.whole(kernel), opened.launch_of(kernel))
    except AssertionError as error:
        return Attacked(1, 0, 0, [f"seed {one.seed}: assertion: {error}"])
    accesses, exact, wrong = compare(executed, found.accesses, seen)
    return Attacked(1, accesses, exact, [f"seed {one.seed}: {text}" for text in wrong])
