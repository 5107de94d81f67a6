"""Digests that files of ours carry of their content, so that changed content is refused.

They tell what was changed by hand or by accident, and do not keep anybody from making a new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST = "digest"
"""The key of the digest, beside those of the content."""


class Changed(ValueError):
    """The content is not what was written."""


def sealed(data: Any) -> Any:
    """Plain data with its digest, and lists of such; what has no schema has none either."""
    if isinstance(data, list | tuple):
        return [sealed(one) for one in data]
    if not isinstance(data, Mapping) or "schema" not in data:
        return data
    return {**data, DIGEST: _digest(data)}


def require_seal(data: Mapping[str, Any]) -> None:
    """Raises Changed if data carry a digest of other content. Those of older versions have none."""
    if DIGEST in data and data[DIGEST] != _digest(data):
        raise Changed("its content is not what was written: make it again, and change nothing")


def _digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of the content, whatever its order and its layout, in hexadecimal."""
    content = json.loads(json.dumps({key: one for key, one in data.items() if key != DIGEST}))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
