#!/usr/bin/env python3
"""Runs the examples of examples/gallery without a display, and writes their animations and a page with them.

Usage: write_gallery.py FOLDER [--frames N]. With `--sheet FILE`, the last frames are also joined in one picture, as in the README.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("[a-z]*.py"))
COLUMNS, CELL = 8, (140, 112)


def run(example: Path, folder: Path, frames: int) -> Path:
    """Runs an example until it has made its animation, and returns the file `folder`/name.gif."""
    with tempfile.TemporaryDirectory() as work:
        path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
        variables = {"QD_GUI": "file", "QD_GUI_FRAMES": str(frames), "QD_LOG_LEVEL": "error", "PYTHONPATH": path}
        subprocess.run([sys.executable, example], check=True, cwd=work, env=os.environ | variables, timeout=300, stderr=subprocess.DEVNULL)
        (made,) = Path(work).glob("*.gif")
        target = folder / f"{example.stem}.gif"
        target.write_bytes(made.read_bytes())
    return target


def describe(example: Path) -> str:
    """Returns the entry of an example: title, animation, what its docstring says, and its text."""
    text = example.read_text()
    doc = re.match(r'"""(.*?)"""', text, re.DOTALL)
    about = doc[1].strip() if doc else ""
    title = example.stem.replace("_", " ").capitalize()
    return f"## {title}\n\n![{title}]({example.stem}.gif)\n\n{about}\n\n```python\n{text[doc.end() :].strip() if doc else text}\n```\n"


def list_longer_ones() -> str:
    """Returns the entries of the examples that are in the repository only."""
    lines = ["## Longer programs\n\nThese are in the folder `examples` of the repository; `--help` lists what each of them takes.\n"]
    for example in sorted((ROOT / "examples").glob("*.py")):
        doc = ast.get_docstring(ast.parse(example.read_text())) or ""
        if example.stem != "loss_plot":  # a module that the others use
            lines.append(f"- `{example.name}`: {doc.partition(chr(10) * 2)[0].replace(chr(10), ' ')}")
    return "\n".join(lines) + "\n"


def write(folder: Path, frames: int) -> list[Path]:
    """Writes the animations and `index.md`; returns the animations."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for example in EXAMPLES:
        print(example.stem, file=sys.stderr, flush=True)
        made.append(run(example, folder, frames))
    head = (
        "# Gallery\n\nThese programs come with the package: `python -m quadrants examples julia` runs one of them, and `--copy` writes its"
    )
    page = [f"{head} text\nto a file. They draw with [qd.GUI](../docs/guide/pictures.md).\n", *map(describe, EXAMPLES), list_longer_ones()]
    (folder / "index.md").write_text("\n".join(page))
    return made


def join(animations: list[Path], file: Path) -> None:
    """Writes the last frames side by side, as a picture with 128 colors."""
    rows = -(-len(animations) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * CELL[0], rows * CELL[1]), "white")
    for number, path in enumerate(animations):
        with Image.open(path) as animation:
            animation.seek(animation.n_frames - 1)
            cell = ImageOps.fit(animation.convert("RGB"), (CELL[0] - 4, CELL[1] - 4))
        sheet.paste(cell, (number % COLUMNS * CELL[0] + 2, number // COLUMNS * CELL[1] + 2))
    sheet.quantize(128).save(file, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--sheet", type=Path)
    given = parser.parse_args()
    made = write(given.folder, given.frames)
    if given.sheet:
        join(made, given.sheet)
