"""The file: nothing in it is loaded from elsewhere, no text breaks out of its place, tables keep their order."""

import json
import re
from html import unescape

import pytest
from made_results import NASTY

from selfguide.report.charts import Line, line_chart
from selfguide.report.html import render
from selfguide.report.page import Cell, ChartRow, DataTable, Folded, Page, Section, number, text_table

TABLE = DataTable(
    "Scores", ("system", "Avg"), ((Cell("b"), number(2.0)), (Cell("a", ("small",)), Cell("1", value=1.0, mark="beyond")))
)


def page_of(*blocks):
    return render(Page("Title", "Subtitle", (Section("First: a section", blocks, "First"),)))


def chart(name="loss"):
    return line_chart(name, [Line(name, ((1, 2.0), (2, 1.0)))], x="step", y=name)


def resources(html):
    """What a browser would load: addresses in attributes and styles."""
    return re.findall(r"""(?:\bsrc|\bhref|\bdata)\s*=\s*["']?(?!#)([^"'\s>]+)|@import|url\(([^)]*)\)""", html)


def test_nothing_is_loaded_from_elsewhere():
    html = page_of(TABLE, ChartRow((chart(),)))
    assert resources(html) == []
    assert not re.search(r"https?://", html)


@pytest.mark.parametrize(
    "line", ['<script src="https://x/y.js"></script>', '<a href="https://x">', "@import 'x.css'", "url(x)"]
)
def test_what_would_be_loaded_is_found(line):
    assert resources(f"<p>{line}</p>")


def test_texts_are_shown_as_they_are():
    table = text_table(NASTY, (NASTY,), [(NASTY,)])
    html = render(
        Page(NASTY, NASTY, (Section(NASTY, (NASTY, table, ChartRow((chart(NASTY),)), Folded(NASTY, (NASTY,)))),)),
    )
    assert "<script>alert" not in html and "<b>bold" not in html
    assert len(re.findall(r"</script", html)) == 3, "that of the chart's data, of the library and of the page"
    assert unescape(re.search(r"<h2>(.*?)</h2>", html)[1]) == NASTY
    [figure] = re.findall(r'<script type="application/json">(.*?)</script>', html)
    names = json.loads(figure)["data"][0]["name"]
    assert unescape(names) == NASTY and "<" not in names, "plotly reads names as HTML"


def test_a_table_keeps_its_order_and_says_what_it_is_sorted_by():
    html = page_of(TABLE)
    assert [unescape(name) for name in re.findall(r'scope="col"><button type="button">(.*?)</button>', html)] == [
        "system",
        "Avg",
    ]
    assert re.findall(r'<tr><th scope="row">(\w)', html) == ["b", "a"]
    assert re.findall(r'data-value="([^"]+)"', html) == ["2", "1"]
    assert '<td data-value="1" class="beyond">1</td>' in html
    assert "<small>small</small>" in html
    assert "<caption>Scores</caption>" in html


def test_sections_are_listed():
    html = page_of("A text.")
    assert '<a href="#section-1">First</a>' in html
    assert '<section id="section-1">\n<h2>First: a section</h2>\n<p>A text.</p>' in html


def test_a_chart_has_words_and_numbers_beside_it():
    html = page_of(ChartRow((chart(),)))
    label = unescape(re.search(r'role="img" aria-label="(.*?)"', html)[1])
    assert label == "Line chart of loss by step, from the first value to the last. loss: 2.00 to 1.00."
    assert "<summary>Data of this chart</summary>" in html
    assert '<th scope="row" data-value="2">2</th><td data-value="1">1.00</td>' in html


def test_the_library_is_there_once_and_only_where_there_are_charts():
    folded = page_of(ChartRow((chart(), chart())), Folded("more", (ChartRow((chart(),)),)))
    assert 1_500_000 < len(folded) < 2_500_000
    assert len(page_of(TABLE)) < 20_000
    assert len(page_of(Folded("more", (ChartRow((chart(),)),)))) > 1_500_000


def test_a_missing_library_costs_the_charts_and_not_the_page(monkeypatch, caplog):
    from selfguide.report import html

    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    html._packed_plotly.cache_clear()
    try:
        assert '<script type="application/gzip" id="plotly"></script>' in page_of(ChartRow((chart(),)))
    finally:
        html._packed_plotly.cache_clear()
    assert "plotly is not installed" in caplog.text
