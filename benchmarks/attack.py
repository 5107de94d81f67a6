"""The long attack: random blocks by the hundred thousand, bounds against worst cases and runs.

``python benchmarks/attack.py --workloads 1000000 --workers 2 --out docs/experiments/attack.json``
writes the counts as JSON and prints them as Markdown; the same command goes on where it was stopped
(:mod:`units_on_engine`). The counts depend on the sources, the seed and the number of workloads,
not on workers. ``ptxwcet validate attack blocks`` is the same attack without these tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from units_on_engine import kept_beside, run_units

from ptxwcet.support.installation import describe_sources
from ptxwcet.validate.attack import MOST_STATES, Tally, attack, quantile
from ptxwcet.validate.generator import FAMILIES, Family
from ptxwcet.validate.witness import find_witness

CHUNK = 240
SHARES = {"least": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "most": 1.0}
SHOWN = ("least", "median", "95 %", "most")
"""The quantiles that are printed."""
BIN = 50  # permille
MOST_WITNESSES = 10
SHRINKING_SECONDS = 30.0

Chunk = dict[str, Any]


def main() -> None:
    """Runs what is missing, then writes the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack.json"))
    options = parser.parse_args()
    firsts = range(0, options.workloads, CHUNK)
    jobs = [(options.seed, first, min(first + CHUNK, options.workloads)) for first in firsts]
    with kept_beside(options.out) as folder:
        done = run_units("attack:run_chunk", jobs, folder, options.workers)
        chunks = [chunk for _, chunk in done]
        summary = summarise(chunks, options.workloads, options.seed, describe_sources())
        options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        print("\n".join(page(summary)))
    print(f"{summary['violations']} violations; {options.out}")


def run_chunk(job: tuple[int, int, int], _: Mapping[str, bytes]) -> Chunk:
    """The counts of the workloads ``first`` to ``last - 1``; witnesses of what is violated."""
    seed, first, last = job
    tallies, violating = attack(seed, range(first, last))
    witnesses = [
        list(find_witness(case, violation, plan, seconds=SHRINKING_SECONDS).lines())
        for case, plan, violation in violating[:1]
    ]
    families = {family: to_json(tally) for family, tally in tallies.items()}
    return {"families": families, "witnesses": witnesses}


def to_json(tally: Tally) -> dict[str, Any]:
    """A tally as plain data; :func:`from_json` reads it back."""
    return {
        name: {str(key): value[key] for key in sorted(value)}
        if isinstance(value, Counter)
        else value
        for name, value in vars(tally).items()
    }


def from_json(data: dict[str, Any]) -> Tally:
    tally = Tally()
    for name, value in data.items():
        if name.endswith("permille"):
            value = Counter({int(key): count for key, count in value.items()})
        elif isinstance(value, dict):
            value = Counter(value)
        setattr(tally, name, value)
    return tally


def summarise(chunks: list[Chunk], workloads: int, seed: int, sources: str) -> dict[str, Any]:
    merged = {family.name: Tally() for family in FAMILIES}
    witnesses: list[list[str]] = []
    for chunk in chunks:
        witnesses += chunk["witnesses"]
        for family, data in chunk["families"].items():
            merged[family].merge(from_json(data))
    checks: Counter[str] = Counter()
    for tally in merged.values():
        checks.update(tally.checks)
    return {
        "workloads": workloads,
        "seed": seed,
        "sources_sha256": sources,
        "most_states": MOST_STATES,
        "violations": sum(tally.violations for tally in merged.values()),
        "checks": dict(sorted(checks.items())),
        "families": [describe(family, merged[family.name]) for family in FAMILIES],
        "witnesses": witnesses[:MOST_WITNESSES],
    }


def describe(family: Family, tally: Tally) -> dict[str, Any]:
    data = to_json(tally)
    del data["safe_permille"], data["gub_permille"]
    distribution = dataclasses.asdict(family)
    distribution["scoreboards"] = [one.value for one in family.scoreboards]
    return {
        "distribution": distribution,
        **data,
        "safe_over_longest": spread(tally.safe_permille),
        "gub_over_longest": spread(tally.gub_permille),
    }


