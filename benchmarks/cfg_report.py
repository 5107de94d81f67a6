"""What many verdicts on random kernels come to: counts, distributions, a page and a picture.

The excess of a bound is ``bound / truth - 1``, in thousandths, rounded up: 0 means equal.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfg_conditions import OF_BLOCK, OF_WARP


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one kernel. A bound or truth is 0 where there is none.

    ``refusal`` is the code of the refusal, "too many" where the executions were not enumerated.
    ``bounds`` and ``truths`` are of one warp and of a block; a block's bound that rests on there
    being no data races is not compared, its truth is 0.
    """

    seed: int
    features: frozenset[str]
    refusal: str = ""
    executions: int = 0
    bounds: tuple[int, int] = (0, 0)
    truths: tuple[int, int] = (0, 0)

    @property
    def is_sound(self) -> bool:
        """Whether no bound is below the truth."""
        return all(b >= t for b, t in zip(self.bounds, self.truths, strict=True))


SCOPES = ("one warp", "block")
_SHOWN = 3
_INEXACT = frozenset({"data", "both", "return", "break", "continue", "correlated"})


def kinds_of(features: frozenset[str]) -> str:
    """What decides the kernel's branches: the least known of them."""
    if features & {"data", "both"}:
        return "each lane"
    return "alike" if features & {*OF_BLOCK, *OF_WARP} else "known"


def is_exact(features: frozenset[str], scope: str) -> bool:
    """Whether the bound of a kernel with these features equals the truth: asserted for all.

    Nothing open: always, unless a loop changes a flag (the closed form of a loop has no flags) or
    lanes return early or ``continue``.
    Else on structured control flow that lanes of a warp take alike, with instructions behind it,
    and without early returns, ``break``, ``continue`` and conditions that depend on one another;
    for a block moreover if paths use the same units and no condition is alike in the block.
    """
    if "toggled" in features:
        return False
    if kinds_of(features) == "known":
        return not ("lane" in features and features & {"return", "continue"})
    if not {"structured", "tail"} <= features or features & _INEXACT:
        return False
    return scope == "one warp" or ("same units" in features and not features & {*OF_BLOCK})


@dataclass(slots=True)
class Excess:
    """A distribution: how many kernels have an excess of so many thousandths."""

    counts: Counter[int] = field(default_factory=Counter)

    @property
    def number(self) -> int:
        """How many kernels."""
        return sum(self.counts.values())

    @property
    def mean(self) -> float:
        """The mean, in thousandths."""
        return sum(k * n for k, n in self.counts.items()) / max(1, self.number)

    def quantile(self, share: float) -> int:
        """The smallest excess that at least this share of the kernels does not exceed."""
        needed, seen = share * self.number, 0
        for excess in sorted(self.counts):
            seen += self.counts[excess]
            if seen >= needed:
                return excess
        return 0

    @property
    def equal(self) -> float:
        """The share of kernels without excess."""
        return self.counts[0] / max(1, self.number)


