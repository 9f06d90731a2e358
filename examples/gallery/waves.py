"""Waves in a square pond with drops, shaded by their slope."""

import numpy as np

import quadrants as qd

qd.init(arch=qd.gpu)
n, courant, damping = 256, 0.5, 0.999
height = qd.field(float, (n, n))
speed = qd.field(float, (n, n))
shade = qd.field(float, (n, n))


@qd.kernel
def drop(x: float, y: float):
    for i, j in height:
        height[i, j] += qd.exp(-((i - x * n) ** 2 + (j - y * n) ** 2) / 18)


@qd.func
def at(i, j):
    return height[qd.math.clamp(i, 0, n - 1), qd.math.clamp(j, 0, n - 1)]


@qd.kernel
def step():
    for i, j in height:
        speed[i, j] = damping * (speed[i, j] + courant**2 * (at(i + 1, j) + at(i - 1, j) + at(i, j + 1) + at(i, j - 1) - 4 * at(i, j)))
    for i, j in height:
        height[i, j] += speed[i, j]


@qd.kernel
def paint():
    for i, j in shade:
        shade[i, j] = qd.math.clamp(0.5 + 2 * (at(i + 1, j) - at(i - 1, j)) + (at(i, j + 1) - at(i, j - 1)), 0.0, 1.0)


gui = qd.GUI("Waves", (n * 2, n * 2))
random = np.random.default_rng(1)
frame = 0
while gui.running:
    if frame % 20 == 0:
        drop(*random.uniform(0.1, 0.9, 2))
    if gui.is_pressed(gui.LMB):
        drop(*gui.get_cursor_pos())
    for _ in range(3):
        step()
    paint()
    gui.set_image(qd.tools.imresize(shade, 2 * n))
    gui.show()
    frame += 1
