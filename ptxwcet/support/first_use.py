"""Things made once and kept on disk: in which folder, and who is told when that takes seconds."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

CACHE_VARIABLE = "PTXWCET_CACHE_DIR"
"""The environment variable that names the cache folder."""

Listener = Callable[[str, Path | None], None]
"""Called with what is compiled, and the folder that keeps it (None: no folder can be written)."""

_listener: Listener | None = None


def cache_folder() -> Path | None:
    """The folder for what is kept between runs, made if need be; None if it cannot be written.

    It is that of PTXWCET_CACHE_DIR, else the platform's: ``~/.cache/ptxwcet`` on Linux.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        folder = Path(given)
    else:
        # here: not needed where the variable says the folder
        from platformdirs import user_cache_path

        folder = user_cache_path("ptxwcet", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    return folder.absolute() if os.access(folder, os.W_OK) else None


def is_private(folder: Path) -> bool:
    """Whether a folder and all in it is the user's (or root's), and nobody else may write there.

    It is made if need be, then closed to others (mode 700). Cost: linear in its files.
    """
    if not hasattr(os, "geteuid"):  # a system without owners and modes
        return True
    owners = (os.geteuid(), 0)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = folder.resolve()
        own = folder.stat()
        if own.st_uid not in owners or own.st_mode & 0o022:
            return False
        entries = (entry.lstat() for entry in folder.rglob("*"))
        return all(one.st_uid in owners and not stat.S_ISLNK(one.st_mode) for one in entries)
    except OSError:
        return False


def tell_first_use(listener: Listener | None) -> None:
    """Sets who is told when something is compiled; None: nobody."""
    global _listener
    _listener = listener


def about_to_compile(what: str, folder: Path | None) -> None:
    """Tells the listener."""
    if _listener is not None:
        _listener(what, folder)
