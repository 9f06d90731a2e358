"""Julia set: iterations of z² + c until |z| exceeds 20."""

import quadrants as qd

qd.init(arch=qd.gpu)
n = 320
pixels = qd.field(dtype=float, shape=(n * 2, n))


@qd.func
def square(z):
    return qd.Vector([z[0] ** 2 - z[1] ** 2, z[1] * z[0] * 2])


@qd.kernel
def paint(t: float):
    for i, j in pixels:
        c = qd.Vector([-0.8, qd.cos(t) * 0.2])
        z = qd.Vector([i / n - 1, j / n - 0.5]) * 2
        iterations = 0
        while z.norm() < 20 and iterations < 50:
            z = square(z) + c
            iterations += 1
        pixels[i, j] = 1 - iterations * 0.02


gui = qd.GUI("Julia Set", res=(n * 2, n))
frame = 0
while gui.running:
    paint(frame * 0.03)
    gui.set_image(pixels)
    gui.show()
    frame += 1
