"""What the long attacks found, in short, for the dossier: as a file that comes with the tool.

    python benchmarks/attack_summaries.py

reads docs/experiments/attack*.json and writes ptxwcet/validate/attacks.json; a test holds one
against the other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "docs/experiments"
SUMMARY = ROOT / "ptxwcet/validate/attacks.json"

Data = dict[str, Any]

CONTROLS = {
    "breadth": "without the assumption that blocks are spread breadth first",
    "busiest": "the busiest sub-core, then waves",
    "carry": "without what sections leave behind",
    "evenly": "with the mean of all slots' slack for that of a chain of blocks",
    "exits": "without the term for exits that count late",
    "extras": "without extras",
    "once": "with the extras of blocks without barriers, also for blocks with barriers",
    "peaks": "slack without a warp's own issues",
    "slack": "without the slack of heavy sections",
    "tail": "without the tail",
    "path dropped": "without waiting at the memory path",
    "memory dropped": "without waiting at the memory",
    "waiting dropped": "without waiting",
    "nothing waits": "as if nothing waited at a path that keeps up",
    "cache dropped": "without waiting at the L2 cache",
    "units dropped": "without what the memory moves of arrays set aside",
    "nothing is kept": "on a machine whose cache keeps nothing",
}
"""What is tried beside the bound, most of it known to be too small: an attack that finds nothing
against these either would prove nothing."""


def main() -> None:
    """Writes the summary."""
    SUMMARY.write_text(summary_text(EXPERIMENTS), encoding="utf-8")


def summary_text(folder: Path) -> str:
    """The summary of the attacks of a folder, as JSON."""
    rows = []
    for name, summarise in ATTACKS.items():
        content = (folder / name).read_bytes()
        head = {
            "experiment": f"docs/experiments/{name}",
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        rows.append(head | summarise(json.loads(content)))
    return json.dumps(rows, indent=1) + "\n"


def _blocks(data: Data) -> Data:
    safe = sum(n for name, n in data["checks"].items() if name.startswith("SAFE >= "))
    known = sum(family["gub_known"] for family in data["families"])
    # blocks that one kind of run shows: others show some of the same
    exceeded = sum(max(one["gub_exceeded"].values(), default=0) for one in data["families"])
    return {
        "attacked": "the safe bound of random blocks, its lower bound and the simulators",
        "by": "exhaustive search of small blocks, runs under policies, shortened timings, "
        "an adversary",
        "command": f"python benchmarks/attack.py --workloads {data['workloads']} "
        f"--seed {data['seed']}",
        "cases": data["workloads"],
        "runs": safe,
        "exceeded": data["violations"],
        "controls": [_control("GUB, as published", known, exceeded)],
        "sources_sha256": data["sources_sha256"],
    }


def _grids(data: Data) -> Data:
    parts = [*data["random"], data["exhaustive"]]
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for part in parts:
        for name, one in part["controls"].items():
            sums[name][0] += one["checked"]
            sums[name][1] += one["exceeded"]
    climbs = [data["climbing"], data["clock"]]
    return {
        "attacked": "the bound of the launch of random grids of blocks",
        "by": "all schedules of tiny grids, random schedules and shortened timings of others, hill "
        "climbing, on a machine that shares nothing with the tool's simulators",
        "command": f"python benchmarks/attack_grid.py {data['command']}",
        "cases": sum(part["cases"] for part in parts) + sum(part["climbs"] for part in climbs),
        "runs": sum(part["runs"] for part in [*parts, *climbs]),
        "exceeded": sum(part["exceeded"] for part in [*parts, *climbs])
        + sum(part["clock_exceeded"] for part in parts),
        "controls": [_control(CONTROLS[name], *sums[name]) for name in sorted(sums)],
        "sources_sha256": None,
    }


def _launches(data: Data) -> Data:
    samples = data["samples"]
    return {
        "attacked": "path analysis and bound of random kernels, launches and facts, and of samples",
        "by": "execution on data, every executed block held against the analysed ones, and runs of "
        "whole grids under six schedules",
        "command": f"python benchmarks/attack_launches.py {data['command']}",
        "cases": data["launches"] + samples["launches"],
        "runs": data["runs"] + samples["runs"],
        "exceeded": len(data["violations"]),
        "controls": [],
        "sources_sha256": None,
    }


def _servers(data: Data) -> Data:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for family in data["families"].values():
        for name, text in family["controls"].items():
            found = re.fullmatch(r"(\d+) of (\d+) exceeded", text)
            assert found is not None
            sums[name][0] += int(found[2])
            sums[name][1] += int(found[1])
    return {
        "attacked": "bounds of random grids and blocks that wait for memory path and memory",
        "by": "runs on a machine with these servers that shares nothing with the tool's simulators",
        "command": f"python benchmarks/attack_servers.py {data['command']}",
        "cases": data["cases"],
        "runs": data["runs"],
        "exceeded": data["exceeded"],
        "controls": [_control(CONTROLS.get(name, name), *sums[name]) for name in sorted(sums)],
        "sources_sha256": None,
    }


def _path(data: Data) -> Data:
    return _servers(data) | {
        "attacked": "bounds of random grids and blocks whose memory path keeps up, and how long "
        "each access is at the path"
    }


def _first_touch(data: Data) -> Data:
    return _servers(data) | {
        "attacked": "bounds of random grids whose launches set arrays aside in the L2 cache"
    }


def _caches(data: Data) -> Data:
    parts = [data["L2 cache"], data["L1 caches"]]
    controls = []
    for name, text in ((name, text) for part in parts for name, text in part["controls"].items()):
        found = re.fullmatch(r"(\d+) of (\d+) exceeded", text)
        assert found is not None
        controls.append(_control(f"if {name}", int(found[2]), int(found[1])))
    return {
        "attacked": "what launches have caches bring in and write back, by what is claimed of them",
        "by": "adversaries on caches of four policies that share nothing with the tool",
        "command": f"python benchmarks/attack_caches.py {data['command']}",
        "cases": 2 * int(data["command"].split()[1]),
        "runs": sum(part["runs"] for part in parts),
        "exceeded": sum(part["exceeded"] for part in parts),
        "controls": controls,
        "sources_sha256": None,
    }


def _footprints(data: Data) -> Data:
    kinds = data["kinds"].values()
    return {
        "attacked": "footprints and forms of addresses, of random kernels and the suite",
        "by": "execution on data, each address held against its form",
        "command": f"python benchmarks/attack_footprints.py {data['command']}",
        "cases": sum(kind["launches"] for kind in kinds),
        "runs": sum(kind["launches"] for kind in kinds),
        "exceeded": data["wrong"],
        "controls": [],
        "sources_sha256": None,
    }


def _accesses(data: list[Data]) -> Data:
    ranges = [each for part in data for each in part["ranges"]]
    return {
        "attacked": "the transactions of each access of random kernels",
        "by": "execution on data, each access served lane by lane by an oracle of its own",
        "command": data[0]["command"],
        "cases": sum(each["kernels"] for each in ranges),
        "runs": sum(each["accesses"] for each in ranges),
        "exceeded": sum(len(each["wrong"]) for each in ranges),
        "controls": [],
        "sources_sha256": None,
    }


def _control(what: str, checked: int, exceeded: int) -> Data:
    return {"what": what, "checked": checked, "exceeded": exceeded}


def _joins(data: Data) -> Data:
    controls = []
    for name, left_out in _LEFT_OUT.items():
        parts = list(data[f"control {name}"].values())
        seen = ("exceeded", "clock exceeded", "clock of groups exceeded")
        # what one kind of claim shows: others show some of the same runs
        exceeded = sum(max(part[kind] for kind in seen) for part in parts)
        controls.append(_control(f"without {left_out}", sum(p["runs"] for p in parts), exceeded))
    return {
        "attacked": "bounds of random blocks and launches whose warps meet at named barriers",
        "by": "all schedules of tiny blocks and random schedules of others, on a machine that "
        "shares nothing with the tool's simulators",
        "command": f"python benchmarks/attack_joins.py {data['command']}",
        "cases": data["cases"],
        "runs": data["runs"],
        "exceeded": data["exceeded"],
        "controls": controls,
        "sources_sha256": None,
    }


_LEFT_OUT = {
    "own": "edges of a warp to its next stretch",
    "others": "edges of arrivals to those that wait",
    "latency": "what is in flight at the end of a stretch",
    "slack": "the slack of groups",
    "work": "the work of all sub-cores but the first",
    "order": "the order of arrivals",
}


def _mbarriers(data: Data) -> Data:
    seen = ("exceeded", "clock exceeded", "tail exceeded", "other phases")
    controls = [(*name.partition(" without "), row) for name, row in data.items()]
    return {
        "attacked": "bounds of random blocks whose warps meet at mbarriers, and of launches of "
        "them, and their phases",
        "by": "all schedules of tiny blocks and random schedules of others, with warps that poll, "
        "on a machine that shares nothing with the tool's simulators",
        "command": f"python benchmarks/attack_mbarriers.py {data['command']}",
        "cases": data["cases"],
        "runs": data["runs"],
        "exceeded": sum(data[kind] for kind in seen),
        "controls": [
            _control(
                f"without {_LEFT_OUT_OF_MBARRIERS[left_out]}",
                row["runs"],
                sum(row[kind] for kind in seen),
            )
            for _, _, left_out, row in controls
            if left_out
        ],
        "sources_sha256": None,
    }


_LEFT_OUT_OF_MBARRIERS = {
    "own": "edges of a warp to its next stretch",
    "others": "edges of counts to those that wait",
    "round": "the round of a poll that was told no",
    "after": "the latency of copies",
    "copies": "latencies of small copies that arrivals are behind",
    "registers": "edges of those who give up registers to those who take them",
    "early": "that who takes registers knows nothing of who gave them up",
    "slack": "the slack of stretches",
    "work": "initiations",
    "polls": "what polls take",
    "known": "the round of a poll of a phase that was counted before a barrier of the block",
    "sections": "polls of a section before the bounds of the sections before have passed",
    "share": "the part of all cycles that is for polls",
    "residents": "the polls of all blocks of an SM but one",
    "tail": "the work that may be left when the last block starts",
    "pile": "polls that have queued up until the last block starts",
    "order": "the order of counts",
    "seen": "that a phase is seen before the next one is over",
    "asked": "that no phase is asked for too early",
    "sealed": "that bytes are added before the last arrival",
}


def _warpgroups(data: Data) -> Data:
    kinds = data["kinds"]
    return {
        "attacked": "bounds of random blocks and launches with products of warpgroups",
        "by": "random schedules, on a machine that shares nothing with the tool's simulators",
        "command": f"python benchmarks/attack_warpgroups.py {data['command']}",
        "cases": sum(kind["cases"] for kind in kinds.values()),
        "runs": sum(kind["runs"] for kind in kinds.values()),
        "exceeded": sum(kind["exceeded"] for kind in kinds.values()),
        "controls": [
            _control(f"if {name}", row["cases"], row["beyond"])
            for name, row in sorted(data["controls"].items())
        ],
        "sources_sha256": None,
    }


ATTACKS: dict[str, Callable[[Any], Data]] = {
    "attack.json": _blocks,
    "attack-accesses.json": _accesses,
    "attack-caches.json": _caches,
    "attack-first-touch.json": _first_touch,
    "attack-footprints.json": _footprints,
    "attack-grid.json": _grids,
    "attack-joins.json": _joins,
    "attack-launches.json": _launches,
    "attack-mbarriers.json": _mbarriers,
    "attack-path.json": _path,
    "attack-servers.json": _servers,
    "attack-warpgroups.json": _warpgroups,
}


def names_of(folder: Path) -> Iterable[str]:
    """The attacks that a folder has."""
    return sorted(path.name for path in folder.glob("attack*.json"))


if __name__ == "__main__":
    main()
