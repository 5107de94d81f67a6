"""Accesses of the suite and the samples: none may take more than the analysis says.

    python benchmarks/access_containment.py --out docs/experiments/accesses.json

Every launch is executed by the emulator; each access of each warp is served lane by lane
(``tests/oracle/transaction_oracle.py``) and compared with what was said of it before. Exit code 1
if one takes more, or, where the analysis calls itself exact, less. The summary depends on the
sources alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from access_containment import analysed_and_executed
from kernel_suite import entries

from ptxwcet.support.diagnostics import PtxwcetError


def main() -> int:
    """Compares every launch of the suite."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/accesses.json"))
    parser.add_argument("--kernels", nargs="*", default=[])
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    problems = []
    for entry in entries():
        if options.kernels and entry.kernel not in options.kernels:
            continue
        try:
            compared, exact, wrong = analysed_and_executed(entry.path, entry.launch, entry.facts)
        except PtxwcetError as error:
            rows.append({"kernel": entry.kernel, "refused": error.diagnostics[0].code})
            continue
        rows.append({"kernel": entry.kernel, "accesses": compared, "exact": exact})
        problems += [f"{entry.kernel}: {one}" for one in wrong]
    answered = [row for row in rows if "accesses" in row]
    summary = {
        "launches": len(answered),
        "refused": len(rows) - len(answered),
        "accesses": sum(row["accesses"] for row in answered),
        "exact and executed by whole warps": sum(row["exact"] for row in answered),
        "wrong": problems,
        "kernels": rows,
    }
    options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(*(f"{key}: {value}" for key, value in summary.items() if key != "kernels"), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
