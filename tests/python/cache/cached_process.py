"""A process with a few kernels, run by the tests of the disk cache: folder, folder of libraries, options as JSON, what to do."""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import hand_made

import quadrants as qd
from quadrants import _runtime
from quadrants._session import prepare as _prepare

FACTOR = 3
KERNELS = 8


def compile_kernel(kernel: Any, arguments: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
    """Stands in for the compiler: the code returns its number times the factor of now."""
    source = f"void qd_kernel(QdKernelContext *c) {{ *(int32_t *)c->result = {kernel.number} * {FACTOR}; }}"
    made = hand_made.HandMade(source, dependencies=[("value", (None, ("global", "FACTOR")))], results=[("i32", (), 0)])
    library = Path(sys.argv[2]) / f"{kernel.number}-{FACTOR}.so"
    if not library.exists():
        folder = Path(tempfile.mkdtemp(dir=sys.argv[2]))
        hand_made.build_library(source, folder)
        next(folder.glob("*.so")).rename(library)
    return hand_made.serialize(made, library.read_bytes()), []


def make_kernel(number: int) -> Any:
    """One of several kernels of one text; their names tell them apart for the cache."""
    scope: dict[str, Any] = {}
    exec(f"def kernel{number}():\n    return FACTOR + {number}\n", {"FACTOR": FACTOR}, scope)
    function = scope[f"kernel{number}"]
    made = _runtime.Kernel(type(function)(function.__code__, globals()), [], [qd.i32], function.__name__)
    made.number = number
    made._is_classkernel = False
    return made


def main() -> None:
    folder, options, wanted = sys.argv[1], json.loads(sys.argv[3]), sys.argv[4:]
    _prepare.compile_kernel = compile_kernel
    if "unprivileged" in wanted:
        # Root without its capabilities is held to the permissions of files.
        ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    if "full" in wanted:
        # As if the disk were full: machine code still fits into memory files, an entry with what belongs to it does not.
        limit = max(path.stat().st_size for path in Path(sys.argv[2]).glob("*.so")) + 16
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    wanted = [word for word in wanted if word not in ("unprivileged", "full")]
    qd.init(offline_cache_file_path=folder, **options)
    results = []
    for word in wanted or ["all"]:
        if word.startswith("factor="):
            globals()["FACTOR"] = int(word[7:])
            continue
        results += [[number, FACTOR, make_kernel(number)()] for number in range(KERNELS)]
    statistics = _runtime.statistics()
    print(json.dumps({"results": results, "compiled": statistics["compiled"], "loaded": statistics["loaded"]}))
    assert all(number * factor == result for number, factor, result in results), results


main()
