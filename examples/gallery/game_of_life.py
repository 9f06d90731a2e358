"""Conway's game of life on a torus."""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
n, cell = 96, 5
alive = qd.field(int, shape=(n, n))
count = qd.field(int, shape=(n, n))


@qd.func
def neighbors(i, j):
    total = 0
    for di, dj in qd.static(qd.ndrange((-1, 2), (-1, 2))):
        total += alive[(i + di) % n, (j + dj) % n]
    return total - alive[i, j]


@qd.kernel
def step():
    for i, j in alive:
        count[i, j] = neighbors(i, j)
    for i, j in alive:
        alive[i, j] = 1 if count[i, j] == 3 or (alive[i, j] == 1 and count[i, j] == 2) else 0


@qd.kernel
def scatter():
    for i, j in alive:
        alive[i, j] = 1 if qd.random() < 0.3 else 0


scatter()
gui = qd.GUI("Game of Life", (n * cell, n * cell))
while gui.running:
    for event in gui.get_events(gui.PRESS):
        if event.key == gui.ESCAPE:
            gui.running = False
        elif event.key == gui.LMB:
            alive[int(event.pos[0] * n), int(event.pos[1] * n)] = 1
    gui.set_image(qd.tools.imresize(alive, cell * n).astype(np.uint8) * 255)
    gui.show()
    step()
