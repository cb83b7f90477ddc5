"""How the documentation is built: `sphinx-build -W --keep-going -b html docs OUT`. No network is needed."""

import sys
from importlib import metadata
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(Path(__file__).parents[1])]

project = "offpiste"
author = "The offpiste authors"
project_copyright = "The offpiste authors"
release = version = metadata.version("offpiste")

extensions = ["myst_parser", "sphinx.ext.autodoc", "commands", "fields", "measured", "small_worlds"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = False  # types of other packages have no pages here

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
default_role = "code"  # docstrings mark code by single backticks

html_theme = "furo"
html_title = "offpiste"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
