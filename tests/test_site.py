"""The documentation site: built without a warning, whole, with equations drawn, and with nothing that needs a network."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from doc_pages import DOCS, ROOT
from second_environments import run
from selfguide.cli.main import COMMANDS

pytestmark = pytest.mark.slow

LOADING = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data"), ("embed", "src")}
LOADING_LINKS = {"stylesheet", "icon", "shortcut icon", "preload", "preconnect", "prefetch", "dns-prefetch", "manifest"}


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to; and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.equations = 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.equations += tag == "math"
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in LOADING_LINKS:
            self.loads.append(values["href"])
        self.loads += [values[name] for kind, name in LOADING if kind == tag and name in values]


def build(source: Path, output: Path) -> Path:
    """What ``make docs`` does, into another folder."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    [command] = re.findall(r"^docs:.*\n\t\$\(BIN\)/python (.*)$", makefile, flags=re.M)
    words = command.split()
    assert words[-2:] == ["docs", "site"] and "--fail-on-warning" in words
    run(sys.executable, *words[:-2], source, output, cwd=ROOT)
    return output


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build(DOCS, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_there(site):
    for source in DOCS.rglob("*.md"):
        assert (site / source.relative_to(DOCS)).with_suffix(".html").is_file(), source


def test_every_link_leads_somewhere(site, pages):
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(site, pages):
    """The site opens from disk, on a machine without a network."""
    for path, page in pages.items():
        for load in page.loads:
            parts = urlsplit(load)
            assert not parts.scheme or parts.scheme == "data", f"{path.relative_to(site)} loads {load}"
            assert not parts.netloc, f"{path.relative_to(site)} loads {load}"
            assert parts.scheme or (path.parent / unquote(parts.path)).is_file(), f"{path.relative_to(site)}: {load}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import", style.read_text("utf-8")), style


def test_equations_are_drawn(site, pages):
    """As MathML; no LaTeX is left in a page."""
    assert pages[site / "objectives.html"].equations >= 30
    assert pages[site / "api.html"].equations >= 4
    for path in pages:
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.S)
        assert not re.search(r"\\(frac|sum|phi|log|mathrm|tau|lambda)\b|<merror|\$\$", text), path


def test_generated_parts_are_there(site):
    commands = (site / "commands.html").read_text("utf-8")
    for name in COMMANDS:
        assert f'id="selfguide-{name}"' in commands
    assert "--batch-size" in commands and "--traceback" in commands
    api = (site / "api.html").read_text("utf-8")
    assert "projection_width" in api and 'id="selfguide.objectives.sg_opt"' in api
    assert 'id="start"' in (site / "index.html").read_text("utf-8"), "the README"
    assert {"guides/own-text.html", "training.html#templates", "benchmarks.html"} <= set(Page(site / "index.html").links)
    assert not any("<!-- commands" in path.read_text("utf-8") for path in site.rglob("*.html"))


def test_a_warning_is_an_error(tmp_path):
    """A link that leads nowhere stops the build."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "conf.py").write_text('extensions = ["myst_parser"]\n')
    (tmp_path / "docs" / "index.md").write_text("# Title\n\n[nowhere](missing.md)\n")
    with pytest.raises(AssertionError, match=r"missing\.md"):
        build(tmp_path / "docs", tmp_path / "site")


@pytest.mark.parametrize("figure", sorted((DOCS / "figures").glob("*.svg")), ids=lambda path: path.name)
def test_figures_speak_and_fit_both_themes(figure):
    text = figure.read_text("utf-8")
    assert re.search(r"<title[^>]*>\S.*</title>", text) and re.search(r"<desc[^>]*>\S.{80,}</desc>", text)
    assert "prefers-color-scheme: dark" in text and 'class="paper"' in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
