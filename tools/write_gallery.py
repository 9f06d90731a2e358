#!/usr/bin/env python3
"""Runs the examples without a display, and writes their pictures, a page for each field, and a page with all of them.

Usage: write_gallery.py FOLDER [--frames N]. With `--sheet FILE`, it joins the last frames of the short ones in one picture, as in the
README, and writes no pages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("[a-z]*.py"))
COLUMNS, CELL = 8, (140, 112)
# Programs by field. Those with arguments are in the folder examples, the others come with the package. {frames} is their number.
FIELDS = {
    "Fluids": ("stable_fluids", "lattice_boltzmann", "sph", "vortex_rings", "waves", "mpm88", "mpm --frames {frames}"),
    "Solids and robots": ("cloth", "spring_robot --iterations 60"),
    "Planets and stars": ("nbody", "solar_system --frames {frames} --years 12 --asteroids 500"),
    "Light": ("ray_marching", "path_tracer --size 240"),
    "Learning": ("orbit_fit --iterations 200",),
    "Images": ("image_pipeline --radius 4", "julia", "mandelbrot", "game_of_life", "diffusion"),
    "Statistics": ("posterior --chains 20000", "poisson_disk"),
    "Sparse data": ("smoke --size 256 --steps 40", "ink --size 128"),
    "Solvers": ("plate --rows 200",),
    "Geometry and algorithms": ("marching_squares", "sorting"),
    "torch": ("deblur --iterations 100",),
    "JAX": ("crystal --charges 250",),
}
# These run in several processes and draw nothing.
PROCESSES = ("heat", "lattice_boltzmann", "migrating_particles", "data_parallel", "sweep")


def find(program: str) -> Path:
    """Returns the file of a program, which is given with its arguments."""
    name, _, arguments = program.partition(" ")
    return ROOT / "examples" / ("" if arguments else "gallery") / f"{name}.py"


def run(program: str, folder: Path, frames: int) -> Path:
    """Runs a program until it has made its picture, and returns the file in `folder`."""
    example, arguments = find(program), program.format(frames=frames).split()[1:]
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    variables = {"QD_GUI": "file", "QD_GUI_FRAMES": str(frames), "QD_LOG_LEVEL": "error", "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / f"{example.stem}{'.gif' if '--frames' in arguments else '.png'}"
        command = [sys.executable, example, *arguments, *(["--out", made] if arguments else [])]
        ended = subprocess.run(list(map(str, command)), cwd=work, env=os.environ | variables, timeout=600, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"{example} ended with status {ended.returncode}:\n{ended.stderr}")
        (made,) = [path for path in Path(work).iterdir() if path.suffix in (".gif", ".png")]
        return Path(shutil.move(made, folder / f"{example.stem}{made.suffix}"))


def split(example: Path) -> tuple[str, str, str]:
    """Returns the title, the docstring and the rest of the text of a program."""
    text = example.read_text()
    doc = re.match(r'"""(.*?)"""', text, re.DOTALL)
    return example.stem.replace("_", " ").capitalize(), doc[1].strip() if doc else "", text[doc.end() if doc else 0 :].strip()


def describe(program: str, picture: str) -> str:
    """Returns the entry of a program: title, picture, what its docstring says, and its text, which is folded if it is long."""
    title, about, text = split(find(program))
    code = f"```python\n{text}\n```\n"
    if " " in program:
        command = f"    python {program.format(frames=120).replace(' ', '.py ', 1)}"
        about, _, _ = about.partition("\n\n    ")
        code = f"{command}\n\n<details>\n<summary>The program</summary>\n\n{code}\n</details>\n"
    return f"## {title}\n\n![{title}]({picture})\n\n{about}\n\n{code}"


def list_processes() -> str:
    """Returns the entries of the programs that run in several processes."""
    lines = ["## Several processes\n\nThese draw nothing; [Many processes](../docs/guide/many.md) explains them.\n"]
    lines += [f"- `examples/{name}.py`: {split(ROOT / 'examples' / f'{name}.py')[1].partition('.')[0]}." for name in PROCESSES]
    return "\n".join(lines).replace("\n    ", " ") + "\n"


def write_pages(folder: Path, pictures: dict[str, Path]) -> None:
    """Writes a page for each field, and `index.md` with small pictures of all programs."""
    parts = [
        "# Gallery\n\nShort programs come with the package: `python -m quadrants examples julia` runs one of them, and `--copy` writes its"
        " text to a file. They draw with\n[qd.GUI](../docs/guide/pictures.md). Longer ones are in the folder `examples` of the repository:"
        " copy their text from here.\n"
    ]
    names = []
    for field, programs in FIELDS.items():
        names.append(field.lower().replace(" ", "_"))
        entries = [describe(program, pictures[program].name) for program in programs]
        (folder / f"{names[-1]}.md").write_text("\n".join([f"# {field}\n", *entries]))
        shown = []
        for program in programs:
            small, title = f"small_{pictures[program].stem}.png", split(find(program))[0]
            shrink(pictures[program]).save(folder / small)
            shown.append(f"[![{title}]({small})]({names[-1]}.md#{title.lower().replace(' ', '-')})")
        parts.append(f"## [{field}]({names[-1]}.md)\n\n{' '.join(shown)}\n")
    contents = "\n".join(names)
    parts += [list_processes(), f"```{{toctree}}\n:hidden:\n\n{contents}\n```\n"]
    (folder / "index.md").write_text("\n".join(parts))


def write(folder: Path, frames: int) -> None:
    """Writes the pictures and the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for program in (program for programs in FIELDS.values() for program in programs):
        print(program, file=sys.stderr, flush=True)
        pictures[program] = run(program, folder, frames)
    write_pages(folder, pictures)


def shrink(picture: Path) -> Image.Image:
    """Returns the last frame, cut and scaled to the size of a cell."""
    with Image.open(picture) as image:
        image.seek(getattr(image, "n_frames", 1) - 1)
        return ImageOps.fit(image.convert("RGB"), (CELL[0] - 4, CELL[1] - 4))


def join(animations: list[Path], file: Path) -> None:
    """Writes the last frames side by side, as a picture with 128 colors."""
    rows = -(-len(animations) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * CELL[0], rows * CELL[1]), "white")
    for number, path in enumerate(animations):
        sheet.paste(shrink(path), (number % COLUMNS * CELL[0] + 2, number // COLUMNS * CELL[1] + 2))
    sheet.quantize(128).save(file, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--sheet", type=Path)
    given = parser.parse_args()
    if given.sheet:
        given.folder.mkdir(parents=True, exist_ok=True)
        join([run(example.stem, given.folder, given.frames) for example in EXAMPLES], given.sheet)
    else:
        write(given.folder, given.frames)
