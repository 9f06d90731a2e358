"""Files of the package: pages that explain errors, examples, tables of names. In a source tree they are where they are written."""

from __future__ import annotations

import difflib
import runpy
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_SOURCES = {"errors": "docs", "gallery": "examples", "guide": "docs"}


def find_folder(name: str) -> Path:
    """Returns the folder `errors`, `gallery` or `guide` of an installed package, or the one of the source tree."""
    installed = _PACKAGE / "_files" / name
    return installed if installed.is_dir() else _PACKAGE.parents[1] / _SOURCES[name] / name


def explain(code: str | None) -> str:
    """Returns the page of an error's code, or the list of all codes; exits with a message if there is no such code."""
    titles = {
        path.stem: path.read_text("utf-8").partition("\n")[0].partition(": ")[2] for path in sorted(find_folder("errors").glob("QD*.md"))
    }
    if code is None:
        return "\n".join(f"{each}  {title}" for each, title in titles.items())
    code = code.strip("[].,:; ").upper()
    code = code if code.startswith("QD") else f"QD{code}"
    if code not in titles:
        near = difflib.get_close_matches(code, titles, 3)
        sys.exit(
            f"there is no code {code}; " + (f"similar ones: {', '.join(near)}" if near else "`python -m quadrants explain` lists them")
        )
    return (find_folder("errors") / f"{code}.md").read_text("utf-8").rstrip()


def list_examples() -> dict[str, str]:
    """Returns the names of the examples with the first lines of their docstrings."""
    paths = sorted(find_folder("gallery").glob("[a-z]*.py"))
    return {path.stem: path.read_text("utf-8").removeprefix('"""').partition("\n")[0].rstrip('"') for path in paths}


def run_example(name: str, copy_to: str | None) -> None:
    """Runs an example, or writes its text to a file that the user may change."""
    found = list_examples()
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        sys.exit(f"there is no example {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(found)}"))
    path = find_folder("gallery") / f"{name}.py"
    if copy_to is None:
        sys.argv = [str(path)]
        runpy.run_path(str(path), run_name="__main__")
        return
    target = Path(copy_to) / path.name if Path(copy_to).is_dir() else Path(copy_to)
    if target.exists():
        sys.exit(f"{target} exists already: give another name")
    write(target, path.read_bytes())
    print(f"{target}: run it with `python {target}`")


def write(path: Path, content: bytes) -> None:
    """Writes a file; ends the command with a sentence if that is not possible."""
    try:
        path.write_bytes(content)
    except OSError as error:
        sys.exit(f"cannot write {str(path)!r}: {error.strerror}; give a path in a folder that exists and is writable")
