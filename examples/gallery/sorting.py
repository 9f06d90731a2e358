"""Odd-even transposition sort: neighbors are exchanged in parallel, and the rows of the picture are the steps."""

import quadrants as qd

qd.init(arch=qd.gpu)
n = 256
values = qd.field(float, n)
picture = qd.Vector.field(3, float, (n, n))


@qd.kernel
def shuffle():
    for i in values:
        values[i] = qd.random()


@qd.kernel
def exchange(odd: int):
    for k in range((n - odd) // 2):
        i = 2 * k + odd
        if values[i] > values[i + 1]:
            values[i], values[i + 1] = values[i + 1], values[i]


@qd.kernel
def paint(row: int):
    for i in values:
        hue = 6.28 * values[i]
        picture[i, row] = 0.5 + 0.5 * qd.cos(hue + qd.Vector([0.0, 2.1, 4.2]))


shuffle()
gui = qd.GUI("Sorting", res=(n * 2, n * 2))
step = 0
while gui.running:
    for _ in range(4):
        if step < n:
            exchange(step % 2)
            paint(n - 1 - step)
            step += 1
    gui.set_image(qd.tools.imresize(picture, 2 * n))
    gui.show()
