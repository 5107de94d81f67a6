"""What machine files claim of caches: what it does to launches, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from answers import only_answer
from places import PACKAGE, ROOT, SAMPLES

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import AssumptionState, Guarantee
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

MEMORY, CACHE, LINES = 253, 22, 36_864
L1, L2 = 1 << 16, LINES * 128
Made = Callable[..., str]


@pytest.fixture
def machine(tmp_path: Path) -> Made:
    """titan-v with caches, of which something is claimed."""

    def made(
        *claims: str,
        tables: str = "12",
        kept: int = L2,
        state: str = "assumed",
        sets: tuple[int, ...] = (),
    ) -> str:
        text = (PACKAGE / "machine/models/titan-v.toml").read_text(encoding="utf-8")
        text = text.replace('name = "titan-v"', 'name = "cached"')
        for one in claims:
            text += f'{one} = {{ state = "{state}", source = "silicon: invented" }}\n'
        rows = {"l1_cache": {"kept_bytes": L1}} if "1" in tables else {}
        if "2" in tables:
            rows["l2_cache"] = {
                "bytes": L2,
                "kept_bytes": kept,
                "cache_cycles_per_1024_sectors": CACHE,
                **dict(zip(("sets", "ways"), sets, strict=False)),
            }
        for table, figures in rows.items():
            text += f"\n[{table}]\n"
            for key, value in figures.items():
                text += f'{key} = {{ value = {value}, evidence = "assumed", source = "silicon" }}\n'
        path = tmp_path / f"m{len(list(tmp_path.iterdir()))}.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return made


def launched(path: str, name: str = "sgemm_naive", grid: str = "8x8") -> LaunchBound:
    file, said, block = SAMPLES / f"{name}.ptx", tuple(f"{one}=256" for one in "MNK"), "32x32"
    if name == "conv2d_3x3":
        file = ROOT / "benchmarks" / "silicon" / f"{name}.ptx"
        said, block = ("rows=512", "columns=512"), "16x16"
    request = Request(
        str(file),
        block=block,
        grid=grid,
        parameters=said,
        machine=path,
        gpu=GridWishes(registers=32),
    )
    found = only_answer(request).launch_bound
    assert isinstance(found, LaunchBound)
    return found


def cycles(passed: int, moved: int) -> int:
    """Of the cache and the memory."""
    served = -(-(CACHE * passed + MEMORY * moved) // (CACHE + MEMORY))
    return -(-(CACHE + MEMORY) * served // 1024)


def test_a_launch_that_fits_is_fetched_once(machine: Made) -> None:
    """Three matrices of 256 KB: each line is fetched once, and once others' are written back."""
    plain = launched(machine())
    passed = 64 * 32 * (8 * 8 + 4)  # sectors of all loads and stores
    assert plain.bound.memory_cycles == cycles(passed, passed)
    found = launched(machine("keeps-recent"))
    read, lines = 2 * 8192, 3 * 2048
    assert found.bound.memory_cycles == cycles(passed, read + 4 * lines)
    assert replace(found.bound, memory_cycles=0) == replace(plain.bound, memory_cycles=0)
    keys = {one.key for one in found.claim.assumptions} - {
        one.key for one in plain.claim.assumptions
    }
    assert keys == {"keeps-recent", "joined-misses", "slots-outlast-the-cache"}
    few = launched(machine("conservative-cache"))
    assert few.claim.cycles == plain.claim.cycles  # all lines of the cache may be brought in
    both = launched(machine("keeps-recent", "conservative-cache"))
    assert both.claim == found.claim


def test_runs_of_lines_in_hashed_sets(machine: Made) -> None:
    """Each matrix of 2,048 lines may meet two pieces of as many: six ways are enough."""
    claim = "xor-hashed-sets"
    kept = launched(machine("keeps-recent"))
    found = launched(machine(claim, sets=(2048, 6)))
    assert found.bound == kept.bound
    keys = {one.key for one in found.claim.assumptions}
    assert claim in keys
    assert "keeps-recent" not in keys
    for few in ((2048, 5), (1024, 6)):
        assert launched(machine(claim, sets=few)).claim == launched(machine()).claim
    with pytest.raises(PtxwcetError, match="is about sets and ways of"):
        load_machine(machine(claim, sets=(2048,)))
    with pytest.raises(PtxwcetError, match="sets is 3072: it must be a power of two"):
        load_machine(machine(claim, sets=(3072, 6)))
    with pytest.raises(PtxwcetError, match="38912 lines of 128 bytes in sets: the cache has 4718"):
        load_machine(machine(claim, sets=(2048, 19)))


