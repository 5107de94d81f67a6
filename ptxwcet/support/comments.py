"""Recognises C comments, and line markers of the preprocessor, in texts of kernels."""

from __future__ import annotations

import re

COMMENT = r"//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"

LINE_MARKER = re.compile(
    r'#[ \t]*(?:line[ \t]+)?[0-9]+[ \t]+"[^"\n]*"(?:[ \t]+[0-9]+)*[ \t]*(?=\r?(?:\n|\Z))', re.ASCII
)

_BLANKED = re.compile(rf'"[^"\n]*+"|{COMMENT}|(?<![^\n])[ \t]*+{LINE_MARKER.pattern}', re.ASCII)


def blank_comments(text: str) -> str:
    """Returns the text with blanks for comments and line markers; strings and offsets stay."""
    return _BLANKED.sub(
        lambda match: match.group() if match.group()[0] == '"' else " " * len(match.group()), text
    )
