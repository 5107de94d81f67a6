"""Units of a page's benchmark on the engine of campaigns: all cores, kept until the page is there.

The same command goes on where it was stopped: what units gave lies in a folder beside the page,
under keys of what was asked and of all sources, and is deleted when the page is written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ptxwcet.opened.inputs import describe_here
from ptxwcet.support.answer_store import AnswerStore, KeptEntry, pack
from ptxwcet.sweeps.cell import Ending, Limits, Unit
from ptxwcet.sweeps.engine import embedded_cluster, run_campaign

ROOT = Path(__file__).parents[1]
_SOURCES = ("benchmarks", "tests/oracle", "tests/support")


@contextmanager
def kept_beside(page: Path) -> Iterator[Path]:
    """The folder of what units gave; deleted at the end, unless there is an exception."""
    folder = page.with_suffix(".parts")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run_units(
    work: str, payloads: Sequence[Any], folder: Path, workers: int = 1
) -> Iterator[tuple[Any, Any]]:
    """Each payload (plain data) and what ``work``, ``module:function``, gives for it, in order.

    Raises RuntimeError for a unit that fails: the others' results are kept.
    """
    keys = [_key(work, payload) for payload in payloads]
    with AnswerStore(folder) as store:
        missing = [place for place, key in enumerate(keys) if not store.has_answer(key)]
        units = (Unit(place, payloads[place], {}) for place in missing)
        failed = []
        if missing:
            with embedded_cluster(workers) as cluster:
                done = 0
                for result in run_campaign(work, units, cluster, Limits()):
                    if result is None:
                        continue
                    done += 1
                    if result.ending is not Ending.DONE:
                        failed.append(f"{payloads[result.number]}: {result.why}")
                        continue
                    key = keys[result.number]
                    store.add([KeptEntry(key, {}, pack(result.value), result.seconds)])
                    if done % max(len(missing) // 20, 1) == 0:
                        print(f"{done} of {len(missing)} units", flush=True)
        if failed:
            raise RuntimeError("\n".join(failed))
        for payload, key in zip(payloads, keys, strict=True):
            yield payload, store.answer(key)


def _key(work: str, payload: Any) -> str:
    whole = {"work": work, "payload": payload, "beside": _sources(), **describe_here()}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


@cache
def _sources() -> str:
    whole = hashlib.sha256()
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).glob("*.py")):
            whole.update(path.read_bytes())
    return whole.hexdigest()
