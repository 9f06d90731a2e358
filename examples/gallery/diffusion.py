"""Spots of two substances that react and diffuse.

Pearson, "Complex Patterns in a Simple System", Science 261, 1993 (Gray and Scott's reaction).
"""

import quadrants as qd

qd.init(arch=qd.gpu)
n, feed, kill = 256, 0.0367, 0.0649
uv = qd.Vector.field(2, float, (2, n, n))
pixels = qd.Vector.field(3, float, (n, n))


@qd.kernel
def start():
    for i, j in pixels:
        is_spot = abs(i - n // 2) < 12 and abs(j - n // 2) < 12 or qd.random() < 0.002
        uv[0, i, j] = [0.5, 0.5] if is_spot else [1.0, 0.0]


@qd.kernel
def react(phase: int):
    for i, j in pixels:
        here = uv[phase, i, j]
        around = uv[phase, (i + 1) % n, j] + uv[phase, (i - 1) % n, j] + uv[phase, i, (j + 1) % n] + uv[phase, i, (j - 1) % n]
        rate = here[0] * here[1] * here[1]
        change = qd.Vector([0.16, 0.08]) * (around - 4 * here)
        change += qd.Vector([feed * (1 - here[0]) - rate, rate - (feed + kill) * here[1]])
        uv[1 - phase, i, j] = here + change


@qd.kernel
def paint():
    for i, j in pixels:
        v = uv[0, i, j][1] * 3
        pixels[i, j] = [v, v * v, 0.25 + 0.5 * v * v * v]


start()
gui = qd.GUI("Diffusion", res=n)
while gui.running:
    for _ in range(20):
        react(0)
        react(1)
    paint()
    gui.set_image(pixels)
    gui.show()
