"""A kernel that repeats its tasks, for several programs of the corpus."""

from typing import Any

import quadrants as qd


def make_count_down() -> Any:
    """Adds 1 to each element, as often as the flag is larger than 0."""

    @qd.kernel(graph=True)
    def count_down(x: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)) -> None:
        while qd.graph.do_while(flag):
            for i in x:
                x[i] += 1
            for _ in range(1):
                flag[None] -= 1

    return count_down
