"""Locates the cache folder of compiled code, and reports compilations that take seconds."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

CACHE_VARIABLE = "PTXWCET_CACHE_DIR"
"""The environment variable that names the cache folder."""

Listener = Callable[[str, Path | None], None]
"""A function called with the compiled module and its cache folder (None: none is writable)."""

_listener: Listener | None = None


def cache_folder() -> Path | None:
    """Returns the folder of the cache, made if necessary; None if it cannot be written.

    It is PTXWCET_CACHE_DIR, else the platform's: ``~/.cache/ptxwcet`` on Linux.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        folder = Path(given)
    else:
        # Imported here because it is not needed where the variable names the folder.
        from platformdirs import user_cache_path

        folder = user_cache_path("ptxwcet", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    return folder.absolute() if os.access(folder, os.W_OK) else None


def is_private(folder: Path) -> bool:
    """Returns whether only the user (or root) owns a folder and its contents and may write there.

    It is made if necessary, then closed to others (mode 700). Cost: linear in its files.
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
        return all(entry.st_uid in owners and not stat.S_ISLNK(entry.st_mode) for entry in entries)
    except OSError:
        return False


def tell_first_use(listener: Listener | None) -> None:
    """Sets the listener that is called when code is compiled; None: no listener."""
    global _listener
    _listener = listener


def about_to_compile(what: str, folder: Path | None) -> None:
    """Calls the listener."""
    if _listener is not None:
        _listener(what, folder)
