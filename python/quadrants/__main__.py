"""`python -m quadrants cache info` and `python -m quadrants cache clear`."""

import argparse

from ._session.disk_cache import cache_info, clear_cache


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m quadrants")
    commands = parser.add_subparsers(required=True, metavar="cache")
    cache = commands.add_parser("cache", help="the disk cache of compiled kernels")
    cache.add_argument("what", choices=("info", "clear"), help="show what lies there, or remove all of it")
    if parser.parse_args().what == "clear":
        print(f"{clear_cache()} entries removed")
    print(cache_info())


main()
