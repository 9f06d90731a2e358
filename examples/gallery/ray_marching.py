"""Ray marching of a scene that is described by distances: blended spheres above a floor, with soft shadows."""

import quadrants as qd

qd.init(arch=qd.gpu)
width, height = 480, 320
image = qd.Vector.field(3, float, (width, height))
vec3 = qd.math.vec3


@qd.func
def distance(p, time):
    nearest = 10.0
    for k in qd.static(range(3)):
        center = vec3(qd.sin(time + 2.1 * k), 0.7 + 0.4 * qd.cos(1.3 * time + k), qd.cos(time + 2.1 * k))
        d = (p - center).norm() - 0.45
        blend = qd.math.clamp(0.5 + 0.5 * (d - nearest) / 0.4, 0.0, 1.0)
        nearest = qd.math.mix(d, nearest, blend) - 0.4 * blend * (1 - blend)
    return min(nearest, p.y)


@qd.func
def slope(p, time):
    h = 1e-3
    return vec3(
        distance(p + vec3(h, 0, 0), time) - distance(p - vec3(h, 0, 0), time),
        distance(p + vec3(0, h, 0), time) - distance(p - vec3(0, h, 0), time),
        distance(p + vec3(0, 0, h), time) - distance(p - vec3(0, 0, h), time),
    ).normalized()


@qd.func
def march(origin, along, time, farthest):
    """Returns how far the ray goes, and the least ratio of distance and way, which softens shadows."""
    way, softness = 0.02, 1.0
    for _ in range(90):
        d = distance(origin + way * along, time)
        softness = min(softness, 8 * d / way)
        if d < 1e-3 or way > farthest:
            break
        way += d
    return way, softness


@qd.kernel
def render(time: float):
    for i, j in image:
        eye = vec3(0.0, 1.6, -4.5)
        along = vec3((i - width / 2) / height, (j - height / 2) / height - 0.2, 1.2).normalized()
        color = vec3(0.55, 0.7, 0.9) - 0.5 * max(along.y, 0.0)
        way, _ = march(eye, along, time, 20.0)
        if way < 20.0:
            p = eye + way * along
            normal, light = slope(p, time), vec3(0.5, 0.8, -0.4).normalized()
            _, shadow = march(p + 0.01 * normal, light, time, 6.0)
            surface = vec3(0.9, 0.4, 0.25)
            if p.y < 0.01:
                surface = vec3(0.8, 0.8, 0.75) if (qd.floor(p.x) + qd.floor(p.z)) % 2 == 0 else vec3(0.35, 0.4, 0.45)
            lit = max(normal.dot(light), 0.0) * qd.math.clamp(shadow, 0.0, 1.0)
            color = qd.math.mix(surface * (0.25 + 0.75 * lit), color, 1 - qd.exp(-0.002 * way**3))
        image[i, j] = color


gui = qd.GUI("Ray Marching", res=(width, height))
time = 0.0
while gui.running:
    render(time)
    gui.set_image(image)
    gui.show()
    time += 0.05
