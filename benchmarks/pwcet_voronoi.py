"""The Voronoi study: ``python benchmarks/pwcet_voronoi.py --runs 2000``, then ``--tables``.

The four conditions of Berezovskyi et al. (RTNS 2014, section 5): 1, 8, 28 and 32 blocks of 1024
threads on 8 SMs, 32 seeds. The first call draws the runs and writes the times of every run, for
``ptxwcet pwcet``, and prints the static bounds. ``--tables`` prints their Tables 1 and 2 from the
times, with Gumbel and blocks of 25 as theirs, and with the defaults, beside the published figures;
``docs/experiments/pwcet-voronoi.md`` has them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ptxwcet.pwcet.settings import Extraction, Settings, Shape
from ptxwcet.pwcet.study import make_sample, study_sample
from ptxwcet.studies.pwcet_runs import DrawOptions, draw_runs
from ptxwcet.studies.request import Request
from ptxwcet.trace.measurement_files import ReadOptions, read_measurements

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "benchmarks" / "kernels" / "voronoi"
BLOCKS = (1, 8, 28, 32)

# their Table 1, T_DEV: p of runs test, of KS and of Ljung-Box, AR order, theta; Table 2, ns
PUBLISHED_TESTS = {
    1: ("0.3175", "0.9987", "0.7407", "1", "1"),
    8: ("0.7844", "0.9601", "0.1424", "0", "0.992"),
    28: ("0.664", "0.6104", "0.9205", "0", "1"),
    32: ("0.5288", "0.727811", "0.9715", "0", "1"),
}
PUBLISHED_LEVELS = {
    1: (12083, 12278, 12474),
    8: (20600, 20989, 21248),
    28: (80061, 104613, 128051),
    32: (88252, 115189, 142510),
}


def tables(path: Path) -> str:
    """Both tables in Markdown."""
    measured = read_measurements([str(path)], ReadOptions())
    theirs = Settings(Extraction.BLOCKS, Shape.ZERO, block_size=25)
    first = ["| | runs p | KS p | LB p | AR (AIC) | theta (blocks) | theta (intervals) |"]
    first.append("|---|--:|--:|--:|--:|--:|--:|")
    second = ["| | 1e-6 | 1e-9 | 1e-12 | high-water mark | claim |", "|---|--:|--:|--:|--:|---|"]
    ratios = ["| | here, 1e-9 / 1e-6 | published | here, over VOR-1 | published |"]
    ratios.append("|---|--:|--:|--:|--:|")
    base = 0.0
    for blocks, row in zip(BLOCKS, measured.conditions, strict=True):
        sample = make_sample(row.label, row.times, 0)
        mine = [study_sample(sample, how) for how in (theirs, Settings())]
        p = {test.name: test.p for test in mine[1].outcomes}
        index = mine[1].index
        cells = [f"{p[name]:.4f}" for name in ("runs test", "KS of halves", "Ljung-Box")]
        cells += [str(mine[1].serial.order_aic), f"{index.blocks:.3f}", f"{index.intervals:.3f}"]
        first.append(f"| VOR-{blocks} | " + " | ".join(cells) + " |")
        first.append(f"| *published* | {' | '.join(PUBLISHED_TESTS[blocks])} | |")
        mark = f"{sample.high_water_mark:,.0f}"
        rows = (
            ("Gumbel, b = 25, estimated", mine[0], [row.estimate for row in mine[0].curve]),
            ("default, estimated", mine[1], [row.estimate for row in mine[1].curve]),
            ("default, pWCET", mine[1], [row.pwcet for row in mine[1].curve]),
        )
        for name, study, times in rows:
            told = " | ".join(f"{one:,.0f}" for one in times)
            claim = study.claim.guarantee.value if study.claim.guarantee else "refused"
            claim = claim if name.endswith("pWCET") else "-"
            second.append(f"| VOR-{blocks}, {name} | {told} | {mark} | {claim} |")
        published = PUBLISHED_LEVELS[blocks]
        told = " | ".join(f"{one:,}" for one in published)
        second.append(f"| *published, ns* | {told} | | |")
        levels = [point.estimate for point in mine[0].curve]
        base = base or levels[0]
        ratios.append(
            f"| VOR-{blocks} | {levels[1] / levels[0]:.3f} | {published[1] / published[0]:.3f} | "
            f"{levels[0] / base:.2f} | {published[0] / PUBLISHED_LEVELS[1][0]:.2f} |"
        )
    return "\n\n".join("\n".join(table) for table in (first, second, ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--inputs", type=int, default=4)
    parser.add_argument("--policy", default="lrr")
    parser.add_argument("--jitter", type=int, default=25)
    parser.add_argument("--launch-gap", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    out = ROOT / "docs" / "experiments" / "pwcet-voronoi.csv"
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--tables", action="store_true", help="print the tables of --out")
    given = parser.parse_args()
    if given.tables:
        print(tables(given.out))
        return
    options = DrawOptions(
        given.runs,
        given.inputs,
        given.policy,
        given.jitter,
        given.launch_gap,
        sms=8,
        seed=given.seed,
    )
    lines = ["condition,cycles"]
    for blocks in BLOCKS:
        launch = KERNEL / f"voronoi-{blocks}.toml"
        begin = time.monotonic()
        drawn = draw_runs(Request(str(KERNEL / "voronoi.ptx"), launch_file=str(launch)), options)
        lines += [f"VOR-{blocks},{value:.0f}" for value in drawn.condition.times]
        seconds = time.monotonic() - begin
        print(f"VOR-{blocks}: {seconds:.0f} s, {drawn.bound.cycles} ({drawn.bound.reason})")
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
