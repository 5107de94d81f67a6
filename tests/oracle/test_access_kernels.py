"""Random kernels that access memory run to their end, and have what an analysis may stumble on."""

from access_kernels import access_kernel
from executed_transactions import executed_transactions
from parsing import parse_text
from thoroughness import drawn

FEATURES = {
    *("loop", "moving pointer", "branch", "predicate of data", "data", "cut"),
    *("wrap", "narrow", "choice", "ld", "st", "atom", "red"),
    *("cp.async 4", "cp.async 8", "cp.async 16", "ldmatrix", "ldmatrix of bytes", "generic"),
    *(f"{space} {width}" for space in ("global", "shared") for width in (1, 2, 4, 8, 16)),
    *(f"{space} {width}" for space in ("local", "const") for width in (1, 2, 4, 8, 16)),
}


def test_random_kernels_run() -> None:
    features: set[str] = set()
    full = partial = 0
    for seed in range(drawn(250)):
        kernel = access_kernel(seed)
        module = parse_text(kernel.text)
        _, seen = executed_transactions(module.kernels[0], module, kernel.launch())
        features |= kernel.features
        for (_, _, space), row in seen.items():
            wide = max(1, max(row.widths) // 4) if space in ("local", "const", "param") else 1
            assert 0 < max(row.largest.all()) <= 32 * wide
            full += row.full is not None
            partial += row.full is None
    assert features >= FEATURES
    assert full > drawn(1000)
    assert partial > drawn(100)
