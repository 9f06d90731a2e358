"""Exported kernels: C programs run them without Python, and the tools of the drivers accept their code."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd

C, CPP = ("-std=c11",), ("-std=c++20", "-xc++")
COMPILERS = [("clang", *C), ("clang-22", *C), ("gcc", *C), ("clang++-22", *CPP), ("g++", *CPP)]
FOUND = [compiler for compiler in COMPILERS if shutil.which(compiler[0])]
ARRAY = qd.types.ndarray(qd.f32, 1)


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


@qd.kernel
def saxpy(a: qd.f32, x: ARRAY, y: ARRAY) -> qd.f64:
    total = qd.f64(0)
    for i in x:
        y[i] += a * x[i]
        total += y[i]
    return total


def build_and_run(folder: Path, compiler: tuple[str, ...], main: str, *flags: str) -> str:
    """What a C program prints; it is compiled with warnings as errors."""
    (folder / "main.c").write_text(main)
    command = [*compiler, "-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument", "main.c", "-xnone", *flags, "-o", "program"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return subprocess.run(["./program"], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not FOUND, reason="no compiler of C")
@pytest.mark.parametrize("compiler", FOUND, ids=[compiler[0] for compiler in FOUND])
@pytest.mark.parametrize("how", ["linked", "opened"])
def test_a_program_in_c_runs_an_exported_kernel(tmp_path: Path, compiler: tuple[str, ...], how: str) -> None:
    files = saxpy.export(tmp_path / "saxpy")
    assert sorted(path.name for path in files) == ["saxpy.h", "saxpy.json", "saxpy.so"] and all(path.exists() for path in files)
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    expected = saxpy(2, x, y)
    find = "saxpy" if how == "linked" else '(QdKernelFunction)dlsym(dlopen("./saxpy.so", RTLD_NOW), "saxpy")'
    main = f"""
#include "saxpy.h"
#include <dlfcn.h>
#include <stdio.h>
int main(void) {{
  static float x[1000], y[1000];
  for (int i = 0; i < 1000; ++i) x[i] = (float)i, y[i] = 1;
  saxpy_arguments arguments;
  arguments.a = 2;
  arguments.x.data = x, arguments.y.data = y;
  arguments.x.extents[0] = arguments.y.extents[0] = 1000;
  saxpy_result result;
  int status = saxpy_call({find}, &arguments, &result, 0, 0);
  printf("%d %.17g %.9g\\n", status, result.value_0, y[999]);
}}
"""
    printed = build_and_run(tmp_path, compiler, main, *(["./saxpy.so"] if how == "linked" else ["-ldl"])).split()
    assert printed[0] == "0" and float(printed[1]) == pytest.approx(expected, rel=1e-12) and float(printed[2]) == y[999]


@pytest.mark.skipif(not FOUND, reason="no compiler of C")
def test_two_kernels_with_fields_vectors_tasks_and_random_numbers_are_in_one_program(tmp_path: Path) -> None:
    f = qd.field(qd.i32, (2, 3))
    m = qd.Matrix.field(2, 2, qd.f64, shape=4)

    @qd.kernel
    def first(v: qd.types.vector(3, qd.f64), n: qd.u8, scale: qd.template()) -> qd.types.vector(2, qd.f64):
        last = qd.f64(0)
        for i, j in f:
            f[i, j] = scale * i + j + qd.cast(n, qd.i32)
        for i in m:
            m[i][0, 1] = v[2] * i
        last = m[3][0, 1]
        for i in range(1):
            last += v[0]
        return [last, v.sum()]

    @qd.kernel
    def second() -> qd.u64:
        return qd.random(qd.u64)

    first.export(tmp_path / "first", qd.types.vector(3, qd.f64), qd.u8, 10)
    second.export(tmp_path / "second", arch="x64")
    qd.random_seed(7)
    draws = [second() for _ in range(2)]
    expected = first(qd.Vector([1.0, 2.0, 3.0], qd.f64), 200, 10)
    main = """
#include "first.h"
#include "second.h"
#include <stdio.h>
int main(void) {
  static int32_t f[6];
  static double m[16];
  first_arguments a;
  memset(&a, 0, sizeof a);
  a.v[0] = 1, a.v[1] = 2, a.v[2] = 3, a.n = 200, a.f.data = f, a.m.data = m;
  first_result r;
  if (first_call(first, &a, &r, 0, 0)) return 1;
  printf("%g %g", r.value_0[0], r.value_0[1]);
  for (int i = 0; i < 6; ++i) printf(" %d", f[i]);
  for (int i = 0; i < 16; ++i) printf(" %g", m[i]);
  second_arguments b;
  memset(&b, 0, sizeof b);
  second_result s;
  for (unsigned launch = 0; launch < 2; ++launch) {
    if (second_call(second, &b, &s, 7, launch)) return 1;
    printf(" %llu", (unsigned long long)s.value_0);
  }
}
"""
    words = build_and_run(tmp_path, FOUND[0], main, "./first.so", "./second.so").split()
    assert [float(word) for word in words[:2]] == expected.to_list()
    assert list(map(int, words[2:8])) == f.to_numpy().ravel().tolist()
    assert [float(word) for word in words[8:24]] == m.to_numpy().ravel().tolist()
    assert list(map(int, words[24:])) == draws


@pytest.mark.skipif(not FOUND, reason="no compiler of C")
def test_a_failed_check_of_an_exported_kernel_is_its_status(tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, debug=True)

    @qd.kernel
    def checked(x: qd.types.ndarray(qd.i32, 1), n: qd.i32):
        assert n != 3, "three"
        for i in range(n):
            x[i] = i

    checked.export(tmp_path / "checked")
    manifest = json.loads((tmp_path / "checked.json").read_text())
    main = """
