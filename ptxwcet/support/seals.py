"""Adds digests of their content to the tool's own files, so that changed content is refused.

They reveal changes by hand or by accident, and do not prevent the creation of a new digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST = "digest"
"""The key of the digest, next to those of the content."""


class Changed(ValueError):
    """The error of content that differs from the written one."""


def sealed(data: Any) -> Any:
    """Returns plain data with its digest, and lists of such; data without a schema has none."""
    if isinstance(data, list | tuple):
        return [sealed(item) for item in data]
    if not isinstance(data, Mapping) or "schema" not in data:
        return data
    return {**data, DIGEST: _digest(data)}


def require_seal(data: Mapping[str, Any]) -> None:
    """Raises Changed if data carry a digest of other content. Those of older versions have none."""
    if DIGEST in data and data[DIGEST] != _digest(data):
        raise Changed("its content is not what was written: make it again, and change nothing")


def _digest(data: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the content, whatever its order and its layout, in hexadecimal."""
    content = json.loads(json.dumps({key: value for key, value in data.items() if key != DIGEST}))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