def spread(permille: Counter[int]) -> dict[str, Any]:
    """Quantiles (permille), and a histogram: cases by the lower end of a bin of 5 %."""
    bins: Counter[int] = Counter()
    for value, count in permille.items():
        bins[value // BIN * BIN] += count
    return {
        "quantiles": {label: quantile(permille, share) for label, share in SHARES.items()},
        "exact": permille[1000],
        "histogram": {str(low): bins[low] for low in sorted(bins)},
    }


# --- the page -------------------------------------------------------------------------------------


def page(summary: dict[str, Any]) -> Iterator[str]:
    families = summary["families"]
    yield "# Attack: random blocks against the bounds"
    yield ""
    yield (
        f"    python benchmarks/attack.py --workloads {summary['workloads']} "
        f"--seed {summary['seed']} --out docs/experiments/attack.json"
    )
    yield ""
    yield (
        f"{summary['workloads']:,} random blocks (seed {summary['seed']}), "
        f"{sum(f['searched'] for f in families):,} of them searched exhaustively over all "
        f"work-conserving schedules ({sum(f['states'] for f in families):,} states; "
        f"{sum(f['given_up'] for f in families):,} searches given up above "
        f"{summary['most_states']:,} states), {sum(f['runs'] for f in families):,} runs under "
        f"policies. **Violations of what must hold: {summary['violations']:,}.** All counts, the "
        "parameters of the families and histograms are in `attack.json`; the generator is "
        "`ptxwcet/validate/generator.py`, a case is a function of family, seed and index."
    )
    yield ""
    yield "| what must hold | times checked |"
    yield "|---|---:|"
    for check, count in summary["checks"].items():
        yield f"| {check} | {count:,} |"
    for lines in summary["witnesses"]:
        yield from ("", *(f"    {line}" for line in lines))
    yield from tightness(families)
    yield from exceeded(families)
    yield from ("", *NOTES.strip().splitlines())


def tightness(families: list[dict[str, Any]]) -> Iterator[str]:
    yield from ("", "## How tight", "")
    yield (
        "Bound / longest observed: the exact worst case where it was searched, else the longest "
        "run with nominal timings (all policies, and the adversary in one case of eight)."
    )
    yield ""
    labels = " | ".join(SHOWN)
    yield f"| family | | cases | SAFE exact | SAFE: {labels} | GUB: {labels} |"
    yield "|---|---|---:|---:" + "|---:" * (2 * len(SHOWN)) + "|"
    for family in families:
        distribution = family["distribution"]
        safe, gub = family["safe_over_longest"], family["gub_over_longest"]
        cells = [ratio(q) for one in (safe, gub) for q in map(one["quantiles"].get, SHOWN)]
        yield (
            f"| {distribution['name']} | {distribution['title']} | {family['cases']:,} | "
            f"{safe['exact']:,} | {' | '.join(cells)} |"
        )


def ratio(permille: int | None) -> str:
    return "" if permille is None else f"{permille / 1000:.3f}"


def exceeded(families: list[dict[str, Any]]) -> Iterator[str]:
    ways = sorted({way for family in families for way in family["gub_exceeded"]})
    yield from ("", "## GUB as published, exceeded", "")
    if not ways:
        yield "No schedule of these blocks exceeds GUB."
        return
    yield "In the families that are not listed no schedule exceeds it."
    yield ""
    yield f"| family | GUB known | {' | '.join(ways)} |"
    yield "|---|---:" + "|---:" * len(ways) + "|"
    for family in families:
        if not family["gub_exceeded"]:
            continue
        cells = [f"{family['gub_exceeded'].get(way, 0):,}" for way in ways]
        known = f"{family['gub_known']:,}"
        yield f"| {family['distribution']['name']} | {known} | {' | '.join(cells)} |"
    examples = [line for family in families for line in family["gub_examples"][:1]]
    yield from ("", "One of each family (`attack.json` has more):", "")
    yield from (f"    {line}" for line in examples)


NOTES = """
## Notes

* Columns of the second table are the number of blocks for which a schedule of that kind exceeds
  GUB: `exhaustive` the exact worst case, `adversary` the guided search, `lrr`, `gto` and the others
  a run under that policy with nominal timings, `jitter` a run with timings shortened at random.
  GUB is an estimate: these are no violations.
* The tiny families are drawn to be searched completely; the distribution of the larger ones says
  nothing about real kernels (docs/experiments/ecrts2025.md has those).
* A case of the list is made again by `random_case(family, seed, index)`.
"""


if __name__ == "__main__":
    main()
