"""What mkdocs does not do by itself: links for pages named in text, and no resource from elsewhere.

Pages are read in the source code, too, where `docs/glossary.md` in a sentence is a path. On the
site such a path becomes a link. The page of diagnostics gets the table that ``ptxwcet explain``
prints. After a build every HTML and CSS file is searched for resources that a browser would fetch
from another host: the site has to work without a network.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ptxwcet.commands.explain.command import explain

_CODES = "<!-- codes -->"
_PART = re.compile(  # code, the target of a link, or a path in a sentence
    r"`(?P<code>[^`]*)`|\]\([^)]*\)|(?<![\w/.-])docs/[\w/-]+\.md"
)
_FETCHED = {  # element: the attributes that name what is fetched with the page
    **dict.fromkeys(("audio", "embed", "iframe", "input", "script", "source", "track"), ("src",)),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "video": ("src", "poster"),
}
_ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Links for the pages that are named in text, and the table of all codes where it belongs."""
    if _CODES in markdown:
        markdown = markdown.replace(
            _CODES, CliRunner().invoke(explain, ["--format", "markdown"]).output
        )
    return link_mentions(markdown, page.file.src_uri, {file.src_uri for file in files})


def on_post_build(config: Any) -> None:
    """Raises SystemExit if a page would fetch something from another host."""
    problems = external_resources(Path(config.site_dir))
    if problems:
        raise SystemExit("fetched from elsewhere:\n  " + "\n  ".join(problems))


def link_mentions(markdown: str, page: str, pages: set[str]) -> str:
    """The text with a link wherever `docs/NAME.md` names one of the pages; blocks of code stay."""

    def link(part: re.Match[str]) -> str:
        path = part["code"] or part[0]
        target = path.removeprefix("docs/")
        if path == target or target not in pages or target == page:
            return part[0]
        name = posixpath.splitext(posixpath.basename(target))[0].replace("-", " ")
        return f"[{name}]({posixpath.relpath(target, posixpath.dirname(page) or '.')})"

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        text = not (fence or fenced or line.startswith("    "))
        lines.append(_PART.sub(link, line) if text else line)
    return "\n".join(lines)


def external_resources(site: Path) -> list[str]:
    """Each resource of another host that a page or a style sheet below a folder would fetch."""
    problems = []
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".css", ".svg"):
            continue
        text = path.read_text(encoding="utf-8")
        urls = _IN_STYLES.findall(text)
        if path.suffix == ".html":
            fetched = _Fetched()
            fetched.feed(text)
            urls += fetched.urls
        problems += [f"{path.relative_to(site)}: {url}" for url in urls]
    return problems


class _Fetched(HTMLParser):
    """Collects the URLs of other hosts that the elements of a page fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in _FETCHED.get(tag, ()) and _ELSEWHERE.match(value or ""):
                self.urls.append(f"<{tag} {name}={value}>")
            if name == "class" and "mermaid" in (value or "").split():
                self.urls.append(f"<{tag}> is drawn by a library that the theme fetches")
