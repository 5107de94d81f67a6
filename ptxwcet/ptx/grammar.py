"""Wraps the grammar file and Lark: the only interface to the parser generator.

Building the LALR tables takes about 0.1 s, so they are kept in the cache folder, in a file named by
a hash of the grammar and Lark's version. If that folder cannot be written the tables are built each
time; nothing else changes.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import lark
from lark import Lark, Token, Tree

from ptxwcet.support.comments import blank_comments
from ptxwcet.support.first_use import cache_folder

Node = Tree[Token] | Token

STARTS = (
    "module",
    "header",
    "function_head",
    "declaration",
    "item",
    "instruction",
    "mnemonic",
    "call",
    "operands",
    "call_operands",
)


@cache
def grammar() -> Lark:
    """Returns the LALR parser for all start rules. Cost: once 0.02 s from the cache, else 0.1 s."""
    text = grammar_text()
    return Lark(
        text,
        parser="lalr",
        lexer="contextual",
        start=list(STARTS),
        maybe_placeholders=False,
        propagate_positions=False,
        cache=_cache_file(text) or False,
    )


def parse_rule(text: str, start: str) -> Tree[Token]:
    """Parses ``text`` with one start rule. Raises lark.UnexpectedInput. Cost: linear.

    Comments and line markers are white space; blanking them here keeps three patterns out of each
    of Lark's scanners, which are compiled anew in every process.
    """
    if "/" in text or "#" in text:
        text = blank_comments(text)
    tree: Tree[Token] | Token = grammar().parse(text, start=start)
    return tree if isinstance(tree, Tree) else Tree(start, [tree])


@cache
def directive_words() -> frozenset[str]:
    """Returns all words with a dot in the grammar: ``.reg``, ``.global``, ``.maxntid`` ..."""
    return frozenset(re.findall(r"\.[a-z_]+\b", grammar_text()))


@cache
def section_pattern() -> re.Pattern[str]:
    """Returns terminal SECTION without its closing brace: it ends at the brace or at an error."""
    whole = grammar().get_terminal("SECTION").pattern.to_regexp()
    return re.compile(whole.removesuffix("\\}"))


def is_tree(node: Node, *rules: str) -> bool:
    """Returns whether a node is a tree of one of these rules."""
    return isinstance(node, Tree) and node.data in rules


def tokens(node: Node) -> list[Token]:
    """Returns all tokens below a node in textual order. No recursion: inputs may nest deeply."""
    below: list[Token] = []
    stack: list[Node] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Token):
            below.append(top)
        else:
            stack.extend(reversed(top.children))
    return below


def first_token(node: Node) -> Token:
    """Returns the first token below a node."""
    return tokens(node)[0]


def terminal_text(name: str) -> str:
    """Returns a terminal's text for readers: its spelling, or a word for its meaning."""
    words = {
        "NAME": "a name",
        "INT": "an integer",
        "VERSION": "a version such as 8.8",
        "FLOAT": "a number",
        "HEXFLOAT": "a float",
        "HEXDOUBLE": "a float",
        "STRING": "a string",
        "MODIFIER": "a modifier",
        "TYPE": "a type",
        "VECTOR": "a vector width",
        "SPACE": "a state space",
        "PARAM_SPACE": "'.param' or '.reg'",
        "LINKAGE": "a linkage",
        "DIMENSIONS": "'.maxntid' or '.reqntid' or '.reqnctapercluster'",
        "LIMIT": "a resource limit",
        "FLAG": "'.explicitcluster' or '.blocksareclusters'",
        "ABI": "'.abi_preserve'",
        "$END": "the end",
    }
    if name in words:
        return words[name]
    try:
        pattern = grammar().get_terminal(name).pattern
    except KeyError:
        return name
    return f"'{pattern.value}'" if isinstance(pattern, lark.lexer.PatternStr) else name.lower()


def grammar_text() -> str:
    """Returns the file next to this module in a wheel, in ``grammar/`` in a checkout."""
    here = Path(__file__).resolve()
    installed = here.with_name("ptx.lark")
    path = installed if installed.exists() else here.parents[2] / "grammar" / "ptx.lark"
    return path.read_text(encoding="utf-8")


def _cache_file(text: str) -> str | None:
    folder = cache_folder()
    if folder is None:
        return None
    stamp = hashlib.sha256((text + lark.__version__).encode()).hexdigest()[:16]
    return str(folder / f"grammar-{stamp}.bin")
