"""The site as a browser shows it and as its links say: `./dev site`, then `python -m pytest tests/site`.

The pages are served on this machine, so that a missing file is a request that fails. QD_SITE names another folder than out/site/, and
the screenshots are written into QD_SCREENSHOTS if it is set.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from PIL import Image

SITE = Path(os.environ.get("QD_SITE", Path(__file__).resolve().parents[2] / "out" / "site"))
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGES = {"front": "index.html", "gallery": "gallery/index.html", "reference": "reference/qd.html"}

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="`./dev site` makes the site")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")


class Links(HTMLParser):
    """Collects what a page links to, and what links may name in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is not None and name in {"href", "src"}:
                self.targets.append(value)
            if value is not None and name in {"id", "name"}:
                self.anchors.add(value)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """The address of the site, and the requests for files that it does not have."""
    failed: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            if int(code) >= 400 and not self.path.endswith("favicon.ico"):
                failed.append(self.path)

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(SITE))) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", failed
        running.shutdown()


def take_screenshot(address: str, picture: Path, profile: Path) -> list[str]:
    """Writes a picture of the page; returns what its scripts wrote to the console."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--window-size=1280,2000"]
    command = [BROWSER, *options, f"--user-data-dir={profile}", f"--screenshot={picture}", address]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and picture.exists(), result.stderr[-2000:]
    return re.findall(r":CONSOLE[:(]\d+\)?\] (.*)", result.stderr)


@needs_browser
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_the_page_without_errors(name: str, server: tuple[str, list[str]], tmp_path: Path) -> None:
    address, failed = server
    picture = Path(os.environ.get("QD_SCREENSHOTS", tmp_path)).resolve() / f"{name}.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    assert take_screenshot(f"{address}/{PAGES[name]}", picture, tmp_path / "profile") == []
    assert failed == []
    with Image.open(picture) as image:
        assert image.size == (1280, 2000)
        # Text is shades of gray; the pictures of the front page and of the gallery have many colors.
        assert len(image.convert("RGB").getcolors(1 << 24)) > (20 if name == "reference" else 1000)


@needs_browser
def test_errors_of_scripts_and_missing_files_are_noticed(server: tuple[str, list[str]], tmp_path: Path) -> None:
    address, failed = server
    page = tmp_path / "page.html"
    page.write_text(f'<img src="{address}/missing.png"><script>noSuchFunction()</script>')
    console = take_screenshot(page.as_uri(), tmp_path / "page.png", tmp_path / "profile")
    assert any("noSuchFunction" in line for line in console) and failed == ["/missing.png"]


def test_every_link_leads_to_a_page_or_a_heading() -> None:
    pages = {path: Links(path) for path in SITE.rglob("*.html")}
    broken = []
    for path, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = found / "index.html" if found.is_dir() else found
            if not found.exists() or (found in pages and unquote(parts.fragment) not in pages[found].anchors):
                broken.append(f"{path.relative_to(SITE)}: {target}")
    assert len(pages) > 100 and broken == []


def test_every_program_of_the_gallery_has_a_picture() -> None:
    pages = {path.stem: Links(path) for path in (SITE / "gallery").glob("*.html")}
    small = [target for target in pages.pop("index").targets if target.endswith(".png")]
    shown = {page: [each for each in links.targets if each.endswith((".gif", ".png"))] for page, links in pages.items()}
    assert len(pages) >= 12 and all(shown.values()) and len(small) == sum(map(len, shown.values())) >= 28
    for page, pictures in shown.items():
        text = (SITE / "gallery" / f"{page}.html").read_text()
        assert text.count("<h2") == len(pictures) and text.count("highlight-python") == len(pictures)
        for picture in pictures:
            with Image.open(SITE / "gallery" / picture) as image:
                assert len(image.convert("RGB").getcolors(1 << 24)) > 1
