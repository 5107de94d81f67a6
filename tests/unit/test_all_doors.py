"""All doors give one number: bound of block and launch, guarantees, assumptions."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet

OPTIONS = {"params": "param", "loop_bounds": "loop-bound", "memory_latency": "mem-latency"}


@dataclass(frozen=True)
class Launched:
    """A kernel and its launch: the arguments of Python, of which options and plans are made."""

    file: str
    said: dict[str, Any] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The options."""
        words = []
        for key, value in self.said.items():
            option = {
                "params": "param",
                "loop_bounds": "loop-bound",
                "memory_latency": "mem-latency",
            }
            name = f"--{option.get(key, key).replace('_', '-')}"
            values = [f"{k}={v}" for k, v in value.items()] if isinstance(value, dict) else [value]
            words += [word for one in values for word in (name, str(one))]
        return words

    def table(self, name: str, file: str, without: tuple[str, ...] = ()) -> str:
        """A table of a plan; at its top what stands there."""
        said = {**self.said, "machines": self.said.get("machine"), "machine": None}
        rows = [f"[[{name}]]", f"{file} = {json.dumps(str(SAMPLES / self.file))}"]
        for key, value in said.items():
            if value is None or key in without:
                continue
            shown = json.dumps(value)
            if isinstance(value, dict):
                entries = (f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())
                shown = f"{{ {', '.join(entries)} }}"
            rows.append(f"{key} = {shown}")
        return "\n".join(rows) + "\n"


FACTS = """ptx = "sha256:{digest}"
[[loop]]
kernel = "saxpy"
at = "$L__BB0_2"
bound = 3
"""
CASES = {
    "a grid": Launched("saxpy.ptx", {"block": 256, "grid": 4, "params": {"n": 1000}}),
    "facts": Launched("saxpy.ptx", {"block": 64, "grid": 9, "facts": "facts.toml"}),
    "co-runner": Launched(
        "saxpy.ptx",
        {
            "block": 128,
            "grid": 64,
            "params": {"n": "1..9000"},
            "machine": "titan-v",
            "registers": 40,
            "sms": 4,
            "co_runner": "65536,20",
        },
    ),
    "no grid": Launched("vector_add.ptx", {"block": 256, "params": {"n": "1..5000"}}),
    "a machine": Launched(
        "saxpy.ptx",
        {
            "block": "64",
            "grid": "40",
            "params": {"n": 5000},
            "machine": "titan-v",
            "resident_blocks": 2,
            "sms": 3,
        },
    ),
    "a loop bound": Launched(
        "saxpy.ptx",
        {
            "block": 256,
            "grid": 3,
            "loop_bounds": {"$L__BB0_2": 5},
            "machine": "orin-ecrts2025-16sm",
            "registers": 30,
            "dynamic_shared": 9000,
        },
    ),
    "a launch file": Launched(
        "transpose_tiled.ptx",
        {"launch": str(SAMPLES / "launches/transpose_tiled.toml"), "machine": "jetson-agx-orin"},
    ),
    "linked files": Launched(
        "../tests/data/linking/main.ptx",
        {
            "launch": str(SAMPLES / "../tests/data/linking/work.toml"),
            "link": str(SAMPLES / "../tests/data/linking/library.ptx"),
        },
    ),
    "latency": Launched(
        "saxpy.ptx",
        {"block": 256, "grid": 4, "params": {"n": 777}, "memory_latency": 333},
    ),
}

Number = tuple[int, int | None, str, str | None, set[str], set[str]]
"""Cycles of block and launch, their guarantees, the keys of what they rest on."""


def number_of(row: dict[str, Any]) -> Number:
    """What a row of a JSON report says."""
    launch = row["launch"] or {"cycles": None, "guarantee": None, "assumptions": []}
    keys, of_launch = ({one["key"] for one in of["assumptions"]} for of in (row, launch))
    cycles = row["bound_cycles"], launch["cycles"]
    return *cycles, row["guarantee"], launch["guarantee"], keys, of_launch


def asked(*words: object) -> str:
    """What the program prints."""
    ended = run_program(*words)
    assert (ended.code, ended.err) == (0, ""), ended.err
    return ended.out


