"""Breaks of what reads and prints constants: does the comparison with ptxas see each?

Run from the root of the repository, with ptxas at hand::

    python benchmarks/folding_breaks.py [WORDS OF A BREAK ...]

Each break of ``folding_breaks.toml`` is made in a copy, where
``tests/oracle/test_ptxas_folding.py`` has to fail. It prints a row for each break, and exits with 1
if one is not seen. Some ten seconds each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BREAKS = ROOT / "benchmarks" / "folding_breaks.toml"


def is_seen(folder: Path, file: str, old: str, new: str) -> str:
    """What the test says of a copy where ``old`` is ``new``: red or green; or what hinders it."""
    path = folder / file
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"{text.count(old)} places"
    path.write_text(text.replace(old, new), encoding="utf-8")
    test = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *test, "tests/oracle/test_ptxas_folding.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    path.write_text(text, encoding="utf-8")
    return {0: "green", 1: "red"}.get(done.returncode, done.stdout[-300:])


def main() -> None:
    """Makes each break and prints what the comparison says."""
    wanted = sys.argv[1:]
    unseen = 0
    print("| break | file | comparison |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("ptxwcet", "grammar", "tests/oracle", "tests/corpus", "tests/support"):
            skip = shutil.ignore_patterns("*.ptx", "*.gz", "__pycache__")
            shutil.copytree(ROOT / part, folder / part, ignore=skip)
        for part in ("pyproject.toml", "tests/conftest.py"):
            shutil.copy(ROOT / part, folder / part)
        for row in tomllib.loads(BREAKS.read_text(encoding="utf-8"))["break"]:
            if wanted and not any(word in row["what"] for word in wanted):
                continue
            seen = is_seen(folder, row["file"], row["old"], row["new"])
            unseen += seen != "red"
            print(f"| {row['what']} | {row['file']} | {seen} |", flush=True)
    raise SystemExit(1 if unseen else 0)


if __name__ == "__main__":
    main()
