"""The documentation site: ``make docs`` builds this folder into ``site/``, warnings as errors.

What is built opens from disk: no script, font or style comes from a network, and equations are MathML.
"""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "selfguide"
author = "the authors of selfguide"
release = version = version_of("selfguide")
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "generated"]
exclude_patterns = ["extensions", "theme", "figures"]
highlight_language = "text"
smartquotes = False  # or two dashes of a flag become one
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!selfguide\.).*")]  # types of other packages, whose pages are elsewhere
nitpick_ignore = [
    ("py:class", "selfguide.data.texts.Texts"),  # anything with a length and positions
    ("py:class", "selfguide.embedders.training_record.TrainingRecord"),
]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]  # as GitHub writes equations
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page may begin with a comment

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_legacy_class_based = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True
add_module_names = False

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"selfguide {version}"
html_static_path = ["theme"]
html_css_files = ["selfguide.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None
