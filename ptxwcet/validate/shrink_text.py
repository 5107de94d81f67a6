"""Makes a PTX text smaller while something stays true of it: instructions are deleted."""

from __future__ import annotations

from collections.abc import Callable

MOST_TRIES = 400


def shrink_text(text: str, remains: Callable[[str], bool]) -> str:
    """Deletes instructions, many at once and then one by one, as long as ``remains`` holds.

    Labels and declarations stay. Cost: at most :data:`MOST_TRIES` calls of ``remains``.
    """
    lines = text.splitlines()
    tries = 0
    size = max(len(lines) // 4, 1)
    while True:
        start = len(lines) - size
        removed = False
        while start > -size and tries < MOST_TRIES:
            chosen = {
                place
                for place in range(max(start, 0), min(start + size, len(lines)))
                if _is_deletable(lines[place])
            }
            start -= size
            if not chosen:
                continue
            kept = [line for place, line in enumerate(lines) if place not in chosen]
            tries += 1
            if remains("\n".join(kept) + "\n"):
                lines = kept
                removed = True
        if tries >= MOST_TRIES or (size == 1 and not removed):
            return "\n".join(lines) + "\n"
        if not removed or size > 1:
            size = max(size // 2, 1)


def _is_deletable(line: str) -> bool:
    """Whether a line is an instruction."""
    line = line.strip()
    return line.endswith(";") and not line.startswith((".", "//")) and "ld.param" not in line
