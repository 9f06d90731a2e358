"""Points that keep a distance, grown from one point on a grid of cells.

Bridson, "Fast Poisson Disk Sampling in Arbitrary Dimensions", SIGGRAPH 2007 sketches.
"""

import numpy as np

import quadrants as qd

qd.init(arch=qd.cpu)
most, tries = 4000, 30
cells = 64
least = 2**0.5 / cells
grid = qd.field(int, (cells, cells))
points = qd.Vector.field(2, float, most)
count = qd.field(int, ())
tail = qd.field(int, ())


@qd.func
def is_free(p):
    cell = qd.floor(p * cells, int)
    result = True
    for i in range(max(cell.x - 2, 0), min(cell.x + 3, cells)):
        for j in range(max(cell.y - 2, 0), min(cell.y + 3, cells)):
            if grid[i, j] != -1 and (points[grid[i, j]] - p).norm() < least:
                result = False
    return result


@qd.kernel
def grow(steps: int):
    qd.loop_config(serialize=True)
    for _ in range(steps):
        if tail[None] < count[None]:
            center = points[tail[None]]
            tail[None] += 1
            for _ in range(tries):
                angle, radius = 2 * np.pi * qd.random(), least * (1 + qd.random())
                p = center + radius * qd.Vector([qd.cos(angle), qd.sin(angle)])
                if p.min() >= 0 and p.max() < 1 and is_free(p):
                    points[count[None]] = p
                    grid[qd.floor(p * cells, int)] = count[None]
                    count[None] += 1


grid.fill(-1)
points[0] = [0.5, 0.5]
grid[cells // 2, cells // 2] = 0
count[None] = 1
gui = qd.GUI("Poisson Disks", res=512, background_color=0xFFFFFF)
while gui.running:
    grow(25)
    gui.circles(points.to_numpy()[: count[None]], radius=3, color=0x335577)
    gui.show()
