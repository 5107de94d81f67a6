"""Keeps answers in a folder, by their keys: one SQLite file, which many may read.

Written entries survive when a run is killed. An entry is never changed: a process that writes a key
again writes the same. Each carries digests of its content; an entry that cannot be read, or differs
from what was written, counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

STORE = "answers.sqlite"
_WAIT_SECONDS = 60.0
_LAYOUT = 2
_MOST_BYTES = 1 << 28
"""The most bytes of an answer: more than any has, and less than a computer's memory."""
_TABLES = """
CREATE TABLE IF NOT EXISTS answers
    (key TEXT PRIMARY KEY, summary TEXT NOT NULL, answer BLOB NOT NULL, seconds REAL NOT NULL,
    summary_digest TEXT NOT NULL, answer_digest TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures
    (key TEXT PRIMARY KEY, summary TEXT NOT NULL, summary_digest TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An answer under its key: a short summary of it, the whole, and the seconds that it took.

    The whole is packed (:func:`pack`) by the process that computes an answer, since the writer has
    enough to do.
    """

    key: str
    summary: Any
    answer: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class KeptFailure:
    """A key without an answer, possibly because of the computer, with the summary that states this.

    Failures are shown, but never taken for answers.
    """

    key: str
    summary: Any


def pack(answer: Any) -> bytes:
    """Returns plain data in their stored form. Cost: linear."""
    return zlib.compress(json.dumps(answer).encode())


class AnswerStore:
    """The answers of a folder. Raises PtxwcetError (PW825) where the file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / STORE
        with self._told():
            folder.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
            (layout,) = self._base.execute("PRAGMA user_version").fetchone()
            if layout not in (0, _LAYOUT):
                raise sqlite3.DatabaseError(f"it has layout {layout}, of another version")
            self._write_ahead()
            self._base.execute("PRAGMA synchronous = NORMAL")
            self._base.executescript(f"{_TABLES} PRAGMA user_version = {_LAYOUT};")

    def _write_ahead(self) -> None:
        """Enables the mode in which many processes read while one writes.

        SQLite itself does not wait for others that open the file in the same moment.
        """
        last = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._base.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                    raise
                time.sleep(0.02)
            else:
                return

    def __enter__(self) -> AnswerStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def is_empty(self) -> bool:
        """Returns whether there is neither an answer nor a failure."""
        with self._told():
            asked = "SELECT 1 FROM answers UNION ALL SELECT 1 FROM failures LIMIT 1"
            return self._base.execute(asked).fetchone() is None

    def has_answer(self, key: str) -> bool:
        """Returns whether there is an answer with a readable summary."""
        entry = self.summary(key)
        return entry is not None and entry[1] is not None

    def answer(self, key: str) -> Any:
        """Returns the whole answer as plain data, None if no answer can be read."""
        with self._told():
            asked = "SELECT answer, answer_digest FROM answers WHERE key = ?"
            kept = self._base.execute(asked, (key,)).fetchone()
        if kept is None or not isinstance(kept[0], bytes) or kept[1] != _digest(key, kept[0]):
            return None
        unpacking = zlib.decompressobj()
        try:
            text = unpacking.decompress(kept[0], _MOST_BYTES)
            return json.loads(text) if unpacking.eof else None
        except (zlib.error, ValueError, RecursionError):
            return None

    def summary(self, key: str) -> tuple[Any, float | None] | None:
        """Returns the summary of an answer with its seconds, or of a failure (None); else None."""
        with self._told():
            asked = "SELECT summary, seconds, summary_digest FROM answers WHERE key = ?"
            kept = self._base.execute(asked, (key,)).fetchone()
            if kept is None:
                asked = "SELECT summary, NULL, summary_digest FROM failures WHERE key = ?"
                kept = self._base.execute(asked, (key,)).fetchone()
        content = None if kept is None else _row(key, *kept)
        return None if content is None else (content, kept[1])

    def add(self, entries: Iterable[KeptEntry | KeptFailure]) -> None:
        """Writes answers and failures, all of them or none."""
        with self._told(), self._base:
            for entry in entries:
                key, summary = entry.key, json.dumps(entry.summary)
                if isinstance(entry, KeptFailure):
                    failure: tuple[object, ...] = (key, summary, _digest(key, summary, None))
                    self._base.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", failure)
                    continue
                seconds = float(entry.seconds)
                digests = _digest(key, summary, seconds), _digest(key, entry.answer)
                self._base.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                    (key, summary, entry.answer, seconds, *digests),
                )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = f"cannot use the answers kept in '{self.path}': {reason}"
            remedy = "name another folder, or delete the file: what it has is analysed anew"
            raise PtxwcetError(Diagnostic("PW825", message, help=remedy)) from None


def _digest(*content: str | bytes | float | None) -> str:
    """Returns a digest of an entry's content: it proves the content, not its author."""
    digest = hashlib.sha256()
    for part in content:
        data = part if isinstance(part, bytes) else repr(part).encode(errors="surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _row(key: str, text: object, seconds: object, digest: object) -> Any:
    """Returns the summary of an entry, None if it cannot be read or has another digest."""
    if not isinstance(text, str) or not isinstance(seconds, float | None):
        return None
    if digest != _digest(key, text, seconds):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
