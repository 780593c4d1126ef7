"""Equations as MathML, which browsers draw by themselves: no script, no fonts, no network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def render_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """An equation inside a line."""
    translator.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def render_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """An equation on a line of its own."""
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", inline_renderers=(render_inline, None), block_renderers=(render_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
