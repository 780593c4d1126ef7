"""The pages in a real browser: they open from the disk, draw, sort, follow light and dark, fit a phone and print."""

import pytest
from made_results import NASTY, write_results, write_run, write_score_file

from selfguide.cli.main import main
from selfguide.experiments.specs import spec_names

pytestmark = pytest.mark.second_environment

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY = "document.documentElement.dataset.charts === 'ready'"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Name of each page -> its file; the results are those of all tables and figures."""
    place = tmp_path_factory.mktemp("pages")
    write_results(place / "results", spec_names())
    write_run(place / "run")
    write_score_file(place / "scores.jsonl")
    for path in ("results", "run", "scores.jsonl"):
        assert main(["report", str(place / path)]) == 0
    return {path.stem: path for path in place.glob("*.html")}


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=OPTIONS)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """Opens a file; what goes wrong on it, and what it loads besides itself, is in its list ``noticed``."""
    contexts = []

    def open_page(path, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.noticed = []
        page.on("console", lambda message: page.noticed.append(message.text))
        page.on("pageerror", lambda error: page.noticed.append(str(error)))
        page.on("request", lambda request: request.url == path.as_uri() or page.noticed.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def ready(opened, pages):
    """Opens a page and waits for the chart library."""

    def open_ready(name, **options):
        page = opened(pages[name], **options)
        page.wait_for_function(READY)
        return page

    return open_ready


def drawn(page):
    """Brings every chart into sight; gives width, height and number of drawn shapes of each."""
    sizes = []
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        plot.locator("svg.main-svg").first.wait_for()
        sizes.append(
            plot.evaluate(
                """plot => {
                    const box = plot.querySelector("svg.main-svg").getBoundingClientRect();
                    return [box.width, box.height, plot.querySelectorAll(".plot path, .plot image").length];
                }"""
            )
        )
    return sizes


@pytest.mark.parametrize(("name", "least"), [("results", 15), ("run", 7), ("scores", 2)])
def test_all_charts_are_drawn_and_nothing_is_loaded(ready, pages, name, least):
    page = ready(name)
    sizes = drawn(page)
    assert len(sizes) >= least
    assert all(width > 250 and height >= 340 and shapes for width, height, shapes in sizes), sizes
    assert page.noticed == []
    assert pages[name].stat().st_size < 6_000_000


def test_what_goes_wrong_is_noticed(opened, tmp_path):
    (tmp_path / "bad.html").write_text(
        '<img src="https://example.org/x.png"><script>console.error("odd"); nothing()</script>'
    )
    page = opened(tmp_path / "bad.html")
    page.wait_for_timeout(200)
    assert any("example.org" in text for text in page.noticed)
    assert any("odd" in text for text in page.noticed) and any("nothing is not defined" in text for text in page.noticed)


def test_sentences_on_hover(ready):
    page = ready("run")
    after = page.locator(".plot").last
    after.scroll_into_view_if_needed()
    after.locator(".scatterlayer .point").first.hover(force=True)
    shown = after.locator(".hoverlayer .hovertext").first
    shown.wait_for()
    assert shown.text_content().startswith(NASTY[:40])
    assert "cosine 0.900" in shown.text_content()
    assert page.noticed == [], "the script of the sentence did not run"


def test_a_click_sorts_and_so_does_a_key(ready):
    page = ready("results")
    table = page.locator("table", has=page.get_by_role("button", name="SemEval2014-es")).first
    head = table.locator("th", has=page.get_by_role("button", name="SemEval2014-es"))

    def column():
        return table.locator("tbody td:nth-child(2)").evaluate_all("cells => cells.map(cell => cell.dataset.value ?? '')")

    def numbers():
        return [float(value) for value in column() if value]

    assert column()[0] == "", "a quoted system, as in the paper"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True) and column()[-1] == ""
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers() == sorted(numbers()) and column()[-1] == "", "empty ones are last both ways"
    first = table.locator("th", has=page.get_by_role("button", name="system"))
    first.get_by_role("button").click()
    words = [label.split()[0] for label in table.locator("tbody th").all_inner_texts()]
    assert words == sorted(words, key=str.casefold)
    assert head.get_attribute("aria-sort") is None


def test_a_click_in_the_legend_hides_and_shows(ready):
    page = ready("run")
    figure = page.locator("figure").last
    figure.scroll_into_view_if_needed()
    figure.locator("svg.main-svg").first.wait_for()
    count = figure.locator(".scatterlayer .point").count()
    key = figure.locator(".legend button").first
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert figure.locator(".scatterlayer .point").count() == count / 2
    key.click()
    assert figure.locator(".scatterlayer .point").count() == count


def test_page_and_charts_follow_light_and_dark(ready):
    page = ready("run", color_scheme="light")
    page.locator(".plot svg.main-svg").first.wait_for()

    def colours():
        return page.evaluate(
            """[getComputedStyle(document.body).backgroundColor,
                document.querySelector(".plot .xtick text").style.fill,
                document.querySelector(".plot .lines path").style.stroke]"""
        )

    light = colours()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"document.querySelector('.plot .xtick text').style.fill !== '{light[1]}'")
    assert all(before != after for before, after in zip(light, colours(), strict=True))
    assert page.noticed == []


@pytest.mark.parametrize("name", ["results", "run", "scores"])
def test_a_phone_does_not_scroll_sideways(ready, name):
    page = ready(name, viewport=PHONE, is_mobile=True, has_touch=True)
    assert all(width <= PHONE["width"] for width, *_ in drawn(page))
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_page_is_printed_light_with_all_its_charts(ready):
    page = ready("run", color_scheme="dark")
    page.evaluate(
        """addEventListener("beforeprint", () => setTimeout(() => {}, 0));
        addEventListener("afterprint", () => { window.printed = true; });
        window.widths = [];
        addEventListener("beforeprint", () => {
            window.ink = document.querySelector(".plot .xtick text").style.fill;
            window.widths = [...document.querySelectorAll(".plot svg.main-svg")].map(svg => svg.clientWidth);
        });"""
    )
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    assert page.evaluate("window.ink") == "rgb(28, 35, 48)"
    assert set(page.evaluate("window.widths")) == {640}
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.noticed == []


def test_charts_that_cannot_be_drawn_say_so(opened, pages, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(pages["run"].read_text("utf-8").replace("new DecompressionStream", "new Missing"), "utf-8")
    page = opened(broken)
    page.get_by_text("The chart cannot be drawn here; its data is below.").first.wait_for()
    assert any("Missing is not defined" in text for text in page.noticed)
