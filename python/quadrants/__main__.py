"""`python -m quadrants`: a report for problems, pages of errors, the cache, a benchmark, examples, and help for moving programs here."""

import argparse
import io
import sys
import tokenize
from pathlib import Path

import quadrants as qd

from ._base import options
from ._command import pages


def show_cache(arguments: argparse.Namespace) -> None:
    if arguments.what == "clear":
        print(f"{qd.clear_cache()} entries removed")
    print(qd.cache_info())


def show_examples(arguments: argparse.Namespace) -> None:
    if arguments.name is None:
        if arguments.copy:
            sys.exit("--copy needs the name of an example")
        print("\n".join(f"{name:20} {title}" for name, title in pages.list_examples().items()))
    else:
        pages.run_example(arguments.name, arguments.copy)


def show_bench(arguments: argparse.Namespace) -> None:
    from ._command import bench  # makes kernels

    for line in bench.report(arguments.arch):
        print(line, flush=True)


def port_file(arguments: argparse.Namespace) -> None:
    from ._command.port import port

    path = Path(arguments.file)
    try:
        with open(path, "rb") as file:
            encoding, _ = tokenize.detect_encoding(file.readline)
        source = path.read_bytes().decode(encoding)  # keeps the ends of lines
        text, findings = port(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        sys.exit(f"{path} cannot be read as a Python program: {error}")
    for line, name, advice in findings:
        print(f"{path}:{line}: {name}: {advice}")
    rest = f"{len(findings)} {'place needs' if len(findings) == 1 else 'places need'} a hand"
    target = Path(arguments.out) if arguments.out else path.with_name(f"{path.stem}_quadrants.py")
    if text != source:
        pages.write(target, text.encode(encoding))
        print(f"{target}: written; {rest}")
    else:
        print(f"{path}: nothing to rename; {rest}")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m quadrants", description=__doc__)
    parser.add_argument("--version", action="version", version=f"quadrants {qd.__version_str__}")
    parser.set_defaults(run=lambda _: parser.print_help())
    commands = parser.add_subparsers(metavar="command")

    def add(name: str, run: object, about: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(run=run)
        return command

    add("diagnose", lambda _: qd.tools.diagnose(), "versions, processors and settings, for a problem report")
    add("env", lambda _: print(options.list_variables()), "the environment variables that have a meaning, with their values")
    command = add("explain", lambda given: print(pages.explain(given.code)), "the page of an error's code, with an example and its remedy")
    command.add_argument("code", nargs="?", help="such as QD305; without one, all codes are listed")
    command = add("cache", show_cache, "the disk cache of compiled kernels")
    command.add_argument("what", choices=("info", "clear"), help="show what lies there, or remove all of it")
    command = add("bench", show_bench, "a few seconds of measurements on this machine, next to NumPy")
    command.add_argument("--arch", default="cpu", choices=("cpu", "gpu", "cuda", "amdgpu", "vulkan", "metal"), help="the processor")
    command = add("examples", show_examples, "small programs that come with the package")
    command.add_argument("name", nargs="?", help="the one to run; without one, all are listed")
    command.add_argument("--copy", metavar="PATH", help="write its text to this file or folder instead")
    command = add("port", port_file, "rename a program for Taichi, or list what to write for Numba's and Warp's names")
    command.add_argument("file")
    command.add_argument("--out", metavar="PATH", help="the file to write; default: the name with _quadrants")
    given = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # pages have signs that a terminal may lack
    try:
        given.run(given)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = None


if __name__ == "__main__":
    main()
