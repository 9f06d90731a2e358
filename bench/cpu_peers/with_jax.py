"""The works in JAX: array programs, and `while_loop` for each element by `vmap`."""

import os

import numpy as np
from works import KEPLER_TOLERANCE, MANDELBROT_ROUNDS, WALK_END, Inputs, read, read_bodies


def start(threads: int) -> None:
    # XLA has a thread for each processor that the process may use.
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"


def make(inputs: Inputs) -> dict:
    import jax
    import jax.numpy as jnp

    works = {}

    def add(name: str, function, *arguments) -> None:
        compiled = jax.jit(function)
        given = [jnp.asarray(argument) for argument in arguments]
        works[name] = (lambda: compiled(*given).block_until_ready(), lambda: np.asarray(compiled(*given)))

    def add_loop(name: str, function, *arguments) -> None:
        add(name, jax.vmap(function), *arguments)

    def attract(*position):
        dx, dy, dz = (coordinate[None, :] - coordinate[:, None] for coordinate in position)
        inverse = 1 / jnp.sqrt(dx * dx + dy * dy + dz * dz + dx.dtype.type(1e-4))
        weight = inverse * inverse * inverse
        return jnp.stack([(d * weight).sum(1) for d in (dx, dy, dz)])

    def collatz(x):
        def step(state):
            x, n = state
            return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), n + 1

        return jax.lax.while_loop(lambda state: state[0] > 1, step, (x, jnp.int32(0)))[1]

    def mandelbrot(a, b):
        def step(state):
            x, y, n = state
            return x * x - y * y + a, 2 * x * y + b, n + 1

        def goes_on(state):
            x, y, n = state
            return (x * x + y * y < 4) & (n < MANDELBROT_ROUNDS)

        return jax.lax.while_loop(goes_on, step, (a, b, jnp.int32(0)))[2]

    def kepler(anomaly, eccentricity):
        def step(state):
            angle, _, n = state
            change = (angle - eccentricity * jnp.sin(angle) - anomaly) / (1 - eccentricity * jnp.cos(angle))
            return angle - change, change, n + 1

        def goes_on(state):
            return (abs(state[1]) > KEPLER_TOLERANCE) & (state[2] < 50)

        return jax.lax.while_loop(goes_on, step, (anomaly, jnp.float32(1), jnp.int32(0)))[0]

    def walk(next):
        def from_first(first):
            loop = jax.lax.while_loop(
                lambda state: state[0] >= WALK_END, lambda state: (next[state[0]], state[1] + 1), (first, jnp.int32(0))
            )
            return loop[1]

        return from_first

    def interpolate(curve, at):
        x = at * np.float32(curve.size - 1)
        k = x.astype(jnp.int32)
        return curve[k] + (x - k.astype(jnp.float32)) * (curve[k + 1] - curve[k])

    for name, dtype in {"f32": np.float32, "f64": np.float64}.items():
        index = read(inputs, "index", np.int32)
        add(f"map_{name}", lambda x: jnp.exp(-x) + jnp.log(x), read(inputs, "x", dtype))
        add(f"nbody_{name}", attract, *read_bodies(inputs, dtype))
        add_loop(f"mandelbrot_{name}", mandelbrot, read(inputs, "real", dtype), read(inputs, "imaginary", dtype))
        add(f"gather_{name}", lambda table, index: table[index], read(inputs, "table", dtype), index)
    for name, dtype in {"u32": np.uint32, "i64": np.int64}.items():
        add_loop(f"collatz_{name}", collatz, read(inputs, "start", dtype))
    add("softplus_f32", lambda x: jnp.log(1 + jnp.exp(x)) * jnp.exp(-x / 2), read(inputs, "x", np.float32))
    add_loop("kepler_f32", kepler, read(inputs, "anomaly", np.float32), read(inputs, "eccentricity", np.float32))
    add(
        "search_f32",
        lambda numbers, key: jnp.searchsorted(numbers, key),
        read(inputs, "sorted", np.float32),
        read(inputs, "key", np.float32),
    )
    add_loop("walk_i32", walk(jnp.asarray(read(inputs, "next", np.int32))), read(inputs, "first", np.int32))
    add("gather_far_f32", lambda table, index: table[index], inputs["far_table"], read(inputs, "far_index", np.int32))

    def stencil(x):
        inner = slice(1, -1)
        along = (
            x[:-2, inner, inner],
            x[2:, inner, inner],
            x[inner, :-2, inner],
            x[inner, 2:, inner],
            x[inner, inner, :-2],
            x[inner, inner, 2:],
        )
        return jnp.pad(sum(along), 1)

    def filter_image(x, weights):
        total = jax.lax.conv_general_dilated(x[None, None], weights[None, None], (1, 1), "VALID")[0, 0]
        return jnp.pad(total, ((0, 4), (0, 4)))

    add("stencil_f32", stencil, read(inputs, "cells", np.float32))
    add("filter_f32", filter_image, read(inputs, "image", np.float32), read(inputs, "weights", np.float32))
    add("product_f32", jnp.matmul, read(inputs, "left", np.float32), read(inputs, "right", np.float32))
    add("softmax_f32", jax.nn.softmax, read(inputs, "rows", np.float32)[:, :512])
    add("row_sums_f64", lambda x: x.sum(1), read(inputs, "rows", np.float64))
    add("running_f32", lambda x: jnp.cumsum(x, 1), read(inputs, "rows", np.float32))
    add("lengths_f32", lambda x: jnp.sqrt((x * x).sum(1)), read(inputs, "vectors", np.float32))
    x, first = read(inputs, "x", np.float32), read(inputs, "first", np.int32)
    add("bins_f32", lambda x, first: jnp.zeros(1 << 16, jnp.float32).at[first].add(x), x[: first.size], first)
    add("pairs_f32", lambda x: (1 / (1 + (x[:, None] - x) ** 2)).sum(0), x[:2048])
    add("interpolate_f32", interpolate, read(inputs, "curve", np.float32), read(inputs, "at", np.float32))
    return works
