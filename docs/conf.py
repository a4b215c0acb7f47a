"""Configuration of Sphinx. `make docs` builds the pages into build/docs; no warning is allowed."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pycoll  # noqa: E402 - installed; the pages describe what is built

project = "libcoll and pycoll"
author = "the libcoll authors"
copyright = author
version = release = pycoll.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "generate"]
exclude_patterns = ["generate", "examples", "programs"]
nitpicky = False
default_role = "code"
highlight_language = "python"
html_theme = "furo"
html_title = "libcoll and pycoll"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_copyright = False
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("BufferLike", "OpLike", "ShapeLike")}
python_use_unqualified_type_names = True
toc_object_entries = False


def aliases_by_name(app, what, name, obj, options, signature, returned):
    """Sphinx wraps an alias in the name of a class of its own where it stands in a union."""
    return re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature or "") or signature, returned


def setup(app):
    app.connect("autodoc-process-signature", aliases_by_name)
