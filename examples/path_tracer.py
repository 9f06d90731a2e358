"""A path-traced room: diffuse walls, a mirror ball, a glass ball, and a ball of light.

Paths start at the camera and scatter until they hit the light (J. T. Kajiya, "The Rendering Equation", SIGGRAPH 1986); at each diffuse
point the light is also sampled directly, within the cone that it subtends; no light is counted twice.

    python examples/path_tracer.py --out out/room.png
"""

import argparse
import math
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import quadrants as qd

DIFFUSE, MIRROR, GLASS, LIGHT = 0, 1, 2, 3
vec3 = qd.types.vector(3, qd.f32)


@qd.dataclass
class Sphere:
    """A ball: center, radius, kind of material, and the fraction of light that it reflects (for a light: the emitted radiance)."""

    center: vec3
    radius: qd.f32
    kind: qd.i32
    color: vec3


@qd.dataclass
class Hit:
    """The point where a ray hits a surface; `distance` is very large if there is none."""

    distance: qd.f32
    normal: vec3
    kind: qd.i32
    color: vec3


@qd.data_oriented
class Room:
    """A box of side 2 around the origin, open toward the camera, and balls in it.

    Args:
        width, height: size of the picture in pixels.
        spheres: (center, radius, kind, color) of each ball; the last one is the light.
        walls: whether the scene contains the box.
    """

    def __init__(self, width: int, height: int, spheres: list, walls: bool = True) -> None:
        self.width, self.height, self.walls = width, height, walls
        self.n_spheres = len(spheres)
        self.spheres = Sphere.field(shape=self.n_spheres)
        for k, (center, radius, kind, color) in enumerate(spheres):
            self.spheres[k] = Sphere(center=center, radius=radius, kind=kind, color=color)
        self.film = qd.Vector.field(3, qd.f32, (width, height))

    @qd.func
    def intersect(self, origin, direction):
        """The nearest surface along a ray."""
        hit = Hit(distance=1e9, normal=vec3(0.0), kind=DIFFUSE, color=vec3(0.0))
        if qd.static(self.walls):
            for axis in qd.static(range(3)):
                for side in qd.static((-1.0, 1.0)):
                    if qd.static(not (axis == 2 and side > 0.0)) and direction[axis] * side > 1e-6:
                        distance = (side - origin[axis]) / direction[axis]
                        if 1e-4 < distance < hit.distance:
                            place = origin + distance * direction
                            inside = True
                            for other in qd.static(range(3)):
                                if qd.static(other != axis) and qd.abs(place[other]) > 1.0001:
                                    inside = False
                            if inside:
                                hit.distance = distance
                                hit.normal = vec3(0.0)
                                hit.normal[axis] = -side
                                hit.kind = DIFFUSE
                                hit.color = vec3(0.75, 0.75, 0.75)
                                if qd.static(axis == 0 and side < 0.0):
                                    hit.color = vec3(0.75, 0.25, 0.25)
                                if qd.static(axis == 0 and side > 0.0):
                                    hit.color = vec3(0.25, 0.35, 0.75)
        for k in range(self.n_spheres):
            ball = self.spheres[k]
            to_origin = origin - ball.center
            half = to_origin.dot(direction)
            rest = half * half - to_origin.norm_sqr() + ball.radius * ball.radius
            if rest > 0.0:
                root = qd.sqrt(rest)
                distance = -half - root
                if distance < 1e-3:
                    distance = -half + root
                if 1e-3 < distance < hit.distance:
                    hit.distance = distance
                    hit.normal = (to_origin + distance * direction) / ball.radius
                    hit.kind = ball.kind
                    hit.color = ball.color
        return hit

    @qd.func
    def sample_around(self, axis, cosine, turn):
        """The direction at an angle from `axis`, given by its cosine, and at a rotation about it."""
        helper = vec3(0.0, 1.0, 0.0)
        if qd.abs(axis[1]) > 0.9:
            helper = vec3(1.0, 0.0, 0.0)
        u = axis.cross(helper).normalized()
        v = axis.cross(u)
        sine = qd.sqrt(qd.max(0.0, 1.0 - cosine * cosine))
        return sine * (qd.cos(turn) * u + qd.sin(turn) * v) + cosine * axis

    @qd.func
    def direct_light(self, place, normal):
        """Irradiance at a point from the ball of light, from one random direction in the cone that it subtends."""
        light = self.spheres[self.n_spheres - 1]
        to_light = light.center - place
        squared = to_light.norm_sqr()
        widest = qd.sqrt(qd.max(0.0, 1.0 - light.radius * light.radius / squared))
        cosine = 1.0 - qd.random() * (1.0 - widest)
        direction = self.sample_around(to_light / qd.sqrt(squared), cosine, 2.0 * math.pi * qd.random())
        result = vec3(0.0)
        facing = direction.dot(normal)
        if facing > 0.0:
            hit = self.intersect(place, direction)
            if hit.kind == LIGHT:
                result = light.color * (facing * 2.0 * math.pi * (1.0 - widest))
        return result

    @qd.func
    def trace(self, start, towards, bounces):
        """Radiance that arrives at `start` from a direction along one random path."""
        origin, direction = start, towards
        radiance, throughput = vec3(0.0), vec3(1.0)
        count_light = True
        for _ in range(bounces):
            hit = self.intersect(origin, direction)
            if hit.distance > 1e8:
                break
            place = origin + hit.distance * direction
            if hit.kind == LIGHT:
                if count_light:
                    radiance += throughput * hit.color
                break
            if hit.kind == DIFFUSE:
                throughput *= hit.color
                radiance += throughput * self.direct_light(place, hit.normal) / math.pi
                direction = self.sample_around(hit.normal, qd.sqrt(qd.random()), 2.0 * math.pi * qd.random())
                count_light = False
            else:
                throughput *= hit.color
                cosine = -direction.dot(hit.normal)
                mirrored = direction + 2.0 * cosine * hit.normal
                if hit.kind == GLASS:
                    ratio, normal = 1.0 / 1.5, hit.normal
                    if cosine < 0.0:
                        ratio, normal, cosine = 1.5, -hit.normal, -cosine
                    rest = 1.0 - ratio * ratio * (1.0 - cosine * cosine)
                    grazing = (1.0 - cosine) ** 5
                    if rest > 0.0 and qd.random() > 0.04 + 0.96 * grazing:
                        mirrored = ratio * direction + (ratio * cosine - qd.sqrt(rest)) * normal
                direction = mirrored.normalized()
                count_light = True
            origin = place + 1e-4 * direction
        return radiance

    @qd.kernel
    def add_samples(self, bounces: qd.i32):
        for i, j in self.film:
            x = (i + qd.random()) / self.width * 2.0 - 1.0
            y = (j + qd.random()) / self.height * 2.0 - 1.0
            direction = vec3(x, y * self.height / self.width, -2.6).normalized()
            self.film[i, j] += self.trace(vec3(0.0, 0.0, 3.6), direction, bounces)

    @qd.kernel
    def measure_irradiance(
        self, places: qd.types.ndarray(dtype=vec3, ndim=1), result: qd.types.ndarray(dtype=vec3, ndim=1), normal: vec3, samples: qd.i32
    ):
        """result = mean irradiance at each of the points, on a surface with the given normal."""
        for k in places:
            total = vec3(0.0)
            for _ in range(samples):
                total += self.direct_light(places[k], normal)
            result[k] = total / samples