#include "checked.h"
#include <stdio.h>
int main(void) {
  int32_t x[4];
  for (int n = 2; n < 6; n += 1) {
    checked_arguments a;
    a.x.data = x, a.x.extents[0] = 4, a.n = n;
    checked_result r;
    printf("%d ", checked_call(checked, &a, &r, 0, 0));
  }
}
"""
    statuses = list(map(int, build_and_run(tmp_path, FOUND[0], main, "./checked.so").split()))
    texts = ["" if status == 0 else manifest["sites"][status - 1]["text"] for status in statuses]
    assert statuses[0] == statuses[2] == 0 and texts[1] == "three" and statuses[3] > 0 and "{}" in texts[3]
    assert all(site["file"] == __file__ for site in manifest["sites"])


@pytest.mark.parametrize("arch", [qd.cuda, "cuda:sm_80"])
def test_ptx_of_an_exported_kernel_is_assembled(tmp_path: Path, arch: Any) -> None:
    saxpy.export(tmp_path / "k", arch=arch)
    manifest = json.loads((tmp_path / "k.json").read_text())
    ptx = (tmp_path / "k.ptx").read_text()
    assert manifest["code"] == ["k.ptx"] and all(f".entry {task['entry']}(" in ptx for task in manifest["tasks"])
    assert [item["offset"] for item in manifest["inputs"]] == [0, 8, 24] and manifest["argument_bytes"] == 40
    if (ptxas := shutil.which("ptxas")) is not None:
        capability = "sm_80" if arch == "cuda:sm_80" else "sm_90"
        subprocess.run([ptxas, f"-arch={capability}", "k.ptx", "-o", "k.cubin"], cwd=tmp_path, check=True)
    check_header(tmp_path)


def test_spirv_of_an_exported_kernel_is_valid(tmp_path: Path) -> None:
    files = saxpy.export(tmp_path / "k", arch="vulkan")
    modules = [path for path in files if path.suffix == ".spv"]
    manifest = json.loads((tmp_path / "k.json").read_text())
    assert [path.name for path in modules] == manifest["code"] and len(modules) == len(manifest["tasks"]) == 3
    assert all(path.read_bytes()[:4] == b"\x03\x02\x23\x07" for path in modules)
    if (validator := shutil.which("spirv-val")) is not None:
        for path in modules:
            subprocess.run([validator, "--target-env", "vulkan1.2", str(path)], check=True)
    check_header(tmp_path)


def check_header(folder: Path) -> None:
    """Fails unless the header of a kernel for a GPU compiles, and computes the launches from the arguments."""
    if not FOUND:
        return
    main = """
#include "k.h"
#include <stdio.h>
int main(void) {
  k_arguments a;
  a.x.extents[0] = 1000000, a.a = 1;
  printf("%d %d", (int)k_blocks_0(&a), (int)(k_blocks_1(&a) * k_BLOCK_SIZE_1));
}
"""
    once, threads = map(int, build_and_run(folder, FOUND[0], main).split())
    assert once == 1 and threads > 1000


def test_types_and_processors_that_do_not_fit(tmp_path: Path) -> None:
    @qd.kernel
    def anything(x: qd.types.ndarray(), n: qd.i32):
        for i in x:
            x[i] = n

    with pytest.raises(TypeError, match="parameter 'x' needs a type with dtype and ndim"):
        anything.export(tmp_path / "k")
    with pytest.raises(TypeError, match="parameter 'n' is not of type f32"):
        anything.export(tmp_path / "k", qd.types.ndarray(qd.f32, 2), qd.f32)
    with pytest.raises(qd.QuadrantsSyntaxError, match="Too many arguments"):
        anything.export(tmp_path / "k", qd.types.ndarray(qd.f32, 1), qd.i32, 3)
    with pytest.raises(ValueError, match="no target named nothing"):
        saxpy.export(tmp_path / "k", arch="nothing")
    with pytest.raises(qd.QuadrantsCompilationError, match="this device has no f64"):
        saxpy.export(tmp_path / "k", arch=qd.metal)
    assert list(tmp_path.iterdir()) == []
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="qd.init"):
        saxpy.export(tmp_path / "k")


def test_a_method_is_exported_with_its_object(tmp_path: Path) -> None:
    @qd.data_oriented
    class Grid:
        def __init__(self) -> None:
            self.x = qd.field(qd.f32, 8)

        @qd.kernel
        def fill(self, value: qd.f32):
            for i in self.x:
                self.x[i] = value

    Grid().fill.export(tmp_path / "fill", qd.f32)
    inputs = json.loads((tmp_path / "fill.json").read_text())["inputs"]
    assert {item["name"]: (item["kind"], item.get("extents")) for item in inputs} == {"value": ("value", None), "self.x": ("field", [8])}
    assert "self_x;" in (tmp_path / "fill.h").read_text()
