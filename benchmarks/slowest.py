"""The analyses that take longest: processor time of the main job for each launch, the slowest last.

    python benchmarks/slowest.py
    python benchmarks/slowest.py tests/corpus --most 20 --limit 60

The launches are those of benchmarks/precision.py: every kernel of samples, suite, hybrid experiment
and corpus, once with nothing but a block of 64 threads and once with all parameters, and as launch
files say. Parsing counts. One that takes longer than ``--limit`` seconds of the processor is ended.
The goal is that none takes more than ten; exit code 1 if one does. Twenty minutes of a processor.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time

from precision import Launched, TooLong, launches

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

GOAL = 10


def seconds_of(launched: Launched, limit: int) -> tuple[float, str]:
    """Processor seconds of one analysis, and what came of it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    begin = time.process_time()
    try:
        answer = bound_file(Request(**launched.options))
        outcome = "bounded" if answer.answered else "refused"
    except PtxwcetError as error:
        outcome = error.diagnostics[0].code
    except TooLong:
        outcome = "ended"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - begin, outcome


def _too_long(*_: object) -> None:
    raise TooLong


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", default="", help="of the names of launches")
    parser.add_argument("--most", type=int, default=12, help="lines that are printed")
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor for each")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, _too_long)
    rows = [
        (*seconds_of(one, options.limit), one.name)
        for one in launches()
        if options.part in one.name
    ]
    rows.sort()
    for seconds, outcome, name in rows[-options.most :]:
        print(f"{seconds:8.2f} s  {outcome:8}  {name}")
    above = sum(seconds > GOAL for seconds, _, _ in rows)
    print(f"{len(rows)} launches, {above} above {GOAL} s of the processor")
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