def test_the_l1_cache_serves_what_a_block_loads_again(machine: Made) -> None:
    plain = launched(machine(), "conv2d_3x3", "32x32")
    found = launched(machine("l1-keeps-recent"), "conv2d_3x3", "32x32")
    assert found.bound.memory_cycles < plain.bound.memory_cycles
    assert {one.key for one in found.claim.assumptions} >= {"l1-keeps-recent", "joined-misses"}
    # what blocks have of shared memory may be all that there is
    tiled = launched(machine("l1-keeps-recent"))
    assert tiled.claim.cycles == launched(machine()).claim.cycles


def test_doubtful_claims_make_estimates(machine: Made) -> None:
    found = launched(machine("keeps-recent", state="doubtful"))
    assert found.claim.guarantee is Guarantee.ESTIMATE
    (said,) = (one for one in found.claim.assumptions if one.key == "keeps-recent")
    assert said.state is AssumptionState.DOUBTFUL


def test_nothing_is_claimed_beside_others(machine: Made) -> None:
    path, plain = machine("keeps-recent"), machine()

    def beside(name: str) -> int:
        request = Request(
            str(SAMPLES / "sgemm_naive.ptx"),
            block="32x32",
            grid="8x8",
            parameters=tuple(f"{one}=256" for one in "MNK"),
            machine=name,
            gpu=GridWishes(registers=32, co_runner="65536,20"),
        )
        found = only_answer(request).launch_bound
        assert isinstance(found, LaunchBound)
        return found.claim.cycles

    assert beside(path) == beside(plain)


@pytest.mark.parametrize(
    "line",
    [
        "membar.gl;",
        "ld.volatile.global.f32 %f9999, [%rd9999];",
        "ld.global.cs.f32 %f9999, [%rd9999];",
        "ld.global.L1::evict_first.f32 %f9999, [%rd9999];",
    ],
)
def test_kernels_that_tell_caches_what_to_keep(machine: Made, line: str, tmp_path: Path) -> None:
    name = machine("keeps-recent")
    refused = 'fence = { refuse = "no published figure" }'
    timed = 'unit = "MEM", initiation_cycles = 4, latency_cycles = 4, evidence = "assumed"'
    text = (
        Path(name)
        .read_text()
        .replace(refused, f'fence = {{ {timed}, source = "silicon: invented" }}')
    )
    Path(name).write_text(text)
    text = (SAMPLES / "sgemm_naive.ptx").read_text(encoding="utf-8")
    head = text.index("ld.param.u64")
    added = ".reg .b64 %rd9999; .reg .f32 %f9999; ld.param.u64 %rd9999, [sgemm_naive_param_0];"
    added += f" {line}\n"
    for extra in ("", added):
        path = tmp_path / "k.ptx"
        path.write_text(text[:head] + extra + text[head:], encoding="utf-8")
        request = Request(
            str(path),
            block="32x32",
            grid="8x8",
            parameters=tuple(f"{one}=256" for one in "345"),
            machine=name,
            gpu=GridWishes(registers=32),
        )
        found = only_answer(request).launch_bound
        assert isinstance(found, LaunchBound)
        keys = {one.key for one in found.claim.assumptions}
        assert ("keeps-recent" in keys) == (extra == "")


@pytest.mark.parametrize(
    ("claim", "tables", "kept", "message"),
    [
        ("keeps-recent", "1", L2, r"keeps-recent is about the tables \[l2_cache\] and \[memory\]"),
        ("l1-keeps-recent", "2", L2, r"l1-keeps-recent is about the tables \[l1_cache\] and"),
        ("keeps-recent", "12", 2 * L2, "kept_bytes is 9437184: the cache has 4718592"),
        ("keeps-all", "12", L2, "unknown assumption keeps-all"),
    ],
)
def test_what_is_refused(machine: Made, claim: str, tables: str, kept: int, message: str) -> None:
    with pytest.raises(PtxwcetError, match=message):
        load_machine(machine(claim, tables=tables, kept=kept))


def test_caches_are_one_server(machine: Made) -> None:
    path = Path(machine())
    assert load_machine(str(path)).cycles_per_1024_sectors == MEMORY + CACHE
    text = path.read_text() + "\n[carve_out]\n"
    for key, value in (("carve_out_bytes", 4096), ("unit_bytes", 32)):
        text += f'{key} = {{ value = {value}, evidence = "assumed", source = "silicon" }}\n'
    for value in (CACHE, CACHE + 1):
        row = f'{{ value = {value}, evidence = "assumed", source = "silicon" }}'
        path.write_text(f"{text}cache_cycles_per_1024_sectors = {row}\n")
        if value == CACHE:
            assert load_machine(str(path)).cycles_per_1024_sectors == MEMORY + CACHE
        else:
            with pytest.raises(PtxwcetError, match="differ: it is one cache"):
                load_machine(str(path))
