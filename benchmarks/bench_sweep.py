"""What a campaign costs besides its units: overhead, memory, and the client that feeds it.

    python benchmarks/bench_sweep.py            # all parts, some minutes on two cores
    python benchmarks/bench_sweep.py overhead   # one of: overhead, memory, planning, feeding

``overhead``: units of 0.2 s of pure computation with one and two workers, against the time that the
units themselves take. ``memory``: a cell over 10,000 units. ``planning``: a plan of 100,000
units, counted, keyed and looked up, and the memory of that. ``feeding``: what the client does for a
unit: it sets how many workers it can keep busy (``benchmarks/many_workers.py``).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ptxwcet.opened.inputs import Inputs
from ptxwcet.support.answer_store import AnswerStore
from ptxwcet.sweeps.cell import Cell, Ending, Limits, Result, Unit
from ptxwcet.sweeps.engine import embedded_cluster, run_campaign
from ptxwcet.sweeps.kernel_work import WORK, kept_result, kernel_unit
from ptxwcet.sweeps.sweep_plan import SweepPlan, read_sweep_plan

UNIT_SECONDS = 0.2
_Value = TypeVar("_Value")
SPIN = "bench_sweep:spin"
NOTHING = "bench_sweep:nothing"
PLAN = """
[[sweep]]
files = "{samples}/saxpy.ptx"
block = "256"
grid = "64"
params = {{ n = {{ from = 1, to = {units}, step = 1 }} }}
machines = ["titan-v"]
registers = 12
"""
SAMPLES = Path(__file__).parents[1] / "samples"


def spin(turns: int, _: object) -> int:
    """So much pure computation."""
    total = 0
    for turn in range(turns):
        total += turn & 7
    return total


def nothing(payload: object, _: object) -> object:
    """Hands back what it was given."""
    return payload


def turns_of(seconds: float) -> int:
    """Turns of :func:`spin` that take so long on this computer now."""
    begin = time.perf_counter()
    spin(1_000_000, None)
    return int(1_000_000 * seconds / (time.perf_counter() - begin))


def overhead(units: int = 120, repeats: int = 3) -> None:
    """What the engine adds: its seconds, times the workers, over those of the units themselves."""
    turns = turns_of(UNIT_SECONDS)
    for workers in (1, 2):
        with embedded_cluster(workers) as cluster:
            warm = [Unit(number, 1, {}) for number in range(4 * workers)]
            list(run_campaign(SPIN, iter(warm), cluster, Limits()))
            shares = []
            for _ in range(repeats):
                begin, used = time.perf_counter(), time.process_time()
                made = (Unit(number, turns, {}) for number in range(units))
                ended = [one for one in run_campaign(SPIN, made, cluster, Limits()) if one]
                seconds = time.perf_counter() - begin
                used = time.process_time() - used
                own = sum(one.seconds for one in ended)
                shares.append(seconds * workers / own - 1)
            print(
                f"{workers} workers: {units / seconds:.2f} units/s of {own / units:.3f} s; the "
                f"engine adds {', '.join(f'{share:.1%}' for share in shares)}, "
                f"{used / units * 1e3:.1f} ms of processor time a unit",
                flush=True,
            )


def memory(units: int = 10_000) -> None:
    """The resident memory of a cell that bounds a kernel again and again."""
    with tempfile.TemporaryDirectory() as folder:
        plan = _plan(folder, units)
        inputs = Inputs()
        cell = Cell(WORK, Limits())
        begin = time.perf_counter()
        for planned in plan.units():
            keyed = inputs.keyed(planned.request)
            cell.run(kernel_unit(planned.index, keyed, inputs.supplied(keyed)))
            if planned.index + 1 in (10, 100, 500, 1000, *range(2000, units + 1, 2000)):
                print(
                    f"after {planned.index + 1:6,} units: {_resident(cell.pid):.1f} MiB", flush=True
                )
        print(f"{units / (time.perf_counter() - begin):.1f} units/s in one cell")
        cell.close()


def planning(units: int = 100_000) -> None:
    """A plan of many units: seconds and greatest memory of reading, keying and looking up."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        plan = _plan(folder, units)
        read = time.perf_counter() - begin
        inputs = Inputs()
        with AnswerStore(Path(folder)) as store:
            inputs.keyed(next(plan.units()).request)  # reads the files
            tracemalloc.start()
            list(islice(_looked_up(plan, inputs, store), 1000))
            few = tracemalloc.get_traced_memory()[1]
            for _ in _looked_up(plan, inputs, store):
                pass
            many = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            begin = time.perf_counter()
            for _ in _looked_up(plan, inputs, store):
                pass
            each = (time.perf_counter() - begin) / units
    print(
        f"{plan.count():,} units: read in {read:.2f} s, {each * 1e6:.0f} microseconds a unit to "
        f"key and look up; greatest memory {few / 1e6:.2f} MB for 1,000 units, "
        f"{many / 1e6:.2f} MB for all"
    )


def feeding(units: int = 20_000) -> None:
    """What the client does for a unit, and for a batch, without the time of workers."""
    with tempfile.TemporaryDirectory() as folder:
        plan = _plan(folder, units)
        inputs = Inputs()
        planned = list(islice(plan.units(), units))
        keyed = _timed("key", units, lambda: [inputs.keyed(one.request) for one in planned])
        _timed(
            "make the unit",
            units,
            lambda: [kernel_unit(0, one, inputs.supplied(one)) for one in keyed],
        )
        cell = Cell(WORK, Limits())
        value = cell.run(kernel_unit(0, keyed[0], inputs.supplied(keyed[0]))).value
        cell.close()
        with AnswerStore(Path(folder)) as store:
            entries = [kept_result(one, Result(0, Ending.DONE, value, "", 0.1)) for one in keyed]

            def keep() -> None:
                for first in range(0, units, 500):
                    store.add(entries[first : first + 500])

            _timed("keep the answer", units, keep)
            _timed("row of the table", units, lambda: [store.summary(one.key) for one in keyed])
        payload = kernel_unit(0, keyed[0], inputs.supplied(keyed[0])).payload
        with embedded_cluster(1) as cluster:
            for size in (1, 10, 100):
                made = (Unit(number, (payload, value), {}) for number in range(30 * size))
                batches = [list(islice(made, size)) for _ in range(30)]
                begin = time.perf_counter()
                for batch in batches:
                    list(run_campaign(NOTHING, iter(batch), cluster, Limits()))
                print(f"{size} empty units: {(time.perf_counter() - begin) / 30 * 1e3:.1f} ms")


def _timed(what: str, units: int, call: Callable[[], _Value]) -> _Value:
    begin = time.perf_counter()
    value = call()
    print(f"{what}: {(time.perf_counter() - begin) / units * 1e6:.0f} microseconds a unit")
    return value


def _looked_up(plan: SweepPlan, inputs: Inputs, store: AnswerStore) -> Iterator[bool]:
    for planned in plan.units():
        yield store.has_answer(inputs.keyed(planned.request).key)


def _plan(folder: str, units: int) -> SweepPlan:
    path = Path(folder) / "sweep.toml"
    path.write_text(PLAN.format(samples=SAMPLES, units=units))
    return read_sweep_plan(str(path))


def _resident(pid: int) -> float:
    """MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


PARTS = {"overhead": overhead, "memory": memory, "planning": planning, "feeding": feeding}


def main() -> None:
    """Runs the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    for name in options.parts or PARTS:
        print(f"--- {name}", flush=True)
        PARTS[name]()


if __name__ == "__main__":
    main()