def build_room(width: int, height: int) -> Room:
    """The scene of the picture."""
    return Room(
        width,
        height,
        [
            ((-0.45, -0.6, -0.3), 0.4, MIRROR, (0.95, 0.95, 0.95)),
            ((0.45, -0.65, 0.25), 0.35, GLASS, (1.0, 1.0, 1.0)),
            ((0.1, -0.85, 0.65), 0.15, DIFFUSE, (0.9, 0.6, 0.2)),
            ((0.0, 0.75, -0.1), 0.18, LIGHT, (18.0, 17.0, 15.0)),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/room.png"))
    parser.add_argument("--size", type=int, default=320, help="width and height in pixels")
    parser.add_argument("--samples", type=int, default=64, help="paths for each pixel")
    parser.add_argument("--bounces", type=int, default=8)
    args = parser.parse_args()
    qd.init(arch=qd.cpu, log_level="error", random_seed=1)
    room = build_room(args.size, args.size)
    for _ in tqdm(range(args.samples), desc="tracing", unit="sample"):
        room.add_samples(args.bounces)
    film = np.maximum(room.film.to_numpy() / args.samples, 0.0)
    pixels = (np.clip(1.0 - np.exp(-film), 0.0, 1.0) ** (1.0 / 2.2) * 255.0 + 0.5).astype(np.uint8)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 0, 2)[::-1])).save(args.out)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
