"""Draws the Voronoi study's runs: ``python benchmarks/pwcet_voronoi.py --runs 2000``.

The four conditions of Berezovskyi et al. (RTNS 2014, section 5): 1, 8, 28 and 32 blocks of 1024
threads on 8 SMs, 32 seeds. Writes the times of every run, for ``ptxwcet pwcet``, and the static
bounds; ``docs/experiments/pwcet-voronoi.md`` was made from them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ptxwcet.api import Request
from ptxwcet.pwcet_runs import DrawOptions, draw_runs

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = (1, 8, 28, 32)


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
    given = parser.parse_args()
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
        launch = ROOT / "samples" / "launches" / f"voronoi-{blocks}.toml"
        begin = time.monotonic()
        drawn = draw_runs(
            Request(str(ROOT / "samples" / "voronoi.ptx"), launch_file=str(launch)), options
        )
        lines += [f"VOR-{blocks},{value:.0f}" for value in drawn.condition.times]
        seconds = time.monotonic() - begin
        print(f"VOR-{blocks}: {seconds:.0f} s, {drawn.bound.cycles} ({drawn.bound.reason})")
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
