#!/usr/bin/env python3
"""Writes the pages of the site in the form that Sphinx reads, and lets it make the site.

Usage: write_site.py SOURCE SITE [--frames N]. The pages are the Markdown files of the repository, in the same folders, the reference from
the docstrings, and a gallery of the examples. Links to files that are no pages become plain text. Sphinx reports a link to a page or a
heading that does not exist as a warning, and warnings end it: a finished site has no broken links inside.

Sphinx with MyST, not MkDocs: it checks links to headings, too, needs no file that lists all pages, and its themes load no script or font
from other hosts.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import write_gallery
import write_reference

ROOT = Path(__file__).resolve().parent.parent
CONF = """
project = "Quadrants"
copyright = "the Quadrants developers"
html_theme = "furo"
html_title = "Quadrants"
html_theme_options = {"sidebar_hide_name": False}
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
exclude_patterns = []
highlight_language = "none"
html_copy_source = False
# The reference lists the parts of an entry as headings, and pages of errors stand in no table of contents.
suppress_warnings = ["myst.header", "toc.not_included", "toc.not_readable"]
"""
# Pages in the order of the sidebar.
PARTS = {
    "Guide": ["docs/guide/getting_started", "docs/guide/from_taichi", "docs/guide/from_numba", "docs/guide/from_warp"],
    "Reference": ["reference/README"],
    "More": ["docs/errors/README", "docs/versions", "CHANGELOG", "ARCHITECTURE", "CONTRIBUTING", "changes/README", "SECURITY"],
}
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def copy_pages(source: Path) -> None:
    """Copies the Markdown files and pictures of the repository."""
    names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "changes/README.md"]
    names += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in (".md", ".png")]
    for name in names:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def add_fragments(changelog: Path) -> None:
    """Appends what is new since the last release: the fragments of changes/, by kind, as a release will have them."""
    kinds = re.findall(r'directory = "(\w+)", name = "(\w+)"', (ROOT / "pyproject.toml").read_text())
    parts = [changelog.read_text(), "## Since the last release\n"]
    for kind, name in kinds:
        texts = [path.read_text().strip() for path in sorted((ROOT / "changes").glob(f"*.{kind}*.md"))]
        if texts:
            parts += [f"### {name}\n", *(f"- {textwrap.indent(text, '  ').strip()}" for text in texts), ""]
    changelog.write_text("\n".join(parts))


def mend_links(source: Path) -> list[str]:
    """Makes plain text of links to what the site does not have; returns links to Markdown files that do not exist in the repository."""
    broken = []
    for page in sorted(source.rglob("*.md")):

        def mend(match: re.Match[str], page: Path = page) -> str:
            target = match[3].partition("#")[0]
            if target and (page.parent / target).resolve() == source / "README.md":
                return match[0].replace("README.md", "index.md")
            if not target or re.match(r"\w+:", target) or (page.parent / target).is_file():
                return match[0]
            if target.endswith(".md"):
                broken.append(f"{page.relative_to(source)}: {match[3]}")
            return match[2]

        parts = re.split(r"(^```.*?^```)", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        page.write_text("".join(part if part.startswith("```") else LINK.sub(mend, part) for part in parts))
    return broken


def list_contents(caption: str, pages: list[str]) -> str:
    lines = "\n".join(pages)
    return f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n\n{lines}\n```\n"


def write_front_page(source: Path) -> None:
    """Writes `index.md`: the README, and the contents for the sidebar."""
    guide = sorted(path.relative_to(source).with_suffix("").as_posix() for path in (source / "docs" / "guide").glob("*.md"))
    parts = {**PARTS, "Guide": PARTS["Guide"] + [page for page in guide if page not in PARTS["Guide"]]}
    parts["Reference"] = ["gallery/index", *parts["Reference"]]
    parts["Reference"] += sorted(f"reference/{path.stem}" for path in (source / "reference").glob("*.md") if path.stem != "README")
    parts["Design"] = sorted(path.relative_to(source).with_suffix("").as_posix() for path in (source / "docs" / "design").glob("*.md"))
    contents = "\n".join(list_contents(caption, pages) for caption, pages in parts.items())
    (source / "index.md").write_text((source / "README.md").read_text() + "\n" + contents)
    (source / "README.md").unlink()


def write(source: Path, site: Path, frames: int) -> None:
    """Writes the pages to `source` and the site to `site`; ends with status 1 if a link is broken."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    copy_pages(source)
    add_fragments(source / "CHANGELOG.md")
    write_reference.write(source / "reference", source)
    write_gallery.write(source / "gallery", frames)
    write_front_page(source)
    broken = mend_links(source)
    if broken:
        sys.exit("links to pages that do not exist:\n" + "\n".join(broken))
    (source / "conf.py").write_text(CONF)
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", source, site]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("site", type=Path)
    parser.add_argument("--frames", type=int, default=60, help="frames of each animation of the gallery")
    given = parser.parse_args()
    write(given.source.resolve(), given.site.resolve(), given.frames)
