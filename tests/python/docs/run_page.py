"""Runs the Python blocks of a page one after another, in one namespace, as a reader would who types them into one file.

A block whose fence says `python raises Name` must end with that exception; its message is printed. Usage: run_page.py PAGE COPY, where COPY
is the file that the blocks are compiled from: the page with everything but code blanked, so that line numbers are those of the page.
"""

import re
import sys
from pathlib import Path


def main() -> None:
    page, copy = Path(sys.argv[1]), Path(sys.argv[2])
    lines = page.read_text().splitlines()
    blocks, start = [], None
    for number, line in enumerate(lines):
        if start is None and re.fullmatch(r"```python( raises \w+)?", line):
            start = number
        elif start is not None and line == "```":
            blocks.append((start, number))
            start = None
    inside = {number for begin, end in blocks for number in range(begin + 1, end)}
    copy.write_text("".join((line if number in inside else "") + "\n" for number, line in enumerate(lines)))
    namespace = {"__name__": "__main__", "__file__": str(copy)}
    for begin, end in blocks:
        source = "\n" * (begin + 1) + "\n".join(lines[begin + 1 : end]) + "\n"
        code = compile(source, str(copy), "exec")
        expected = lines[begin].partition(" raises ")[2]
        try:
            exec(code, namespace)
        except Exception as error:
            if type(error).__name__ != expected:
                raise
            print(error)
        else:
            if expected:
                sys.exit(f"{page.name}:{begin + 1}: the block should raise {expected}")


if __name__ == "__main__":
    main()
