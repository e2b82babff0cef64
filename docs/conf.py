"""Builds these pages as a site, without a network: `python -m sphinx -W -n --keep-going docs build`.

The pages are written for a forge as well, so their links are paths. A path that leads out of this folder
becomes the site's page of that file, or a download. Of a folder, or of a page that the site has not, only the
text is left.
"""

from __future__ import annotations

import os
import os.path
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.jinja2glue import BuiltinTemplateLoader

import triobot

DOCS: Final = Path(__file__).parent
ROOT: Final = DOCS.parent
sys.path.insert(0, str(ROOT))

from tests.docs.summaries import FACES, names_in  # noqa: E402  what is public, and where
from tests.docs.writing import SHOWN  # noqa: E402

project = "triobot"
version = release = triobot.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"]
exclude_patterns = ["inventories", "search", "_templates"]
templates_path = ["_templates"]
default_role = "code"  # docstrings write names as Markdown does

html_theme = "furo"
html_title = f"triobot {release}"
# Which sites stand beside this one: with `DOCS_VERSIONS="1.1 1.0"` each page links to ../1.1 and ../1.0.
html_context = {"versions": os.environ.get("DOCS_VERSIONS", "").split()}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/versions.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["persian.css", "site.css"]
html_search_scorer = str(DOCS / "search" / "order.js")

myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]

# What names of others lead to; the inventories are of Debian's packages python3.11-doc and python-attr-doc.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", "inventories/python.inv"),
    "attrs": ("https://www.attrs.org/en/stable", "inventories/attrs.inv"),
}
nitpick_ignore_regex = [
    # In no inventory.
    ("py:.*", r"(trio|quart_trio|typing_extensions)\..*|re\.Pattern|QuartTrio|httpx\..*"),
    ("py:exc", "AppError"),  # an author's own
]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 88
toc_object_entries = False

# Files beside this folder that are pages of the site, too.
TAKEN_IN: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "deploy/README.md": "project/deploying.md",
}
SEVERAL: Final = re.compile(r"^ +[a-z_]+(?:, (?:[a-z_]+|\.\.\.))+(?=: )")
LINK: Final = re.compile(r"(?P<text>!?\[[^\[\]]*\])\((?![a-z]+:|#)(?P<path>[^)\s#]+)(?P<part>#[^)\s]*)?\)")


def with_links(text: str, written: Path, shown: Path) -> str:
    """Return a page's text with links that hold where it is shown, in whatever folder it was written."""

    def link(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(written.parent / match["path"]))
        outside = not path.is_relative_to(DOCS)
        if outside and (page := TAKEN_IN.get(os.path.relpath(path, ROOT))):
            path = DOCS / page
        elif outside and (path.is_dir() or path.suffix == ".md"):
            return match["text"][1:-1]
        return f"{match['text']}({os.path.relpath(path, shown.parent)}{match['part'] or ''})"

    return LINK.sub(link, text)


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Take a page of this folder."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        source[0] = with_links(SHOWN.sub(with_marks, source[0]), path, path)


def with_marks(match: re.Match[str]) -> str:
    """Mark the new lines of a file that a page shows."""
    new = f":emphasize-lines: {match['new']}\n\n" if match["new"] else ""
    return match[0].replace("```py\n", f"```{{code-block}} python\n{new}", 1)


def included(app: Sphinx, path: Path, parent: str, source: list[str]) -> None:
    """Take a file from beside this folder into a page of this folder."""
    written = Path(os.path.normpath(DOCS / path))
    source[0] = with_links(source[0], written, Path(app.env.doc2path(app.env.docname)))


def in_its_language(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, object], doctree: object
) -> None:
    """Let a Persian page run from right to left, and let a page lead to its translation."""
    if pagename.startswith("fa/"):
        for part in ("body", "toc"):
            context[part] = f'<div dir="rtl" lang="fa">{context[part]}</div>'
    elif (translation := f"fa/{pagename}") in app.env.found_docs:
        address = app.builder.get_relative_uri(pagename, translation)
        link = f'<a href="{address}" dir="rtl" lang="fa" hreflang="fa">فارسی</a>'
        context["body"] = f'<p class="in-persian">{link}</p>{context["body"]}'


def public_names() -> dict[str, str]:
    """Return where each public name is documented, by the name alone and by where it is defined."""
    places: dict[str, str] = {}
    for face, file in FACES.items():
        for name in names_in(ROOT / file):
            home = getattr(getattr(import_module(face), name), "__module__", face)
            places.setdefault(name, f"{face}.{name}")
            places[f"{home}.{name}"] = f"{face}.{name}"
    return places


PUBLIC: Final = public_names()


def resolved(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: Element) -> Element | None:
    """Find a type by the name that its users know; an inner one is named and leads nowhere."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    if target in PUBLIC:
        python = env.domains["py"]
        return python.resolve_xref(env, node["refdoc"], app.builder, "obj", PUBLIC[target], node, text)
    return text if is_inner(target) else None


@cache
def is_inner(target: str) -> bool:
    """Return whether a name is defined in one of triobot's own modules, and public in none."""
    module, _, name = target.rpartition(".")
    if module.startswith("triobot."):
        return hasattr(import_module(module), name)
    return not module and any(
        hasattr(inner, name) for path, inner in list(sys.modules.items()) if path.startswith("triobot.")
    )


def as_google_means(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Take what the house's docstrings have and napoleon mistakes.

    Several arguments in one entry become one name. A property's docstring is read as a method's: napoleon
    would take its first line, up to a colon, for a type.
    """
    lines[:] = [SEVERAL.sub(lambda names: names[0].replace(", ", "/"), line) for line in lines]
    if what in ("property", "data"):
        lines[:] = ["..", "", *GoogleDocstring(lines, app.config, app, "method", name, obj).lines()]


# What Sphinx and furo write, and what people need who hear a page, or have no mouse: headings have a level,
# landmarks a name, lists terms, and a table's headers words; what scrolls is reached by the keyboard.
ACCESSIBLE: Final = (
    (re.compile(r'(<p class="caption" role="heading")>'), r'\1 aria-level="2">'),
    (re.compile(r'(<aside class="sidebar-drawer")>'), r'\1 aria-label="All pages">'),
    (re.compile(r'(<aside class="toc-drawer[^"]*")>'), r'\1 aria-label="On this page">'),
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (re.compile(r'(<div class="table-wrapper[^"]*")>'), r'\1 tabindex="0">'),
    (re.compile(r'<th class="head([^"]*)"><p></p></th>'), r'<td class="head\1"></td>'),
    (re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*?</dd>\n)+)</dl>', re.DOTALL), r"\1"),
    (re.compile(r'<dd>(<em class="sig-param">.*?)</dd>\n', re.DOTALL), r'<span class="sig-line">\1</span>'),
    (re.compile(r'(?=<div id="search-results">)'), "<h1>Search</h1>\n"),
)


def accessible(page: str) -> str:
    """Return a page's markup so that axe finds nothing in it."""
    for what, instead in ACCESSIBLE:
        page = what.sub(instead, page)
    return page


def prepared(app: Sphinx) -> None:
    """Give the page's template the filter that it names."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        cast("BuiltinTemplateLoader", app.builder.templates).environment.filters["accessible"] = accessible


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", prepared)
    app.connect("source-read", read)
    app.connect("include-read", included)
    app.connect("missing-reference", resolved)
    app.connect("html-page-context", in_its_language, priority=900)  # after the theme has read both parts
    app.connect("autodoc-process-docstring", as_google_means, priority=400)
