"""What of a web page still stands when it was shortened?"""

from __future__ import annotations

import pytest

from kvagent.shorten import html, shorten

PAGE = """<!DOCTYPE html>
<html><head><title>Prices &amp; plans</title>
<style>p { color: red }</style>
<script>var tracking = "<p>not shown</p>";</script>
</head><body>
<nav><a href="/home">Home</a> <a href="/jobs">Jobs</a></nav>
<h1>Plans</h1>
<p>There are <b>three</b> plans, see <a href="https://example.org/plans?id=7">the list</a>.</p>
<table><tr><th>Plan</th><th>Price</th></tr>
<tr><td>Small</td><td>10 <a href="/buy/small">buy</a></td></tr>
<tr><td>Large | all</td><td>90</td></tr></table>
<ul><li>First</li><li>Second <code>make it</code></li></ul>
<h2>How to install</h2>
<pre><code>pip install  thing
thing --run</code></pre>
<p>Bye<br>now<img src="a.png" alt="a cat"></p>
<!-- a comment -->
</body></html>
"""

TEXT = """Prices & plans
# Plans
There are three plans, see the list <https://example.org/plans?id=7>.
| Plan | Price |
|---|---|
| Small | 10 buy </buy/small> |
| Large \\| all | 90 |
- First
- Second `make it`
## How to install
```
pip install  thing
thing --run
```
Bye
nowa cat"""


def test_the_text_of_a_page() -> None:
    """Tables with links, code blocks, and what is no article: all of it is there."""
    assert html.page_text(PAGE) == TEXT


def test_a_page_whose_text_fits() -> None:
    result = html.shorten(PAGE, 700, handle="r1")
    assert result is not None
    lines = TEXT.count("\n") + 1
    assert result.text == (
        f"[kvagent: all {lines} lines shown, html as text; all of it is kept as r1]\n{TEXT}"
    )
    assert (result.kept, result.dropped, result.lossless) == (lines, 0, False)


def page(paragraphs: int) -> str:
    parts = [
        f"<h2>Part {i}</h2><div><p>Part {i} is about value_{i} at /docs/part-{i}.html and so on.</p>"
        f"<p>{'Nothing that anybody would want to know about it. ' * 5}</p></div>"
        for i in range(paragraphs)
    ]
    return f"<html><head><title>The parts</title></head><body>{''.join(parts)}</body></html>"


def test_a_page_whose_text_is_too_long() -> None:
    text = page(100)
    result = shorten(text, 4000, handle="r1", source="fetch https://example.org/")
    assert result.text.startswith("[kvagent: ")
    assert "html as text" in result.text.split("\n")[0]
    assert len(result.text) <= 4000
    shown = result.text.split("\n")
    assert shown[1] == "The parts"
    assert sum(line.startswith("## Part ") for line in shown) > 20
    assert "<" not in result.text.replace("</", "")


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d\n" * 100,
        "export const A = () => <div><p>text</p></div>;\n" * 3,
        "<html>",
        "<!doctype html><script>let it = 1;",
        "<!doctype html><body><nav>never ended <p>so who knows</p></body>",
    ],
)
def test_what_is_no_page_or_cannot_be_read(text: str) -> None:
    assert html.shorten(text, 5) is None


def test_source_code_with_tags_in_it_stays_source_code() -> None:
    text = PAGE * 5
    assert html.shorten(text, 100, source="Read src/page.tsx") is None
    assert html.shorten(text, 100, source="fetch https://example.org/a.html") is not None


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><p>a</table></td><b>c</a></pre></li></p>d",
        "<!doctype html><table><td>1<td>2<tr><td>3<table><tr><td>4</table>",
        "<!doctype html><pre>a<pre>b</pre>c</pre><h9>x</h9><h1>",
        "<!doctype html><![CDATA[x]]><!ELEMENT x><?php y ?><p a='\"'>&bogus;&#xFFFFFF;&#55357;z",
        "<!doctype html><a href><a href='#x'>y</a><a href='javascript:z'>w</a>",
        "<!doctype html>" + "<div>" * 3000 + "deep",
        "<!doctype html>" + "<a <a <a " * 300,
    ],
)
def test_broken_pages_are_no_error(text: str) -> None:
    html.page_text(text)
    html.shorten(text, 20)
