"""Pages whose matter is somewhere else: frames, redirects of their own, feeds."""

from __future__ import annotations

import pytest

from tests.packs.websearch.conftest import Read, body_of
from tests.packs.websearch.fakes import FakeWeb

HTML = "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("<frameset cols='1,2'><frame src='menu.html'><frame src='/main'></frameset>",
         "_The page shows in a frame:_ <{base}/page/menu.html>\n\n_The page shows in a frame:_ <{base}/main>"),
        ("<p>words</p><iframe src='//video.test/1?a=b'></iframe><iframe hidden src='/x'></iframe><iframe></iframe>",
         "words\n\n_The page shows in a frame:_ <http://video.test/1?a=b>"),
        ("<head><meta http-equiv=Refresh content=\"0; URL='next.html'\"></head>",
         "_The page redirects to:_ <{base}/page/next.html>"),
        ("<meta http-equiv=refresh content='5'><p>again", "again"),
        ("<iframe src='javascript:alert(1)'></iframe><iframe src='a>b'></iframe>",
         "_The page shows in a frame:_ <{base}/page/a%3Eb>"),
        ("<p>10<sup>6</sup>, m<sup>-2</sup>, x<sup>n</sup>, 1<sup>st</sup>, 2<sup>e</sup>, a <sup>b c</sup>",
         "10^6, m^-2, x^n, 1st, 2e, a b c"),
    ],
)  # fmt: skip
def test_a_page_says_where_its_matter_is(read: Read, web: FakeWeb, source: str, shown: str) -> None:
    web.say("page", (source, HTML))
    assert body_of(read()) == shown.format(base=f"http://page.test:{web.server.port}")


RSS = """<?xml version="1.0"?><rss version="2.0"><channel><title>News &amp; more</title><link>https://a.test/</link>
<item><title>First [1]</title><link>https://a.test/1?a=(b)</link><pubDate>Mon, 01 Jan 2024</pubDate></item>
<item><title><![CDATA[<b>Second</b>]]></title><link>javascript:alert(1)</link></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>日記</title><link href="https://a.test/"/>
<entry><title>Entry</title><link rel="edit" href="/edit"/><link href="/entry"/><updated>2024-01-02</updated></entry>
<entry/></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<channel><title>Old</title></channel><item><title>One</title><link>https://a.test/1</link></item></rdf:RDF>"""


@pytest.mark.parametrize(
    ("source", "kind", "title", "shown"),
    [
        (RSS, "application/rss+xml", "News & more",
         "- [First \\[1\\]](https://a.test/1?a=%28b%29) (Mon, 01 Jan 2024)\n- \\<b\\>Second\\</b\\>"),
        (ATOM, "text/xml", "日記", "- [Entry]({base}/entry) (2024-01-02)\n- Without a title"),
        (RDF, "application/xml", "Old", "- [One](https://a.test/1)"),
        (RSS, "", "News & more", "- [First"),
        ("<rss><channel>", "text/xml", "", "<rss><channel>"),
        ("<!DOCTYPE rss [<!ENTITY a 'b'>]><rss><item/></rss>", "text/xml", "", "<!DOCTYPE rss"),
        ("<catalogue><item/></catalogue>", "text/xml", "", "<catalogue><item/></catalogue>"),
    ],
)  # fmt: skip
def test_a_feed_is_a_list_of_its_entries(
    read: Read, web: FakeWeb, source: str, kind: str, title: str, shown: str
) -> None:
    web.say("page", (source, kind))
    answer = read()
    assert f"# {title or 'Page without a title'}\n" in answer
    assert body_of(answer).startswith(shown.format(base=f"http://page.test:{web.server.port}"))


@pytest.mark.parametrize(
    ("described", "shown"),
    [
        ("<description>Plain  text</description>", "Plain text"),
        ("<description>&lt;p&gt;A &lt;b&gt;bold&lt;/b&gt; *word*&lt;/p&gt;</description>", "A bold \\*word\\*"),
        ("<description><![CDATA[<p>Shown &amp; <script>SECRET()</script>said]]></description>", "Shown & said"),
        ("<description/><summary>Second choice</summary>", "Second choice"),
        ("<description>&lt;!-- a --&gt;</description>", ""),
        ("<description>One</description>", ""),  # No more than the title says.
        (f"<description>{'long ' * 5_000}</description>", "long " * 39),
    ],
)
def test_entries_have_the_beginning_of_their_summary(read: Read, web: FakeWeb, described: str, shown: str) -> None:
    web.say("page", (f"<rss><channel><item><title>One</title>{described}</item></channel></rss>", "text/xml"))
    first, *others = body_of(read()).split("\n")
    assert first == "- One"
    assert [line.startswith(f"  {shown}") for line in others] == ([True] if shown else [])
    assert all(len(line) < 210 and "SECRET" not in line for line in others)


@pytest.mark.parametrize(
    "source",
    [
        "<!DOCTYPE rss SYSTEM 'http://page.test/x.dtd'><rss><item><title>a</title></item></rss>",
        "<!DOCTYPE rss [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><rss><item><title>&a;</title></item></rss>",
        "<!DOCTYPE rss [<!ENTITY a 'aaa'><!ENTITY b '&a;&a;&a;'>]><rss><item><title>&b;</title></item></rss>",
    ],
)
def test_no_entity_of_a_feed_is_expanded_or_fetched(read: Read, web: FakeWeb, source: str) -> None:
    web.say("page", (source, "application/rss+xml"))
    assert body_of(read()) == source
    assert len(web.server.requests) == 1