@dataclass(slots=True)
class Summary:
    """Verdicts added up; chunks of them merge. ``groups`` and ``features`` map names to excess."""

    kernels: int = 0
    executions: int = 0
    seconds: float = 0.0
    refusals: Counter[str] = field(default_factory=Counter)
    unsound: list[int] = field(default_factory=list)
    inexact: list[int] = field(default_factory=list)
    crashed: list[int] = field(default_factory=list)
    groups: dict[str, Excess] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        """Counts one more kernel."""
        self.kernels += 1
        self.executions += verdict.executions
        if verdict.refusal:
            self.refusals[verdict.refusal] += 1
            if verdict.refusal.startswith("crash"):
                self.crashed.append(verdict.seed)
            return
        if not verdict.is_sound:
            self.unsound.append(verdict.seed)
            return
        features = verdict.features
        shape = "structured" if "structured" in features else "unstructured"
        for scope, bound, truth in zip(SCOPES, verdict.bounds, verdict.truths, strict=True):
            if not truth:
                continue  # not compared
            excess = -(-1000 * (bound - truth) // truth)
            exact = is_exact(features, scope)
            if exact and excess:
                self.inexact.append(verdict.seed)
            names = [f"{shape}, {kinds_of(features)}", *(f"with {one}" for one in features)]
            names += ["all", f"exact, {kinds_of(features)}"] if exact else ["all"]
            for name in names:
                self.groups.setdefault(f"{scope}: {name}", Excess()).counts[excess] += 1

    def merge(self, other: Summary) -> None:
        """Adds another summary."""
        self.kernels += other.kernels
        self.executions += other.executions
        self.seconds += other.seconds
        self.refusals += other.refusals
        self.unsound += other.unsound
        self.inexact += other.inexact
        self.crashed += other.crashed
        for name, excess in other.groups.items():
            self.groups.setdefault(name, Excess()).counts.update(excess.counts)

    def data(self) -> dict[str, Any]:
        """As plain data."""
        groups = {name: dict(excess.counts) for name, excess in self.groups.items()}
        return {
            "kernels": self.kernels,
            "executions": self.executions,
            "seconds": round(self.seconds, 1),
            "refusals": dict(self.refusals),
            "unsound": self.unsound,
            "inexact": self.inexact,
            "crashed": self.crashed,
            "groups": groups,
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Summary:
        """From plain data, whose keys were made texts."""
        groups = {
            name: Excess(Counter({int(excess): n for excess, n in counts.items()}))
            for name, counts in data["groups"].items()
        }
        return Summary(**{**data, "refusals": Counter(data["refusals"]), "groups": groups})


def write_report(total: Summary, command: str) -> str:
    """The page. Cost: linear in the groups."""
    checked = total.groups.get("one warp: all", Excess()).number
    lines = [
        "# Random control flow: bounds against all executions",
        "",
        f"    {command}",
        "",
        "Random small kernels with structured and unstructured control flow, whose branches depend "
        "on what is known, on values alike in the block or in the warp, and on data of each lane "
        "(`benchmarks/cfg_kernels.py`). All executions of a warp are enumerated by a program that "
        "shares nothing with path analysis (`benchmarks/cfg_oracle.py`); the truth of a block is "
        "SAFE of its warps' executions, section by section, in each world of values alike in the "
        "block. A full warp is shown by its lanes 0 to at most 3, one of each class that the "
        "kernel tells apart: the truth of a block may be larger than the enumerated where lanes "
        "part on data one by one.",
        "",
        f"* {total.kernels} kernels, {checked} compared, {total.executions} executions of a warp, "
        f"{total.seconds:.0f} processor seconds.",
        f"* **Bounds below the truth: {len(total.unsound)}**"
        + (f" (seeds {total.unsound[:20]})." if total.unsound else "."),
        f"* Bounds above the truth where equality is asserted: {len(total.inexact)}"
        + (f" (seeds {total.inexact[:20]})." if total.inexact else "."),
        f"* Tracebacks: {len(total.crashed)}"
        + (f" (seeds {total.crashed[:20]})." if total.crashed else "."),
        "* Not compared: "
        + (", ".join(f"{code} {n}" for code, n in total.refusals.most_common()) or "none")
        + f" ({100 * total.refusals.total() / max(1, total.kernels):.1f} %).",
        "",
        "Excess of the bound, `bound / truth - 1`, in per cent:",
        "",
        *_table(total, [name for name in total.groups if "with " not in name]),
        "",
        "The CSV file (--out) has the same for the elements of a kernel (`both`: a "
        "condition on data and lane; `correlated`: conditions on the same value; `chosen barrier`: "
        "one below a branch that is not decided; `toggled`: a flag set in a loop; `tail`: "
        f"instructions behind the last branch). {'; '.join(_loosest(total, s) for s in SCOPES)}.",
    ]
    return "\n".join(lines) + "\n"


def write_rows(total: Summary, file: Path) -> None:
    """The table of all groups, as CSV."""
    table = _table(total, total.groups)
    head, _, *others = ([cell.strip() for cell in row.strip("|").split("|")] for row in table)
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([head, *others])


def _loosest(total: Summary, scope: str) -> str:
    """The kernels with something in them whose bounds exceed most on average."""
    start = f"{scope}: with "
    names = [name for name in total.groups if name.startswith(start)]
    loosest = sorted(names, key=lambda name: -total.groups[name].mean)[:_SHOWN]
    means = (f"{name.removeprefix(start)} {total.groups[name].mean / 10:.1f}" for name in loosest)
    return f"Largest means, {scope}: {', '.join(means)}"


def _table(total: Summary, names: Iterable[str]) -> list[str]:
    rows = [
        "| kernels | number | equal | mean | 90 % | 99 % | largest |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in sorted(names, key=lambda one: (one.split(":")[0] != SCOPES[0], one)):
        excess = total.groups[name]
        cells = [excess.mean, *(excess.quantile(share) for share in (0.9, 0.99, 1.0))]
        shown = " | ".join(f"{cell / 10:.1f}" for cell in cells)
        rows.append(f"| {name} | {excess.number} | {100 * excess.equal:.1f} % | {shown} |")
    return rows


def write_picture(total: Summary, file: Path) -> None:
    """The distributions as curves: the share of kernels whose excess is at most so much."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, scope in zip(axes, SCOPES, strict=True):
        for kinds in ("known", "alike", "each lane"):
            for shape, style in (("structured", "-"), ("unstructured", "--")):
                excess = total.groups.get(f"{scope}: {shape}, {kinds}")
                if excess is None:
                    continue
                steps = sorted(excess.counts)
                shares, seen = [], 0
                for step in steps:
                    seen += excess.counts[step]
                    shares.append(100 * seen / excess.number)
                axis.step(
                    [s / 10 for s in steps],
                    shares,
                    style,
                    where="post",
                    label=f"{shape}, {kinds}",
                )
        axis.set_title(scope)
        axis.set_xlabel("excess of the bound over the truth, at most, %")
        axis.set_xlim(-1, 60)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("kernels, %")
    axes[1].legend(title="conditions", fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
