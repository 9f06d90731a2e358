"""Outlines of a sum of moving bumps, by marching squares."""

import quadrants as qd

qd.init(arch=qd.gpu)
n, level, n_balls = 64, 1.0, 6
value = qd.field(float, (n + 1, n + 1))
begins = qd.Vector.field(2, float, 4 * n * n)
ends = qd.Vector.field(2, float, 4 * n * n)
count = qd.field(int, ())


@qd.kernel
def fill(time: float):
    for i, j in value:
        total = 0.0
        for k in range(n_balls):
            center = 0.5 + 0.33 * qd.Vector([qd.sin(time * (0.5 + 0.1 * k) + k), qd.cos(time * (0.4 + 0.13 * k) + 2 * k)])
            total += 0.006 / ((qd.Vector([i, j]) / n - center).norm_sqr() + 1e-4)
        value[i, j] = total


@qd.func
def crossing(p, q):
    """The place between two neighboring corners where the value is the level."""
    a, b = value[p], value[q]
    return (p + (q - p) * (level - a) / (b - a)) / n


@qd.kernel
def trace() -> int:
    count[None] = 0
    for i, j in qd.ndrange(n, n):
        corners = [qd.Vector([i, j]), qd.Vector([i + 1, j]), qd.Vector([i + 1, j + 1]), qd.Vector([i, j + 1])]
        found, first = 0, qd.Vector([0.0, 0.0])
        for k in qd.static(range(4)):
            p, q = corners[k], corners[(k + 1) % 4]
            if (value[p] < level) != (value[q] < level):
                place = crossing(p, q)
                if found % 2 == 0:
                    first = place
                else:
                    line = qd.atomic_add(count[None], 1)
                    begins[line] = first
                    ends[line] = place
                found += 1
    return count[None]


gui = qd.GUI("Marching Squares", res=512, background_color=0xFFFFFF)
time = 0.0
while gui.running:
    fill(time)
    lines = trace()
    gui.lines(begins.to_numpy()[:lines], ends.to_numpy()[:lines], radius=2, color=0x1F4E79)
    gui.show()
    time += 0.05
