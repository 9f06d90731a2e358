"""Statements, loops, functions and values."""

import numpy as np

import quadrants as qd

from .recording import Launches


def integer_and_real_arithmetic() -> Launches:
    @qd.kernel
    def mix(a: qd.i32, b: qd.i64, c: qd.u8, x: qd.f32, y: qd.f64) -> qd.f64:
        whole = a // 3 + a % 5 - (b << 2) + (c >> 1) + (a & 7 | 8 ^ a) + ~a
        real = x / a + y**2 + x**y + abs(x) + max(x, y) - min(a, c)
        return whole + real + qd.f64(a > b) + qd.cast(y, qd.i32) + qd.bit_cast(x, qd.i32)

    yield mix, 1, 2, 3, 4.0, 5.0


def mathematical_functions() -> Launches:
    x = qd.field(qd.f32, 100)

    @qd.kernel
    def apply() -> None:
        for i in x:
            r = x[i]
            x[i] = qd.sin(r) + qd.exp(qd.log(r) ** 2) + qd.tan(r) + qd.atan2(r, 2.0) + qd.sqrt(r) + qd.rsqrt(r)
            x[i] += qd.floor(r) + qd.ceil(r) + qd.round(r) + qd.tanh(r) + qd.acos(r) + qd.asin(r) + qd.erf(r)

    yield (apply,)


def comparisons_and_selection() -> Launches:
    @qd.kernel
    def choose(a: qd.i32, b: qd.f32) -> qd.f32:
        result = b if 0 < a <= 10 and b != 3 else -b
        if not (a or b > 2):
            result = qd.select(a > 3, b, 1.0)
        return result

    yield choose, 1, 2.0


def random_numbers() -> Launches:
    x = qd.field(qd.f32, (20, 30))

    @qd.kernel
    def fill() -> None:
        for i, j in x:
            x[i, j] = qd.random() + qd.randn() + qd.f32(qd.random(qd.f64)) + qd.random(qd.i32) % 7

    yield (fill,)


def branches_and_loops_with_exits() -> Launches:
    x = qd.field(qd.i64, 100)

    @qd.func
    def collatz(n: qd.i64) -> qd.i32:
        steps = 0
        while n > 1:
            if steps > 1000:
                break
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    @qd.kernel
    def count() -> None:
        for i in x:
            if i % 3 == 0:
                continue
            for j in range(i):
                x[i] += collatz(i + j)

    yield (count,)


def loops_of_every_kind() -> Launches:
    image = qd.field(qd.f32, shape=(4, 6))
    other = qd.field(qd.f32, shape=(4, 6))

    @qd.kernel
    def paint(n: qd.i32) -> None:
        for row, column in image:
            image[row, column] = 1.0
        for row, column in qd.ndrange((1, 3), (1, 5)):
            image[row, column] += 1.0
        for index in qd.grouped(image):
            image[index] *= index.sum()
        for i in range(n, 0, -2):
            image[0, i] = i
        for row, column in qd.zip(image, other):
            image[row, column] += other[row, column]
        for k in qd.static(range(3)):
            image[k, k] = k

    yield paint, 5


def serial_statements_and_returns() -> Launches:
    x = qd.field(qd.i32, 10)

    @qd.kernel
    def run(n: qd.i32) -> qd.i32:
        if n < 0:
            return -1
        for i in range(n):
            x[i] = i
        bound = x[3]
        for i in range(bound):
            x[i] += 1
        return x[0] + x[1]

    yield run, 5


def serialized_loops() -> Launches:
    x = qd.field(qd.f32, (100, 8))

    @qd.kernel
    def sweep(steps: qd.i32) -> qd.f64:
        value = qd.f64(0.25)
        qd.loop_config(serialize=True)
        for _ in range(steps):
            value = 3.5 * value * (1.0 - value)
        qd.loop_config(serialize=True)
        for i, k in qd.ndrange(100, 8):
            x[i, k] = 0.5 * x[i, k] + k
        return value

    yield sweep, 10


def vectors_and_matrices() -> Launches:
    @qd.kernel
    def solve(angle: qd.f32) -> qd.types.vector(2, qd.f32):
        matrix = qd.Matrix([[2.0, 1.0], [1.0, qd.cos(angle)]])
        v = matrix.inverse() @ qd.Vector([3.0, 5.0])
        w = qd.Vector([v.y, v.x, 1.0]).cross(qd.Vector([1.0, 2.0, 3.0])).normalized()
        matrix[0, 1] = w.dot(w) + matrix.determinant() + matrix.trace() + v.norm()
        return (matrix.transpose() @ v).xy * w.max()

    yield solve, 0.5


def matrix_arguments() -> Launches:
    x = qd.field(qd.f32, 40)

    @qd.kernel
    def diagonal(a: qd.types.matrix(12, 12, qd.f32)) -> None:
        for i in range(12):
            x[i] = a[i, i]

    yield diagonal, qd.Matrix([[1.0] * 12] * 12)


