"""What holds for every test."""

from __future__ import annotations

import os

# The IR verifier runs after lowering and after each pass, in processes that tests start as well.
os.environ["PTXWCET_VERIFY"] = "1"
