"""What wheels take from `cmake/old_glibc`: libraries to link against, and the functions that an older glibc lacks."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "cmake" / "old_glibc"
TIMED_OUT = 110
CLOCK_MONOTONIC = 1
AT_SYMLINK_NOFOLLOW = 0x100


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Found(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("flags", "start", "end", "object", "frames", *(f"reserved{i}" for i in range(7)))]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The functions, where the system has no newer ones: `dlsym` finds nothing."""
    folder = tmp_path_factory.mktemp("functions")
    (folder / "nothing.c").write_text("void *__wrap_dlsym(void *library, const char *name) { return 0; }")
    sources = [str(SOURCES / "functions.c"), str(folder / "nothing.c")]
    library = folder / "functions.so"
    subprocess.run(["clang-22", "-shared", "-fPIC", "-O1", "-Wl,--wrap=dlsym", "-Wl,-Bsymbolic", *sources, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def test_a_wait_for_the_steady_clock_ends_in_time(functions: ctypes.CDLL) -> None:
    condition, mutex = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    for milliseconds in (0, 40, 950):
        began = time.monotonic()
        end = int((began + milliseconds / 1000) * 1e9)
        until = Time(end // 10**9, end % 10**9)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
        assert functions.pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, ctypes.byref(until)) == TIMED_OUT
        ctypes.CDLL(None).pthread_mutex_unlock(mutex)
        assert milliseconds / 1000 - 0.002 < time.monotonic() - began < milliseconds / 1000 + 5


def test_objects_are_found_by_address(functions: ctypes.CDLL) -> None:
    for function in (ctypes.CDLL(None).malloc, functions.gettid, ctypes.pythonapi.Py_IncRef):
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        found = Found()
        assert functions._dl_find_object(ctypes.c_void_p(address), ctypes.byref(found)) == 0
        assert found.start <= address < found.end
        if hasattr(ctypes.CDLL(None), "_dl_find_object"):
            expected = Found()
            assert ctypes.CDLL(None)._dl_find_object(ctypes.c_void_p(address), ctypes.byref(expected)) == 0
            assert found.frames == expected.frames
    assert functions._dl_find_object(ctypes.c_void_p(8), ctypes.byref(Found())) == -1


def test_files_have_the_status_that_python_sees(functions: ctypes.CDLL, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("12345")
    (tmp_path / "link").symlink_to("file")
    paths = {name: str(tmp_path / name).encode() for name in ("file", "link", "missing")}
    with open(tmp_path / "file") as opened:
        calls = [
            (functions.stat, paths["link"], os.stat(paths["link"])),
            (functions.stat64, paths["file"], os.stat(paths["file"])),
            (functions.lstat, paths["link"], os.lstat(paths["link"])),
            (functions.fstat, opened.fileno(), os.fstat(opened.fileno())),
            (functions.fstat64, opened.fileno(), os.fstat(opened.fileno())),
        ]
        folder = os.open(tmp_path, os.O_RDONLY)
        for function in (functions.fstatat, functions.fstatat64):
            for flags, expected in ((0, os.stat(paths["link"])), (AT_SYMLINK_NOFOLLOW, os.lstat(paths["link"]))):
                calls.append((lambda argument, status, f=function, flags=flags: f(folder, argument, status, flags), b"link", expected))
        for function, argument, expected in calls:
            status = (ctypes.c_uint64 * 32)()
            assert function(argument, status) == 0
            assert status[1] == expected.st_ino and expected.st_size == status[6]
    os.close(folder)
    assert functions.stat(paths["missing"], (ctypes.c_uint64 * 32)()) == -1


def test_threads_have_their_numbers(functions: ctypes.CDLL) -> None:
    assert functions.gettid() == threading.get_native_id()


def test_random_numbers_differ(functions: ctypes.CDLL) -> None:
    assert len({functions.arc4random() for _ in range(20)}) > 15


def test_stubs_offer_what_the_older_glibc_had(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SOURCES / "write_stubs.py", tmp_path, "2.28", "clang-22"], check=True)
    old = "#include <pthread.h>\n#include <math.h>\nvoid *run(void *x) { pthread_t t; pthread_create(&t, 0, run, x); return x; }\n"
    new = old + "#include <stdlib.h>\nint number(void) { return arc4random(); }\n"
    options = ["clang-22", "-shared", "-fPIC", "-fuse-ld=lld", "-Wl,-z,defs", "-x", "c", "-", f"-L{tmp_path}", "-o"]
    subprocess.run([*options, tmp_path / "old.so"], input=old, text=True, check=True)
    symbols = subprocess.check_output(["/usr/lib/llvm-22/bin/llvm-readelf", "--dyn-syms", tmp_path / "old.so"], text=True)
    assert "pthread_create@GLIBC_2.2.5" in symbols or "pthread_create@GLIBC_2.17" in symbols
    refused = subprocess.run([*options, tmp_path / "new.so"], input=new, text=True, capture_output=True)
    assert refused.returncode != 0 and "undefined symbol: arc4random" in refused.stderr
