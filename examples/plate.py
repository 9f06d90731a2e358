"""The temperature of a plate with holes, from the solution of a sparse linear system.

Heat flows in at the left edge, which has the temperature 1, and out at the right one, which has 0; the other edges and the holes insulate.
A kernel writes the five-point stencil of each cell of the plate into a sparse matrix; a Cholesky factorization solves the system.

    python examples/plate.py --out out/plate.png
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import quadrants as qd


@qd.kernel
def assemble(number: qd.types.NDArray[qd.i32, 2], matrix: qd.types.sparse_matrix_builder(), right: qd.types.NDArray[qd.f64, 1]):
    """Writes the balance of each cell: what flows to its neighbors, with a conductance of 1 between two cells, adds up to 0."""
    columns = number.shape[1]
    for i, j in number:
        cell = number[i, j]
        if cell >= 0:
            for di, dj in qd.static(((-1, 0), (1, 0), (0, -1), (0, 1))):
                row, column = i + di, j + dj
                if column < 0 or column >= columns:  # the edges with a temperature are half a cell away
                    matrix[cell, cell] += 2.0
                    if column < 0:
                        right[cell] += 2.0
                elif 0 <= row < number.shape[0]:
                    other = number[row, column]
                    if other >= 0:
                        matrix[cell, cell] += 1.0
                        matrix[cell, other] -= 1.0


def solve(is_plate: np.ndarray) -> np.ndarray:
    """Returns the temperature of each cell; nan outside of the plate. `is_plate` says of each cell whether it belongs to the plate."""
    count = int(is_plate.sum())
    number = np.full(is_plate.shape, -1, np.int32)
    number[is_plate] = np.arange(count)
    right = np.zeros(count)
    builder = qd.linalg.SparseMatrixBuilder(count, count, max_num_triplets=8 * count, dtype=qd.f64)
    assemble(number, builder, right)
    solver = qd.linalg.SparseSolver(qd.f64, solver_type="LLT")
    solver.compute(builder.build())
    temperature = np.full(is_plate.shape, np.nan)
    temperature[is_plate] = solver.solve(right)
    return temperature


def make_plate(rows: int, columns: int) -> np.ndarray:
    """Returns a plate with three rows of round holes."""
    y, x = np.mgrid[0:rows, 0:columns] / rows
    is_plate = np.ones((rows, columns), bool)
    for row in range(3):
        for column in range(5):
            center = (0.2 + 0.3 * row, 0.25 + 0.35 * column + 0.15 * (row % 2))
            is_plate &= np.hypot(y - center[0], x - center[1]) > 0.11
    return is_plate


def draw(temperature: np.ndarray) -> Image.Image:
    """Returns a picture from blue to red, with lines of equal temperature; holes are white."""
    value = np.nan_to_num(temperature)[:, :, None]
    color = (1 - value) * (0.15, 0.25, 0.75) + value * (0.95, 0.35, 0.1) + 0.5 * value * (1 - value)
    color *= np.where(np.abs(value * 20 % 1 - 0.5) > 0.44, 0.8, 1.0)
    color[np.isnan(temperature)] = 1.0
    return Image.fromarray(np.uint8(255 * color.clip(0, 1)))


def main() -> None:
    """Solves and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/plate.png"), help="picture to write")
    parser.add_argument("--rows", type=int, default=200, help="cells from top to bottom; twice as many from left to right")
    options = parser.parse_args()
    qd.init(arch=qd.cpu)
    temperature = solve(make_plate(options.rows, 2 * options.rows))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw(temperature).save(options.out)
    flow = 2 * np.nansum(1 - temperature[:, 0])
    print(f"{np.isfinite(temperature).sum()} unknowns; the holes reduce the flow to {flow / 0.5:.0%} per height of the plate's")


if __name__ == "__main__":
    main()
