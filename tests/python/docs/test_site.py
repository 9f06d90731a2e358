"""The pages of the site: their links lead to pages, and the front page lists them. Sphinx itself runs in `./dev site`."""

import importlib
import sys
from pathlib import Path

import pytest
from PIL import Image

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def site(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module("write_site")
    for name in ("write_site", "write_gallery", "write_reference"):
        sys.modules.pop(name, None)


def test_links_lead_to_pages(site, tmp_path, monkeypatch):
    def draw(program, folder, frames):
        picture = folder / f"{site.write_gallery.find(program).stem}.gif"
        Image.new("RGB", (8, 8)).save(picture)
        return picture

    monkeypatch.setattr(site.write_gallery, "run", draw)
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
    changes = (source / "CHANGELOG.md").read_text()
    fragments = list((site.ROOT / "changes").glob("*.*.md"))
    assert "### Repaired\n" in changes and changes.count("\n- ") >= len(fragments) > 100
    gallery = (source / "gallery" / "index.md").read_text()
    programs = [program for programs in site.write_gallery.FIELDS.values() for program in programs]
    assert gallery.count("[![") == len(programs) and "torch.md#deblur" in gallery and "`examples/heat.py`" in gallery
    page = (source / "gallery" / "jax.md").read_text()
    assert "![Crystal](crystal.gif)" in page and "<summary>" in page and "def measure" in page and "    python crystal.py --charges" in page


def test_every_program_is_in_the_gallery(site):
    gallery = site.write_gallery
    shown = [gallery.find(program) for programs in gallery.FIELDS.values() for program in programs]
    folder = gallery.ROOT / "examples"
    named = [*shown, *(folder / f"{name}.py" for name in gallery.PROCESSES), folder / "loss_plot.py"]  # a module of others
    assert sorted(named) == sorted([*folder.glob("*.py"), *folder.glob("gallery/*.py")])
    assert {"Fluids", "Light", "Learning", "Images", "Statistics", "Sparse data", "Solvers", "torch", "JAX"} < gallery.FIELDS.keys()


def test_a_program_that_fails_is_named(site, tmp_path, monkeypatch):
    monkeypatch.setattr(site.write_gallery, "ROOT", tmp_path)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "wrong.py").write_text("import sys\nsys.exit('no picture')")
    with pytest.raises(SystemExit, match=r"wrong.py ended with status 1:\nno picture"):
        site.write_gallery.run("wrong --size 3", tmp_path, 1)


def test_a_broken_link_is_named(site, tmp_path):
    (tmp_path / "a.md").write_text("[one](b.md) [two](../src/x.cpp) [three](https://x.org) ![p](p.png)\n```\n[four](c.md)\n```\n")
    assert site.mend_links(tmp_path) == ["a.md: b.md"]
    assert (tmp_path / "a.md").read_text() == "one two [three](https://x.org) p\n```\n[four](c.md)\n```\n"
