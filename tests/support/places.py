"""Where the files are that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ptxwcet"
SAMPLES = ROOT / "samples"
LAUNCHES = SAMPLES / "launches"

DOCS = ROOT / "docs"
DATA = ROOT / "tests" / "data"
CRASHES = DATA / "crashes"
FLOW = DATA / "flow"
REFERENCE = DATA / "reference-sim"
UNSOUND = DATA / "unsound"
