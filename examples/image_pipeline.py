"""An edge-preserving filter and a contrast curve on a photograph.

A bilateral filter (Tomasi and Manduchi, "Bilateral Filtering for Gray and Color Images", ICCV 1998) removes noise and preserves edges;
histogram equalization then spreads the luminance over the whole range.

    python examples/image_pipeline.py --out out/image.png
"""

import argparse
import math
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import quadrants as qd

Plane = qd.types.ndarray(dtype=qd.f32, ndim=2)


@qd.kernel
def bilateral_filter(source: Plane, target: Plane, radius: qd.i32, sigma_range: qd.f32, sigma_space: qd.f32):
    """target = source, each pixel averaged over a square window with weights that decrease with distance and difference in value."""
    rows, columns = source.shape[0], source.shape[1]
    for i, j in target:
        center = source[i, j]
        total, weights = 0.0, 0.0
        for di in range(-radius, radius + 1):
            for dj in range(-radius, radius + 1):
                value = source[qd.max(0, qd.min(rows - 1, i + di)), qd.max(0, qd.min(columns - 1, j + dj))]
                distance = qd.cast(di * di + dj * dj, qd.f32) / (sigma_space * sigma_space)
                difference = (value - center) / sigma_range
                weight = qd.exp(-0.5 * (distance + difference * difference))
                total += weight * value
                weights += weight
        target[i, j] = total / weights


@qd.kernel
def count_levels(image: Plane, histogram: qd.types.ndarray(dtype=qd.i32, ndim=1)):
    """Counts the pixels of an image in [0, 1] for each level."""
    levels = histogram.shape[0]
    for i, j in image:
        level = qd.min(levels - 1, qd.cast(image[i, j] * levels, qd.i32))
        qd.atomic_add(histogram[level], 1)


@qd.kernel
def apply_curve(image: Plane, curve: qd.types.ndarray(dtype=qd.f32, ndim=1)):
    """Maps each value by the curve, with linear interpolation between the centers of the levels."""
    levels = curve.shape[0]
    for i, j in image:
        place = qd.max(0.0, qd.min(levels - 1.0, image[i, j] * levels - 0.5))
        low = qd.min(levels - 2, qd.cast(place, qd.i32))
        fraction = place - low
        image[i, j] = curve[low] * (1.0 - fraction) + curve[low + 1] * fraction


def denoise(image: np.ndarray, radius: int, sigma_range: float, sigma_space: float) -> np.ndarray:
    """The bilateral filter of a float32 image (rows, columns) in [0, 1]; sigma_space in pixels."""
    result = np.empty_like(image)
    bilateral_filter(image, result, radius, sigma_range, sigma_space)
    return result


def equalize(image: np.ndarray, levels: int = 256) -> np.ndarray:
    """Histogram equalization of a float32 image (rows, columns) in [0, 1]."""
    histogram = np.zeros(levels, np.int32)
    count_levels(image, histogram)
    curve = (np.cumsum(histogram) / image.size).astype(np.float32)
    result = image.copy()
    apply_curve(result, curve)
    return result


def process(photo: np.ndarray, radius: int = 5) -> np.ndarray:
    """The whole pipeline on an RGB photograph, uint8 (rows, columns, 3)."""
    color = photo.astype(np.float32) / 255.0
    planes = [np.ascontiguousarray(color[..., channel]) for channel in range(3)]
    smooth = np.stack([denoise(plane, radius, 0.08, radius / 2) for plane in tqdm(planes, desc="filtering", unit="plane")], axis=-1)
    luminance = np.ascontiguousarray(smooth @ np.array([0.2126, 0.7152, 0.0722], np.float32))
    gain = equalize(luminance) / np.maximum(luminance, 1e-3)
    return (np.clip(smooth * gain[..., None], 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photo", type=Path, help="an image file; without it, a photograph of a cup of coffee")
    parser.add_argument("--out", type=Path, default=Path("out/image.png"))
    parser.add_argument("--radius", type=int, default=5, help="half the width of the filter's window, in pixels")
    args = parser.parse_args()
    qd.init(arch=qd.cpu, log_level="error")
    if args.photo:
        photo = np.asarray(Image.open(args.photo).convert("RGB"))
    else:
        from skimage.data import coffee

        photo = coffee()
    result = process(photo, args.radius)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate([photo, result], axis=1)).save(args.out)
    print(f"wrote {args.out}: the photograph and the result, {math.prod(photo.shape[:2]) / 1e6:.2f} million pixels each")


if __name__ == "__main__":
    main()
