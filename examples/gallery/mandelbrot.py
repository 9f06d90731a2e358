"""Mandelbrot set: a zoom, colored by a smooth count of iterations."""

import quadrants as qd

qd.init(arch=qd.gpu, default_fp=qd.f64)
width, height, most = 480, 320, 200
image = qd.Vector.field(3, dtype=qd.f32, shape=(width, height))
center = qd.Vector([-0.743643887, 0.131825904])


@qd.kernel
def paint(scale: qd.f64):
    for i, j in image:
        c = center + scale * qd.Vector([i - width / 2, j - height / 2]) / height
        z = qd.Vector([0.0, 0.0])
        count = 0
        while z.dot(z) < 256.0 and count < most:
            z = qd.Vector([z.x * z.x - z.y * z.y, 2 * z.x * z.y]) + c
            count += 1
        color = qd.Vector([0.0, 0.0, 0.0])
        if count < most:
            smooth = count + 1 - qd.log(qd.log(z.norm())) / qd.log(2.0)
            color = 0.5 + 0.5 * qd.cos(0.15 * smooth + qd.Vector([3.0, 3.6, 4.2]))
        image[i, j] = color


gui = qd.GUI("Mandelbrot Set", res=(width, height))
scale = 3.0
while gui.running:
    paint(scale)
    gui.set_image(image)
    gui.show()
    scale *= 0.97
