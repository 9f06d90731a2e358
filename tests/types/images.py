"""A program with a window, pictures and a video, for type checkers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import quadrants as qd

qd.init(arch=qd.gpu, log_level="error")
pixels = qd.Vector.field(3, dtype=qd.f32, shape=(64, 64))


@qd.func
def shade(distance: Any) -> Any:
    return qd.exp(-distance)


@qd.kernel
def paint(time: float) -> None:
    for i, j in pixels:
        pixels[i, j] = shade((i - 32) ** 2 / 99) * qd.Vector([1.0, qd.sin(time), 0.5])


def record(path: Path, frames: int) -> int:
    with qd.tools.VideoWriter(path, fps=30) as video:
        for frame in range(frames):
            paint(frame / 10)
            video.write(pixels)
        return video.count


def draw() -> None:
    gui = qd.GUI("Shades", res=(64, 64), background_color=0x112233)
    while gui.running and not gui.get_event(gui.ESCAPE):
        paint(0.0)
        gui.set_image(pixels)
        gui.circles(np.random.rand(10, 2), radius=2, color=0xFF0000)
        for event in gui.get_events(qd.GUI.PRESS):
            where: tuple[float, float] = event.pos
            gui.text(event.key, where)
        gui.show()


image: npt.NDArray[np.uint8] = qd.tools.imread("a.png")
qd.tools.imwrite(pixels, "b.png")
mean: float = float(pixels.mean())
lengths = np.sqrt(pixels)
