"""HTML pages as Markdown: their visible text, with links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from tools_app.packs.websearch._work import text

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Deeper than real pages. Below it only plain text is taken, against recursion errors.
MOST_DEPTH: Final = 100
# Limits for the parser, in characters and in tags: for endless nesting or endless attributes it needs quadratic time.
# Within these limits it takes seconds at worst, in a thread of its own.
MOST_SOURCE: Final = 300_000
MOST_TAGS: Final = 30_000
CUT: Final = "_The page is truncated here._"
_TAG: Final = re.compile("<")
# Every line repeats the marks of all levels of lists and quotes; deeper levels are not marked.
_MOST_INDENTED: Final = 30
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_LEFT_OUT: Final = frozenset(
    {
        *("head", "script", "style", "noscript", "template", "svg", "math", "-comment"),
        *("iframe", "object", "embed", "canvas", "audio", "video"),
        *("dialog", "nav", "footer", "aside", "button", "select", "input", "textarea", "label", "option"),
    }
)
_BLOCKS: Final = frozenset(
    {
        *("body", "main", "article", "section", "header", "address", "div", "center", "form", "fieldset", "details"),
        *("summary", "figure", "figcaption", "p", "pre", "blockquote", "hr", "ul", "ol", "li", "dl", "dt", "dd"),
        *("table", "thead", "tbody", "tfoot", "tr", "th", "td"),
        *_HEADINGS,
    }
)
_MARKED: Final = {"strong": "**", "b": "**", "em": "*", "i": "*"}
_HIDDEN: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?![.\d])|font-size\s*:\s*0(?![.\d])"
    r"|(?:left|right|top|text-indent)\s*:\s*-[0-9]{4}"  # beside the screen
)
_SPACE: Final = re.compile(r"\s+")
_AROUND_BREAKS: Final = re.compile(r" *\n *")
_NOT_ROWS: Final = "table table, ul, ol, pre, blockquote, div, h1, h2, h3, h4"
# With less text in <main>, the content of a page is elsewhere.
_ENOUGH: Final = 200
_MOST_FRAMES: Final = 20
_REFRESH: Final = re.compile(r"url\s*=\s*[\"']?\s*([^\s\"'>]+)", re.IGNORECASE)
# Powers: `10<sup>6</sup>` is not 106. Others, as in `1<sup>st</sup>`, are written without a mark.
_POWER: Final = re.compile(r"[+\u2212-]?(?:[0-9][0-9.,]{0,9}|[a-z]?[0-9]{1,9}|[kmnxyz])")
_NOT_READ: Final = [(re.compile("<!--"), re.compile("-->"))] + [
    (re.compile(rf"<{tag}\b", re.IGNORECASE), re.compile(rf"</{tag}\s{{0,9}}>", re.IGNORECASE))
    for tag in ("script", "style", "svg", "noscript", "template")
]


def of(source: str, url: str) -> tuple[str, str]:
    """The title and the text of the page at `url`."""
    from selectolax.lexbor import LexborHTMLParser

    html = _within_bounds(source)
    tree = LexborHTMLParser(html)
    base = tree.css_first("base[href]")
    writer = _Writer(_joined(url, base.attributes.get("href")) if base is not None else url)
    root = _readable_part(tree)
    blocks = writer.blocks(root, 0) if root is not None else []
    blocks += _elsewhere(tree, writer.base)
    if len(html) == MOST_SOURCE or html.count("<") == MOST_TAGS:
        blocks.append(CUT)
    return _title(tree), "\n\n".join(blocks)


def _within_bounds(source: str) -> str:
    """The page, cut to the limits, without elements that are ignored anyway."""
    for begin, end in _NOT_READ:
        source = _without(source, begin, end)
    source = source[:MOST_SOURCE]
    last = next(islice(_TAG.finditer(source), MOST_TAGS, None), None)
    return source[: last.start()] if last is not None else source


def _without(source: str, begin: re.Pattern[str], end: re.Pattern[str]) -> str:
    pieces, at = [], 0
    while (start := begin.search(source, at)) and (stop := end.search(source, start.end())):
        pieces.append(source[at : start.start()])
        at = stop.end()
    return "".join([*pieces, source[at:]]) if pieces else source


def _title(tree: LexborHTMLParser) -> str:
    for selector in ("head > title", "h1"):
        node = tree.css_first(selector)
        if node is not None and (title := text.plain(node.text(), 300)):
            return title
    return ""


def _elsewhere(tree: LexborHTMLParser, base: str) -> list[str]:
    """Links to content outside the page: frames and redirects by `<meta http-equiv="refresh">`."""
    refreshes = (meta.attributes.get("content") or "" for meta in tree.css("meta[http-equiv=refresh i]"))
    targets = [("The page redirects to", target[1]) for each in refreshes if (target := _REFRESH.search(each))]
    frames = (frame for frame in tree.css("frame[src], iframe[src]") if not _is_hidden(frame))
    targets += [("The page shows in a frame", frame.attributes.get("src") or "") for frame in frames]
    addresses = ((words, text.address(_joined(base, target))) for words, target in targets)
    lines = dict.fromkeys(f"_{words}:_ <{url}>" for words, url in addresses if url)
    return list(lines)[:_MOST_FRAMES]


def _readable_part(tree: LexborHTMLParser) -> LexborNode | None:
    """The part that is marked as the main content, or the whole page."""
    for selector in ("main", "[role=main]", "article"):
        candidates = tree.css(selector)
        # Several articles form a list, and none of them is the main content.
        if len(candidates) == 1 and len(candidates[0].text().strip()) >= _ENOUGH:
            return candidates[0]
    return tree.body


class _Writer:
    def __init__(self, base: str) -> None:
        self.base = base

    def blocks(self, node: LexborNode, depth: int) -> list[str]:
        """The block elements of a node, such as paragraphs and lists, as Markdown."""
        if depth > MOST_DEPTH:
            return [words] if (words := _words(node.text(separator=" "))) else []
        blocks: list[str] = []
        line: list[str] = []
        for child in _visible_children(node):
            if child.tag in _BLOCKS:
                blocks += [_line(line), *self._block(child, depth + 1)]
                line = []
            else:
                line.append(self._inline(child, depth + 1))
        return [block for block in (*blocks, _line(line)) if block]

    def _block(self, node: LexborNode, depth: int) -> list[str]:
        tag = node.tag or ""
        if tag in _HEADINGS:
            heading = _line([self._inside(node, depth)]).replace("\n", " ")
            return [f"{_HEADINGS[tag]} {heading}"] if heading else []
        if tag == "pre":
            return [_fenced(node.text())]
        if tag in ("ul", "ol") and depth < _MOST_INDENTED:
            return self._list(node, depth)
        if tag == "blockquote" and depth < _MOST_INDENTED:
            quoted = "\n\n".join(self.blocks(node, depth))
            return ["\n".join(f"> {line}".rstrip() for line in quoted.split("\n"))] if quoted else []
        if tag == "table" and node.css_first(_NOT_ROWS) is None:
            return self._table(node, depth)
        return ["---"] if tag == "hr" else self.blocks(node, depth)

    def _list(self, node: LexborNode, depth: int) -> list[str]:
        items: list[str] = []
        for child in _visible_children(node):
            if lines := "\n".join(self.blocks(child, depth) if child.tag != "-text" else ()):
                mark = f"{len(items) + 1}. " if node.tag == "ol" else "- "
                items.append(mark + lines.replace("\n", "\n" + " " * len(mark)))
        return ["\n".join(items)] if items else []

    def _table(self, node: LexborNode, depth: int) -> list[str]:
        rows = [
            [_line([self._inside(cell, depth)]).replace("\n", " ").replace("|", "\\|") for cell in row.css("td, th")]
            for row in node.css("tr")
        ]
        rows = [row for row in rows if any(row)]
        if not rows:
            return []
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return ["\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])]

    def _inside(self, node: LexborNode, depth: int) -> str:
        if depth > MOST_DEPTH:
            return _words(node.text(separator=" "))
        return "".join(self._inline(child, depth + 1) for child in _visible_children(node))

    def _inline(self, node: LexborNode, depth: int) -> str:
        tag = node.tag or ""
        if tag == "-text":
            return _words(node.text())
        if tag == "br":
            return "\n"
        if tag == "img":
            alternative = text.plain(node.attributes.get("alt") or "", 200)
            return f" {alternative} " if alternative else ""
        inside = self._inside(node, depth)
        bare = inside.strip()
        if not bare:
            return inside
        if tag == "sup" and _POWER.fullmatch(bare):
            return inside.replace(bare, f"^{bare}", 1)
        if tag == "a":
            href = node.attributes.get("href") or ""
            # A link that starts with # leads to another place on the same page.
            url = "" if href.startswith("#") else text.address(_joined(self.base, href))
            return inside.replace(bare, f"[{_SPACE.sub(' ', bare)}]({text.in_brackets(url)})", 1) if url else inside
        if tag == "code" and "`" not in bare and "\n" not in bare:
            return inside.replace(bare, f"`{bare}`", 1)
        if tag in _MARKED and "*" not in bare and "\n" not in bare:
            return inside.replace(bare, f"{_MARKED[tag]}{bare}{_MARKED[tag]}", 1)
        return f" {inside} " if tag in _BLOCKS else inside


def _joined(base: str, href: str | None) -> str:
    try:
        return urljoin(base, (href or "").strip())
    except ValueError:
        return ""


def _visible_children(node: LexborNode) -> Iterator[LexborNode]:
    """The visible children: what a page hides from people is not for agents either."""
    for child in node.iter(include_text=True):
        if child.tag in _LEFT_OUT:
            continue
        if child.tag in ("-text", "br") or not _is_hidden(child):
            yield child


def _is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    style = (attributes.get("style") or "").lower()
    hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
    return hidden or (style != "" and _HIDDEN.search(style) is not None)


def _words(raw_text: str) -> str:
    """Text between tags, escaped so that it cannot form a Markdown link."""
    return _SPACE.sub(" ", raw_text).replace("](", "]\\(")


def _line(parts: list[str]) -> str:
    return _AROUND_BREAKS.sub("\n", re.sub(r" {2,}", " ", "".join(parts))).strip()


def _fenced(code: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{code.strip(chr(10))}\n{fence}" if code.strip() else ""
