"""The pages of the site: their links lead to pages, and the front page lists them. Sphinx itself runs in `./dev site`."""

import importlib
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def site(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module("write_site")
    for name in ("write_site", "write_gallery", "write_reference"):
        sys.modules.pop(name, None)


def test_links_lead_to_pages(site, tmp_path, monkeypatch):
    def write_page_only(folder, frames):
        folder.mkdir()
        examples = site.write_gallery.EXAMPLES
        (folder / "index.md").write_text("\n".join(map(site.write_gallery.describe, examples)))
        for example in examples:
            (folder / f"{example.stem}.gif").touch()

    monkeypatch.setattr(site.write_gallery, "write", write_page_only)
    commands = []
    monkeypatch.setattr(site.subprocess, "run", lambda command: commands.append(command) or site.argparse.Namespace(returncode=0))
    source = tmp_path / "source"
    with pytest.raises(SystemExit) as ended:
        site.write(source, tmp_path / "site", 1)
    assert ended.value.code == 0 and commands[0][-2:] == [source, tmp_path / "site"] and "-W" in commands[0]
    front = (source / "index.md").read_text()
    listed = [line for line in front.splitlines() if (source / f"{line}.md").is_file()]
    assert {"gallery/index", "docs/guide/kernels", "docs/guide/pictures", "reference/qd", "docs/errors/README"} <= set(listed)
    assert not (source / "README.md").exists() and "(docs/gallery.png)" in front
    assert (source / "gallery" / "index.md").read_text().count("](") >= 16


def test_a_broken_link_is_named(site, tmp_path):
    (tmp_path / "a.md").write_text("[one](b.md) [two](../src/x.cpp) [three](https://x.org) ![p](p.png)\n```\n[four](c.md)\n```\n")
    assert site.mend_links(tmp_path) == ["a.md: b.md"]
    assert (tmp_path / "a.md").read_text() == "one two [three](https://x.org) p\n```\n[four](c.md)\n```\n"
