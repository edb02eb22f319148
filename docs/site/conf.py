"""How the pages of docs/ become a site: `make docs` writes it to .cache/site."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS.parent))

os.environ["KERAS_BACKEND"] = "torch"  # which is there

project = "Compilegate"
html_title = project
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["site", "examples"]
html_theme = "furo"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_extra_path = ["../architecture.svg"]

# Links between pages name headings as GitHub does.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"exclude-members": "__init__"}
python_use_unqualified_type_names = True
add_module_names = False

# Hidden options that only the tests set are no part of the page; their variables refer to them.
suppress_warnings = ["ref.option"]

copybutton_selector = "div.highlight-sh pre, div.highlight-toml pre, div.highlight-python pre"
highlight_language = "none"
