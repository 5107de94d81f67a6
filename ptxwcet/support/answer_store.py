"""Answers that are kept in a folder, by their keys: one SQLite file, which many may read.

What is written is there after a run is killed, at the next moment or days later. An entry is never
changed: who writes a key again writes the same. Each carries digests of its content; one that
cannot be read, or is not what was written, counts as missing.
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
"""Bytes of an answer: more than any has, and less than a computer's memory."""
_TABLES = """
CREATE TABLE IF NOT EXISTS answers
    (key TEXT PRIMARY KEY, summary TEXT NOT NULL, answer BLOB NOT NULL, seconds REAL NOT NULL,
    summary_digest TEXT NOT NULL, answer_digest TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures
    (key TEXT PRIMARY KEY, summary TEXT NOT NULL, summary_digest TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An answer under its key: a short row of it, the whole, and the seconds that it took.

    The whole is packed (:func:`pack`): whoever finds an answer may do that, who writes has enough
    to do.
    """

    key: str
    summary: Any
    answer: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class KeptFailure:
    """A key without an answer, for reasons that may be the computer's, with the row that says so.

    Failures are shown, but nobody takes them for answers.
    """

    key: str
    summary: Any


def pack(answer: Any) -> bytes:
    """Plain data as they are kept. Cost: linear."""
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
        """Turns the mode on in which many read while one writes.

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
        """Whether there is neither an answer nor a failure."""
        with self._told():
            asked = "SELECT 1 FROM answers UNION ALL SELECT 1 FROM failures LIMIT 1"
            return self._base.execute(asked).fetchone() is None

    def has_answer(self, key: str) -> bool:
        """Whether there is an answer, whose row can be read."""
        found = self.summary(key)
        return found is not None and found[1] is not None

    def answer(self, key: str) -> Any:
        """The whole answer as plain data, None if there is none that can be read."""
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
        """The row of an answer with the seconds that it took, or of a failure (None); else None."""
        with self._told():
            asked = "SELECT summary, seconds, summary_digest FROM answers WHERE key = ?"
            kept = self._base.execute(asked, (key,)).fetchone()
            if kept is None:
                asked = "SELECT summary, NULL, summary_digest FROM failures WHERE key = ?"
                kept = self._base.execute(asked, (key,)).fetchone()
        row = None if kept is None else _row(key, *kept)
        return None if row is None else (row, kept[1])

    def add(self, entries: Iterable[KeptEntry | KeptFailure]) -> None:
        """Writes answers and failures, all of them or none."""
        with self._told(), self._base:
            for entry in entries:
                key, summary = entry.key, json.dumps(entry.summary)
                if isinstance(entry, KeptFailure):
                    row: tuple[object, ...] = (key, summary, _digest(key, summary, None))
                    self._base.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", row)
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
    """A digest of what an entry has: that it is what was written, not who has written it."""
    digest = hashlib.sha256()
    for one in content:
        data = one if isinstance(one, bytes) else repr(one).encode(errors="surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _row(key: str, text: object, seconds: object, digest: object) -> Any:
    """The row of an entry, None if it cannot be read or is not what was written."""
    if not isinstance(text, str) or not isinstance(seconds, float | None):
        return None
    if digest != _digest(key, text, seconds):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
