"""Times sparse matrices and solvers: python bench/solvers.py [--arch cpu] [--cases matrix cg] [--out FILE]

Runs unchanged on Quadrants and on the reference (name its interpreter: path/to/python bench/solvers.py). Beside the figures of both stand
those of SciPy and, with --arch cuda, of CuPy. Each figure is the minimum of several runs. With `--reference path/to/python` both run by
turns, `--rounds` times, in processes of their own; the minima and their ratios are stored.
"""

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--arch", default="cpu")
parser.add_argument("--out")
parser.add_argument("--triplets", type=int, default=10**7)
parser.add_argument("--size", type=int, default=128, help="points along each axis of the Poisson problem")
parser.add_argument("--cases", nargs="+", default=["matrix", "blocks", "factorizations", "cg"], help="which of these")
parser.add_argument("--reference", help="the interpreter of another package, which runs the same by turns")
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args()


def run_by_turns():
    """Runs this file with both interpreters; stores the minima of each, and how often ours goes into the reference's."""
    runs = {"ours": [], "reference": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for kind, interpreter in (("ours", sys.executable), ("reference", options.reference)):
                sizes = ["--triplets", str(options.triplets), "--size", str(options.size)]
                given = [*sizes, "--arch", options.arch, "--cases", *options.cases, "--out", f"{folder}/found"]
                kept = {} if kind == "ours" else {"PYTHONPATH": ""}
                subprocess.run([interpreter, __file__, *given], check=True, env=os.environ | kept)
                with open(f"{folder}/found") as file:
                    runs[kind].append(json.load(file))
    least = {kind: {name: min(run[name] for run in each) for name in each[0]} for kind, each in runs.items()}
    shared = [name for name in least["ours"] if name in least["reference"]]
    return {**least, "ratios": {name: round(least["reference"][name] / least["ours"][name], 2) for name in shared}}


def store(found):
    if options.out:
        with open(options.out, "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")


if options.reference:
    both = {"machine": f"{os.cpu_count()} processors", "command": " ".join(["python", *sys.argv]), **run_by_turns()}
    print(json.dumps(both["ratios"], indent=1))
    store(both)
    sys.exit()
qd = importlib.import_module("quadrants")
qd.init(arch=getattr(qd, options.arch))
figures = {}


def measure(name, run, repeat=3):
    """Stores the minimum of the seconds that `run` takes."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    figures[name] = min(times)
    print(f"{name:40} {min(times):9.4f} s", flush=True)


def bench_matrix():
    """A matrix of finite elements: each of 16 triplets adds to an entry that other elements may share."""
    count, size = options.triplets // 16 * 16, options.triplets // 10

    @qd.kernel
    def fill(builder: qd.types.sparse_matrix_builder()):
        for e in range(count // 16):
            for i, j in qd.static(qd.ndrange(4, 4)):
                builder[(e * 7919 + i * 13) % size, (e * 7919 + j * 13) % size] += 1.0 + i * j

    builder = qd.linalg.SparseMatrixBuilder(size, size, max_num_triplets=count)
    built = []

    def build():
        fill(builder)
        built[:] = [builder.build()]

    measure(f"fill and build, {count} triplets", build, 6)
    x = np.ones(size, np.float32)
    measure("product with a vector", lambda: built[0] @ x)
    try:
        import scipy.sparse
    except ImportError:
        return
    e = np.arange(count // 16, dtype=np.int64)[:, None] * 7919
    rows = ((e + np.repeat(np.arange(4), 4) * 13) % size).astype(np.int32).ravel()
    columns = ((e + np.tile(np.arange(4), 4) * 13) % size).astype(np.int32).ravel()
    values = np.ones(count, np.float32)
    measure("SciPy: coo_matrix(...).tocsr()", lambda: scipy.sparse.coo_matrix((values, (rows, columns)), shape=(size, size)).tocsr())
    matrix = scipy.sparse.coo_matrix((values, (rows, columns)), shape=(size, size)).tocsr()
    measure("SciPy: product with a vector", lambda: matrix @ x)


def bench_blocks():
    """The product of a matrix of 3x3 blocks, the stiffness of springs of a grid of points, and a vector."""
    if not hasattr(qd.linalg, "BlockSparseMatrix"):
        return
    import scipy.sparse

    n = max(options.size // 2, 4)
    one = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    springs = scipy.sparse.kronsum(scipy.sparse.kronsum(one, one), one)
    source = scipy.sparse.kron(springs, np.ones((3, 3))).astype(np.float32).tocsr()
    plain, x = qd.linalg.SparseMatrix.from_scipy(source), qd.ndarray(qd.f32, source.shape[0])
    x.fill(1.0)
    blocks, peer, ones = qd.linalg.BlockSparseMatrix(plain), source.tobsr((3, 3)), np.ones(source.shape[0], np.float32)
    measure(f"product, {source.nnz} entries by rows", lambda: (plain @ x, qd.sync()), 9)
    measure("product, 3x3 blocks", lambda: (blocks @ x, qd.sync()), 9)
    measure("SciPy: product, csr_matrix", lambda: source @ ones, 9)
    measure("SciPy: product, bsr_matrix", lambda: peer @ ones, 9)


def bench_factorizations():
    """A 2-D and a 3-D Poisson problem, by each library that is installed; prints the relative residual, too."""
    if not hasattr(qd.linalg.SparseMatrix, "from_scipy"):
        return
    import scipy.sparse

    for n, axes in ((4 * options.size, 2), (options.size // 3, 3)):
        one = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
        source = functools.reduce(scipy.sparse.kronsum, [one] * axes).tocsr()
        matrix, b = qd.linalg.SparseMatrix.from_scipy(source), qd.ndarray(qd.f64, n**axes)
        b.fill(1.0)
        for engine in ("cudss", "cupy", "cholmod", "superlu"):
            kind = "LU" if engine == "cupy" else "LLT"
            try:
                solver = qd.linalg.SparseSolver(qd.f64, kind, engine=engine)
            except (ImportError, RuntimeError) as problem:
                print(f"{engine}: {problem}")
                continue
            found = []
            measure(f"{engine}: {kind} of a {n}^{axes} Poisson problem", lambda: (solver.compute(matrix), qd.sync()), 2)
            measure(f"{engine}: solution", lambda: (found.append(solver.solve(b)), qd.sync()))
            print(f"{engine}: relative residual {np.linalg.norm(source @ found[0].to_numpy() - 1.0) / n ** (axes / 2):.1e}")


def bench_conjugate_gradients():
    """100 iterations on a 3-D Poisson problem."""
    n = options.size

    @qd.kernel
    def apply(v: qd.template(), product: qd.template()):
        for i, j, k in v:
            total = 6.0 * v[i, j, k]
            if i > 0:
                total -= v[i - 1, j, k]
            if i < n - 1:
                total -= v[i + 1, j, k]
            if j > 0:
                total -= v[i, j - 1, k]
            if j < n - 1:
                total -= v[i, j + 1, k]
            if k > 0:
                total -= v[i, j, k - 1]
            if k < n - 1:
                total -= v[i, j, k + 1]
            product[i, j, k] = total

    b, x = qd.field(qd.f32, (n, n, n)), qd.field(qd.f32, (n, n, n))
    b.from_numpy(np.random.default_rng(0).standard_normal((n, n, n)).astype(np.float32))
    operator = qd.linalg.LinearOperator(apply)
    for method in (qd.linalg.MatrixFreeCG, qd.linalg.MatrixFreeBICGSTAB):

        def solve():
            x.fill(0)
            method(operator, b, x, tol=1e-30, maxiter=100)
            qd.sync()

        measure(f"{method.__name__}, {n}^3, 100 iterations", solve)
    if options.arch == "cuda":
        bench_cupy(n)


def bench_cupy(n):
    """The same with CuPy, whose operator is a stored matrix or shifted slices."""
    import cupy
    import cupyx.scipy.sparse.linalg as peer

    b = cupy.random.default_rng(0).standard_normal((n, n, n), dtype=cupy.float32)

    def apply(v):
        v = v.reshape(n, n, n)
        total = 6.0 * v
        total[1:] -= v[:-1]
        total[:-1] -= v[1:]
        total[:, 1:] -= v[:, :-1]
        total[:, :-1] -= v[:, 1:]
        total[:, :, 1:] -= v[:, :, :-1]
        total[:, :, :-1] -= v[:, :, 1:]
        return total.ravel()

    operator = peer.LinearOperator((n**3, n**3), apply, dtype=cupy.float32)
    run = lambda: (peer.cg(operator, b.ravel(), rtol=1e-30, maxiter=100), cupy.cuda.Device().synchronize())
    measure(f"CuPy: cg, {n}^3, 100 iterations", run)


CASES = {
    "matrix": bench_matrix, "blocks": bench_blocks, "factorizations": bench_factorizations, "cg": bench_conjugate_gradients
}  # fmt: skip
for case in options.cases:
    CASES[case]()
store(figures)
