"""Sharpens a blurred photograph with torch: the blur is a kernel with a gradient, and an optimizer of torch changes the picture.

The loss is the distance between the blurred guess and the blurred photograph, and the total variation of the guess (L. I. Rudin, S. Osher
and E. Fatemi, "Nonlinear total variation based noise removal algorithms", Physica D 60, 1992), also a kernel. Needs torch.

    python examples/deblur.py --out out/deblur.png
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from skimage import data

import quadrants as qd

REACH = 4  # pixels to each side
WEIGHTS = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / 1.8) ** 2)
WEIGHTS /= WEIGHTS.sum()


def blur_along(axis: int) -> qd.ad.torch_op:
    """Returns an operator that convolves a picture along an axis with the weights; the border is repeated."""

    @qd.ad.torch_op(outputs="out")
    @qd.kernel
    def blur(picture: qd.types.NDArray[qd.f32, 2], out: qd.types.NDArray[qd.f32, 2]):
        for i, j in out:
            total = 0.0
            for k in qd.static(range(-REACH, REACH + 1)):
                row, column = (i + k, j) if qd.static(axis == 0) else (i, j + k)
                row, column = qd.math.clamp(row, 0, out.shape[0] - 1), qd.math.clamp(column, 0, out.shape[1] - 1)
                total += qd.static(WEIGHTS[k + REACH]) * picture[row, column]
            out[i, j] = total

    return blur


@qd.ad.torch_op(outputs={"total": lambda picture: picture.new_empty(())})
@qd.kernel
def total_variation(picture: qd.types.NDArray[qd.f32, 2], total: qd.types.NDArray[qd.f32, 0]):
    for i, j in qd.ndrange(picture.shape[0] - 1, picture.shape[1] - 1):
        down, right = picture[i + 1, j] - picture[i, j], picture[i, j + 1] - picture[i, j]
        total[None] += qd.sqrt(down * down + right * right + 1e-6)


blur_rows, blur_columns = blur_along(0), blur_along(1)


def blur(picture: torch.Tensor) -> torch.Tensor:
    """Returns the blurred picture."""
    return blur_columns(blur_rows(picture))


def sharpen(blurred: torch.Tensor, iterations: int) -> torch.Tensor:
    """Returns a picture whose blurred form is the given one."""
    guess = blurred.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([guess], lr=0.02)
    for _ in range(iterations):
        optimizer.zero_grad()
        loss = (blur(guess) - blurred).square().sum() + 2e-4 * total_variation(guess)
        loss.backward()
        optimizer.step()
    return guess.detach().clamp(0, 1)


def main() -> None:
    """Blurs a photograph, and sharpens it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/deblur.png"), help="picture to write: the blurred photograph, and the result")
    parser.add_argument("--iterations", type=int, default=200)
    options = parser.parse_args()
    qd.init(arch=qd.cpu)
    photo = torch.from_numpy(data.camera()[40:296, 100:356].astype(np.float32) / 255)
    blurred = blur(photo)
    found = sharpen(blurred, options.iterations)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.uint8(255 * torch.cat([blurred, found], 1).numpy())).save(options.out)
    errors = [float((each - photo).square().mean().sqrt()) for each in (blurred, found)]
    print(f"distance to the photograph: blurred {errors[0]:.4f}, sharpened {errors[1]:.4f}")


if __name__ == "__main__":
    main()
