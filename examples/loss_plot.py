"""A plot of the loss, for the examples that optimize."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT, MARGIN = 640, 400, 50


def save_loss_plot(losses: list[float], path: Path, title: str) -> None:
    """Draws the losses over the iterations; on a logarithmic axis if all are positive."""
    values = np.asarray(losses)
    is_logarithmic = bool((values > 0).all())
    heights = np.log10(values) if is_logarithmic else values
    low, high = float(heights.min()), float(heights.max())
    x = np.linspace(MARGIN, WIDTH - MARGIN, len(values))
    y = HEIGHT - MARGIN - (heights - low) / max(high - low, 1e-12) * (HEIGHT - 2 * MARGIN)
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle([MARGIN, MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN], outline="lightgray")
    draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), fill="darkblue", width=2)
    for height, place in ((high, MARGIN), (low, HEIGHT - MARGIN)):
        draw.text((4, place - 6), f"{10**height if is_logarithmic else height:.1e}", fill="black")
    draw.text((MARGIN, 16), f"{title}: {len(values)} iterations", fill="black")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
