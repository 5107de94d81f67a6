"""Comments as C has them, and the lines that its preprocessor leaves, in texts of kernels."""

from __future__ import annotations

import re

COMMENT = r"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"

LINE_MARKER = re.compile(
    r'#[ \t]*(?:line[ \t]+)?[0-9]+[ \t]+"[^"\n]*"(?:[ \t]+[0-9]+)*[ \t]*(?=\r?(?:\n|\Z))', re.ASCII
)

_BLANKED = re.compile(rf'"[^"\n]*+"|{COMMENT}|(?<![^\n])[ \t]*+{LINE_MARKER.pattern}', re.ASCII)


def blank_comments(text: str) -> str:
    """The text with spaces in place of comments and line markers; strings and offsets are kept."""
    return _BLANKED.sub(
        lambda match: match.group() if match.group()[0] == '"' else " " * len(match.group()), text
    )
