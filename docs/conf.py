"""How the documentation is built: `sphinx-build -W --keep-going -b html docs OUT`. No network is needed."""

import os
import sys
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(Path(__file__).parents[1])]

project = "offpiste"
author = "The offpiste authors"
project_copyright = "The offpiste authors"
release = version = metadata.version("offpiste")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "commands",
    "fields",
    "measured",
    "small_worlds_results",
    "which_beta_results",
]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = False  # types of other packages have no pages here

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
default_role = "code"  # docstrings mark code by single backticks

ABOUT = "Does your exploration bonus explore? One fixed agent, eight small worlds, exact statistics; then Atari."
html_theme = "furo"
html_baseurl = os.environ.get("OFFPISTE_DOCS_URL", "")  # where the site will be
html_title = "offpiste"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_js_files = ["copy.js"]
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_theme_options = {"sidebar_hide_name": False}
html_copy_source = False
html_show_sphinx = False


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:  # noqa: ARG001
    """Say in the head of each page what a link to it shows elsewhere; the picture where the site's address is known."""
    about = {"og:title": context.get("title") or project, "og:site_name": project, "og:description": ABOUT}
    if app.config.html_baseurl:
        about["og:image"] = f"{app.config.html_baseurl.rstrip('/')}/_static/card.png"
    tags = "".join(f'<meta property="{name}" content="{escape(text)}">' for name, text in about.items())
    context["metatags"] = context.get("metatags", "") + tags


def setup(app: Sphinx) -> None:
    """Add what the head of each page says."""
    app.connect("html-page-context", describe)