@pytest.fixture
def launched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Launched:
    case: Launched = request.param
    monkeypatch.chdir(tmp_path)
    digest = ptxwcet.analyse(SAMPLES / case.file, block=1).to_dict()["sha256"]
    Path("facts.toml").write_text(FACTS.format(digest=digest))
    return case


@pytest.mark.every(8)
@pytest.mark.parametrize("launched", CASES.values(), ids=CASES, indirect=True)
def test_all_doors_give_one_number(launched: Launched, tmp_path: Path) -> None:
    file, words = str(SAMPLES / launched.file), launched.words()
    found = ptxwcet.bound(file, **launched.said)
    block, launch, *guarantees, keys, of_launch = number = (
        *(found.cycles, found.launch_cycles, found.guarantee, found.launch_guarantee),
        *(set(found.assumptions), set(found.launch_assumptions)),
    )
    assert (launch is None) == ("grid" not in launched.said and "launch" not in launched.said)
    json_of = ("--format", "json")
    (row,) = json.loads(asked(file, *words, *json_of))["kernels"]
    assert number_of(row) == number
    (row,) = json.loads(asked("annotate", file, *words, *json_of))["kernels"]
    assert number_of(row["bound"]) == number
    asked("report", "dossier", file, *words, "--selftest", "none", "-o", "d.json")
    (row,) = json.loads(Path("d.json").read_text())["kernels"]
    assert number_of(row["bound"]) == number
    claims = {(one["of"], one["cycles"], one["guarantee"]) for one in row["claims"]}
    assert claims >= {("block", block, guarantees[0])}
    assert launch is None or claims >= {("launch", launch, guarantees[1])}
    (row,) = json.loads(asked("what-if", file, *words, "--set", "fma.latency=2", *json_of))[
        "kernels"
    ]
    assert (row["bound_cycles"], row["launch_cycles"]) == (block, launch)
    Path("new.ptx").write_text(Path(file).read_text().replace("ret;", "mov.u32 %r1, 1;\nret;"))
    source = ("--source", Path(file).with_suffix(".cu"))
    if "facts" not in launched.said:
        report = asked("compare", file, "new.ptx", *source, *words, *json_of)
        (row,) = json.loads(report)["kernels"]
        assert {one["old"] for one in row["bounds"]} >= {one for one in (block, launch) if one}
    quiet = asked(file, *words, "-q").split()[1:]
    shown = [str(block), guarantees[0]]
    assert quiet == shown + ([str(launch), guarantees[1]] if launch else [])
    asked("report", file, *words, "--no-simulate", "-o", "page.html")
    page = Path("page.html").read_text()
    assert {f"<b>{one:,}</b>" for one in (block, launch) if one} <= set(
        re.findall(r"<b>[\d,]+</b>", page)
    )
    if "co_runner" in launched.said:  # plans cannot say it
        return
    if "memory_latency" not in launched.said:
        Path("ptxwcet.toml").write_text(launched.table("check", "files"))
        plan = 'require = "estimate"\n' + Path("ptxwcet.toml").read_text()
        Path("ptxwcet.toml").write_text(plan)
        (row,) = json.loads(asked("check", "--workers", "1", *json_of))["checks"]
        assert number_of(row["answer"]) == number
    if launch is not None:
        without = ("machines", "sms", "memory_latency")
        Path("frame.toml").write_text(launched.table("launch", "file", without))
        options = [
            word
            for key, value in launched.said.items()
            if key in ("machine", "sms", "memory_latency")
            for word in (f"--{key.replace('memory', 'mem').replace('_', '-')}", value)
        ]
        sequence = json.loads(asked("sequence", "frame.toml", *options, *json_of))
        assert (sequence["cycles"], sequence["guarantee"]) == (launch, guarantees[1])
        assert {one["key"] for one in sequence["assumptions"]} == of_launch
    Path("sweep.toml").write_text(launched.table("sweep", "files"))
    asked("sweep", "sweep.toml", "--workers", "1", "-o", "swept", "-q")
    (swept,) = csv.DictReader(Path("swept/results.csv").read_text().splitlines())
    assert (swept["block_cycles"], swept["launch_cycles"]) == (str(block), str(launch or ""))
    assert swept["guarantee"] == (guarantees[1] or guarantees[0])
    assert set(swept["assumptions"].split()) == of_launch | keys  # a row has both bounds
