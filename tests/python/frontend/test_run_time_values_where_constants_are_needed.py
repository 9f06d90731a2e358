"""A run-time value where the compiler needs to know one is refused, wherever it stands."""

from typing import Any

import pytest

import quadrants as qd

BODIES = [
    "x = n.cast(f)",
    "x = n.cast()",
    "x = qd.cast(n, n)",
    "print(f'{n:{n}}')",
    "qd.static_assert(False, n)",
    "qd.static_print(1, sep=n)",
    "x = isinstance([n], n)",
    "for i, j in qd.ndrange(2, 3, axes=(n, 0)):\n        pass",
    "x = v[n:2]",
    "x = qd.Vector([n, n], dt=n)",
    "x = qd.Matrix.zero(qd.f32, n)",
    "x = [i for i in range(n)]",
    "for i in qd.static(range(n)):\n        pass",
    "qd.loop_config(block_dim=n)",
    "x = getattr(n, n)",
]


@pytest.mark.parametrize("body", BODIES)
def test_it_is_refused_with_the_line(emit: Any, body: str, tmp_path: Any):
    file = tmp_path / "kernel.py"
    file.write_text(f"def k(n: qd.i32, f: qd.f32):\n    v = qd.Vector([1, 2, 3])\n    {body}\n")
    module: dict[str, Any] = {"qd": qd}
    exec(compile(file.read_text(), str(file), "exec"), module)
    with pytest.raises(qd.QuadrantsCompilationError, match="line 3, in k:"):
        emit(qd.kernel(module["k"]), 1, 1.0)
