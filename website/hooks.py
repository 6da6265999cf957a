"""Makes the site from pages that are written for the repository: navigation from the index, and links out of docs/.

docs/README.md lists every page once, in four parts; a test checks that. The navigation of the site is that list. Pages
next to docs/ (README, CHANGELOG and so on) become part of the site below `project/`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
AROUND = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")
_PART = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| \S", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]+)\]\((?!https?:|mailto:|#)([^)#\s]+)([^)\n]*)\)")
"""the text, the path and the rest of a link"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Return the configuration with the parts of the index as its navigation."""
    text = INDEX.read_text("utf-8")
    heads = list(_PART.finditer(text))
    parts: list[Any] = [{"Documentation": "README.md"}]
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        rows = _ROW.findall(text, head.end(), following.start() if following else len(text))
        parts.append({head[1]: [{_title(name, link): _place(f"docs/{link}")} for name, link in rows]})
    config.nav = parts
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the site, with the pages next to docs/ and the files of the source that pages link to."""
    texts = {page: (ROOT / page).read_text("utf-8") for page in AROUND}
    for page, text in texts.items():
        files.append(File.generated(config, _place(page), content=_linked(text, page)))
    texts |= {f"docs/{one.src_uri}": one.content_string for one in files.documentation_pages() if not one.generated_by}
    linked = {_target(source, link) for source, text in texts.items() for _, link, _ in _LINK.findall(text)}
    for target in sorted(linked):
        if not target.startswith("docs/") and target not in AROUND and (ROOT / target).is_file():
            files.append(File.generated(config, _place(target), content=(ROOT / target).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page with links that work on the site."""
    return markdown if page.file.generated_by else _linked(markdown, f"docs/{page.file.src_uri}")


def _linked(text: str, source: str) -> str:
    """Return a page with links from its place on the site. `source`: its path in the repository."""
    here = posixpath.dirname(_place(source)) or "."

    def place(match: re.Match[str]) -> str:
        target = _target(source, match[2])
        if (ROOT / target).is_dir():
            return match[1]  # a folder has no page: only its name stays
        return f"[{match[1]}]({posixpath.relpath(_place(target), here)}{match[3]})"

    return _LINK.sub(place, text)


def _target(source: str, link: str) -> str:
    """Return the path in the repository that a link of a page leads to."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return f"{target}/README.md" if (ROOT / target / "README.md").exists() else target


def _place(path: str) -> str:
    """Return where a file of the repository is on the site."""
    if path.startswith("docs/"):
        path = posixpath.normpath(path)
        return path.removeprefix("docs/") if path.startswith("docs/") else _place(path)
    return f"project/{path}"


def _title(name: str, link: str) -> str:
    """Return the title of a page in the navigation: its first heading, else the text of its link."""
    first = (INDEX.parent / link / "README.md" if link.endswith("/") else INDEX.parent / link).read_text("utf-8")
    return first.partition("\n")[0].removeprefix("# ").strip() or name