def decompositions() -> Launches:
    matrices = qd.Matrix.field(3, 3, qd.f32, 16)

    @qd.kernel
    def decompose() -> None:
        for i in matrices:
            u, s, v = qd.svd(matrices[i])
            r, p = qd.polar_decompose(matrices[i])
            values, vectors = qd.sym_eig(p)
            matrices[i] = u @ s @ v.transpose() + r + vectors * values[0]

    yield (decompose,)


def structs_with_methods() -> Launches:
    @qd.dataclass
    class Ball:
        height: qd.f32
        speed: qd.f32

        @qd.func
        def fall(self, dt):
            self.speed -= 9.81 * dt
            self.height += self.speed * dt

    @qd.kernel
    def drop(steps: qd.i32) -> qd.f32:
        ball = Ball(height=10.0, speed=0.0)
        qd.loop_config(serialize=True)
        for _ in range(steps):
            ball.fall(0.01)
        return ball.height

    yield drop, 100


def functions_with_templates() -> Launches:
    @qd.func
    def square(x):
        return x * x

    @qd.func
    def integrate(f: qd.template(), steps):
        total = 0.0
        for i in range(steps):
            total += f((i + 0.5) / steps)
        return total / steps

    @qd.func
    def swap(a: qd.template(), b: qd.template()):
        a, b = b, a

    @qd.kernel
    def area(n: qd.i32) -> qd.f32:
        a, b = integrate(square, n), integrate(lambda x: x + n, 10)
        swap(a, b)
        return a - b

    yield area, 1000


def compiled_functions_that_recur() -> Launches:
    @qd.real_func
    def fibonacci(n: qd.i32) -> qd.i32:
        if n < 2:
            return n
        return fibonacci(n - 1) + fibonacci(n - 2)

    @qd.real_func
    def divide(a: qd.i32, b: qd.i32, rest: qd.types.ref(qd.i32)) -> qd.i32:
        rest = a % b
        return a // b

    @qd.kernel
    def numbers() -> qd.i32:
        rest = 0
        quotient = divide(17, 5, rest)
        return fibonacci(10) * 100 + quotient * 10 + rest

    yield (numbers,)


def compile_time_python() -> Launches:
    taps = [0.25, 0.5, 0.25]

    @qd.kernel
    def smooth(signal: qd.types.NDArray[qd.f32, 1], out: qd.types.NDArray[qd.f32, 1], clamp: qd.template()) -> None:
        for i in range(1, signal.shape[0] - 1):
            total = 0.0
            for k, tap in qd.static(enumerate(taps)):
                total += tap * signal[i + k - 1]
            if qd.static(clamp):
                total = min(total, 1.0)
            out[i] = total

    signal = np.zeros(5, np.float32)
    yield smooth, signal, np.zeros_like(signal), False
    yield smooth, signal, np.zeros_like(signal), True


def lists_and_comprehensions() -> Launches:
    @qd.kernel
    def polynomial(x: qd.f32, n: qd.i32) -> qd.f32:
        powers = [x**k for k in range(6) if k in {0, 2, 5}]
        counts = [0, 0]
        for i in range(10):
            if i > n:
                counts[1] += i
        return sum(map(lambda weight, power: weight * power, (1.0, -3.0, 0.5), powers)) + counts[1]

    yield polynomial, 2.0, 3


def patterns() -> Launches:
    @qd.kernel
    def describe(n: qd.i32) -> qd.i32:
        result = 0
        match n % 4:
            case 0 | 2:
                result = n * 10
            case 1 if n > 4:
                result = n * 100
            case other:
                result = -other
        return result

    yield describe, 2


def objects_made_in_kernels() -> Launches:
    @qd.data_oriented
    class Ray:
        def __init__(self, origin, direction):
            self.origin, self.direction = origin, direction

        @qd.func
        def at(self, t):
            return self.origin + t * self.direction

    @qd.kernel
    def travel(t: qd.f32) -> qd.f32:
        rays = [Ray(qd.Vector([0.0, t]), qd.Vector([1.0, 2.0])), Ray(qd.Vector([t, t]), qd.Vector([0.5, 0.5]))]
        total = 0.0
        for ray in qd.static(rays):
            total += ray.at(t).sum()
        return total

    yield travel, 2.0


def many_results() -> Launches:
    @qd.kernel
    def count(x: qd.types.NDArray[qd.f32, 1]) -> (qd.i32, qd.types.vector(2, qd.f64), qd.u1):
        negative = 0
        for i in x:
            if x[i] < 0:
                negative += 1
        return negative, qd.Vector([1.0, 2.0], qd.f64), negative > 2

    yield count, np.zeros(4, np.float32)


def half_precision() -> Launches:
    x, y = qd.field(qd.f16, 32), qd.field(qd.f16, 32)

    @qd.kernel
    def scale(a: qd.f16) -> None:
        for i in x:
            y[i] = a * x[i] + qd.sqrt(y[i])

    yield scale, 0.5
