"""Random plans of sweeps: what columns say is what is asked, and rows have the bounds of that."""

from __future__ import annotations

import csv
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from places import SAMPLES
from programs import run_program

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.report.head import Refused
from ptxwcet.sweeps.sweep_plan import read_sweep_plan
from ptxwcet.sweeps.tables import CSV

pytestmark = pytest.mark.fast

MACHINES = ("orin-ecrts2025", "orin-ecrts2025-16sm", "titan-v")
LISTS: dict[str, tuple[Any, ...]] = {
    "block": (32, 64, "128", "16x4", "{t}", "{t // 16}x{16}"),
    "grid": (1, 4, "2x3", "{cdiv(1000, t)}"),
    "sms": (1, 4, "{u}"),
    "registers": (16, 32, "{u * 8}"),
    "resident_blocks": (1, 2),
    "dynamic_shared": (0, 4096, "{u * 512}"),
}
NUMBERS = (1, 100, 2**63, -0.5, "7", "{t}", "{u + 1}", "{w}", "n{u}")


def random_plan(chosen: random.Random) -> str:
    """One to three tables, of which each says some keys, with one value or several."""
    tables = []
    for _ in range(chosen.randint(1, 3)):
        lines = ["[[sweep]]", f"files = {chosen.choice(FILES)}"]
        lines.append(f"machines = {chosen.sample(MACHINES, chosen.randint(1, 2))}")
        for key, values in LISTS.items():
            if key == "block" or chosen.random() < 0.5:
                lines.append(f"{key} = {_some(chosen, values)}")
        for table, name in (("params", "p"), ("loop_bounds", "l")):
            named = [f"{name}{i} = {_some(chosen, NUMBERS)}" for i in range(chosen.randint(0, 2))]
            lines.append(f"{table} = {{ {', '.join(named)} }}")
        if chosen.random() < 0.5:
            lines.append(f"memory_latency = {_some(chosen, (100, 200, '{t}'))}")
        if chosen.random() < 0.3:
            lines.append('method = ["safe", "scheduled"]\npolicy = ["gto", "lrr"]')
        axes = {"t": (16, 32), "u": (1, 2, 3), "w": ("x", "y,z", 5)}
        used = [name for name in axes if any("{" in one and name in one for one in lines[1:])]
        lines.append("[sweep.axes]")
        lines += [f"{name} = {_some(chosen, axes[name])}" for name in used]
        tables.append("\n".join(lines))
    return "\n".join(tables) + "\n"


FILES = ('"saxpy.ptx"', '["saxpy.ptx", "vector_add.ptx"]')


def _some(chosen: random.Random, values: tuple[Any, ...]) -> str:
    picked = chosen.sample(values, chosen.randint(1, min(2, len(values))))
    shown = [f'"{one}"' if isinstance(one, str) else repr(one) for one in picked]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("saxpy", "vector_add"):
        for suffix in (".ptx", ".cu"):
            shutil.copy(SAMPLES / f"{name}{suffix}", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_columns_say_what_is_asked(folder: Path) -> None:
    chosen = random.Random(1)
    plans = 0
    while plans < 60:
        (folder / "sweep.toml").write_text(random_plan(chosen), encoding="utf-8")
        try:
            plan = read_sweep_plan("sweep.toml")
        except Exception:  # of an axis that is not used, or named by a text of another meaning
            continue
        plans += 1
        told: dict[tuple[Any, ...], Request] = {}
        integers = plan.integer_columns()
        for unit in plan.units():
            request = unit.request
            said = dict(zip(plan.columns, unit.values, strict=True))
            assert _named(said, "param.") == set(request.parameters)
            shown = _named(said, "loop.")
            assert shown <= set(request.loop_bounds)
            for key, held in (
                ("registers", request.gpu.registers),
                ("resident_blocks", request.gpu.resident_blocks),
                ("sms", request.gpu.sms),
                ("dynamic_shared", request.gpu.dynamic_shared),
            ):
                assert said.get(f"set.{key}", held) == held
            for name in integers:
                assert said[name] is None or type(said[name]) is int
            # what no column tells apart is the same request
            own = (request.path, request.machine, request.block, request.grid, request.policy)
            apart = (*own, request.memory_latency_cycles, *unit.values)
            assert told.setdefault(apart, request) == request
    assert plans == 60


def _named(said: dict[str, Any], kind: str) -> set[str]:
    """The values of columns of a kind, as a request has them."""
    return {
        f"{name.removeprefix(kind)}={value}"
        for name, value in said.items()
        if name.startswith(kind) and value is not None
    }


def test_rows_have_the_bounds_of_what_they_say(folder: Path) -> None:
    (folder / "sweep.toml").write_text("""
[[sweep]]
files = ["saxpy.ptx", "vector_add.ptx"]
machines = ["orin-ecrts2025-16sm", "titan-v"]
block = "{t}"
grid = "{cdiv(n, t)}"
memory_latency = 300
registers = [16, 96]
params = { n = "{n}" }
method = ["safe", "scheduled"]
policy = "gto"
[sweep.axes]
t = [64, 2048]
n = [1000]
[[sweep]]
files = "saxpy.ptx"
machines = "titan-v"
block = "64"
grid = "2"
registers = 24
sms = [1, 2]
""")
    done = run_program("sweep", "-o", "out", "--workers", "2")
    assert done.code == 0, done.err
    with (Path("out") / CSV).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["unit"] for row in rows] == [str(number) for number in range(34)]
    seen = set()
    for row in rows:
        request = Request(
            row["file"],
            (row["kernel"],),
            row["block"],
            row["grid"] or None,
            (f"n={row['param.n']}",) if row["param.n"] else (),
            machine=row["machine"],
            memory_latency_cycles=int(row["memory_latency"]),
            method=row["method"],
            policy=row["policy"] or None,
            gpu=GridWishes(
                sms=int(row["set.sms"]) if row["set.sms"] else None,
                registers=int(row["set.registers"]),
            ),
        )
        (kernel,) = build_report(bound_file(request), source=None).kernels
        seen.add((row["outcome"], row["of"], row["method"], row["cycles"]))
        if isinstance(kernel, Refused):
            assert (row["outcome"], row["code"]) == ("refused", kernel.diagnostics[0].code)
            continue
        assert int(row["block_cycles"]) == kernel.bound_cycles
        if kernel.launch is not None:
            assert int(row["launch_cycles"]) == int(row["cycles"]) == kernel.launch.cycles
        clock = {"titan-v": 1455e6, "orin-ecrts2025-16sm": 930e6}[row["machine"]]
        if row["cycles"]:
            assert float(row["seconds"]) == pytest.approx(int(row["cycles"]) / clock, rel=1e-12)
    assert len(seen) >= 8
