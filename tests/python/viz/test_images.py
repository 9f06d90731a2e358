"""Images and animations as files: `qd.tools.imread`, `imwrite`, `imresize`, `show`, `VideoWriter`."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def test_first_axis_points_right_and_second_axis_up():
    image = np.zeros((3, 2), np.uint8)
    image[2, 0] = 255  # the last column of the lowest row
    qd.tools.imwrite(image, "a.png")
    assert np.asarray(Image.open("a.png")).tolist() == [[0, 0, 0], [0, 0, 255]]
    assert np.array_equal(qd.tools.imread("a.png"), image)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0.0, 0.5, 1.0, 2.0, -1.0, np.nan]], np.float32), [0, 128, 255, 255, 0, 0]),
        (np.array([[0, 1 << 15, 65535]], np.uint16), [0, 128, 255]),
        (np.array([[0, 1 << 31, 2**32 - 1]], np.uint32), [0, 128, 255]),
        (np.array([[False, True]]), [0, 255]),
    ],
)
def test_numbers_become_bytes_over_their_whole_range(values, expected):
    qd.tools.imwrite(values, "a.png")
    assert qd.tools.imread("a.png").ravel().tolist() == expected


def test_containers_are_images():
    colors = qd.Vector.field(3, qd.f32, shape=(4, 5))
    colors.fill([1.0, 0.0, 0.5])
    qd.tools.imwrite(colors, "a.png")
    assert qd.tools.imread("a.png").shape == (4, 5, 3) and qd.tools.imread("a.png")[3, 4].tolist() == [255, 0, 128]
    assert qd.tools.imread("a.png", channels=1).shape == (4, 5) and qd.tools.imread("a.png", 4)[0, 0].tolist() == [255, 0, 128, 255]
    qd.tools.imwrite(qd.tensor(qd.u8, (2, 3)), "b.png")
    assert qd.tools.imread("b.png").shape == (2, 3)


@pytest.mark.parametrize(("channels", "expected"), [(1, [9, 9, 9]), (2, [9, 9, 0]), (3, [9, 9, 9]), (4, [9, 9, 9, 9])])
def test_one_to_four_channels(channels, expected):
    qd.tools.imwrite(np.full((2, 2, channels), 9, np.uint8), "a.png")
    assert np.asarray(Image.open("a.png"))[0, 0].tolist() == expected


@pytest.mark.parametrize(
    ("image", "kind", "text"),
    [
        (np.zeros((2, 2), np.int32), TypeError, r"floats from 0 to 1 or of unsigned integers, got int32: convert it"),
        (np.zeros(4), ValueError, r"has the shape \(width, height\) or .* got \(4,\)"),
        (np.zeros((2, 2, 5)), ValueError, "got \\(2, 2, 5\\)"),
        (np.zeros((0, 2)), ValueError, "at least one pixel"),
    ],
)
def test_what_is_no_image(image, kind, text):
    with pytest.raises(kind, match=text):
        qd.tools.imwrite(image, "a.png")


def test_sizes():
    image = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert qd.tools.imresize(image, 2).tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert qd.tools.imresize(image, 8, 4)[:4, 0].tolist() == [0, 0, 4, 4]
    assert qd.tools.imresize(np.full((5, 7, 3), 200, np.uint8), 3, 20).tolist() == np.full((3, 20, 3), 200).tolist()
    with pytest.raises(ValueError, match="at least one pixel"):
        qd.tools.imresize(image, 0)


def test_files_that_cannot_be_written():
    with pytest.raises(FileNotFoundError, match=r"cannot write 'missing/a.png': .*; give a path in a folder that exists and is writable"):
        qd.tools.imwrite(np.zeros((2, 2)), "missing/a.png")
    with pytest.raises(FileNotFoundError, match="cannot write 'missing/a.gif'"):
        qd.tools.VideoWriter("missing/a.gif")
    with pytest.raises(FileNotFoundError):
        qd.tools.imread("missing.png")
    with pytest.raises(ValueError, match="channels is 0, 1, 3 or 4"):
        qd.tools.imread("missing.png", 2)


@pytest.mark.parametrize("name", ["a", "a.xyz", "a.npy"])
def test_names_that_end_with_no_format_are_refused(name):
    with pytest.raises(ValueError, match=f"the name of an image ends with its format, such as .png, got '{name}'"):
        qd.tools.imwrite(np.zeros((2, 2)), name)
    assert not os.listdir()


def test_what_a_format_cannot_hold_or_is_no_image():
    with pytest.raises(OSError, match="cannot write 'a.jpg': cannot write mode RGBA as JPEG$"):
        qd.tools.imwrite(np.zeros((2, 2, 4)), "a.jpg")
    with open("a.png", "w") as file:
        file.write("no image")
    with pytest.raises(OSError, match="cannot read 'a.png': it is no image of a format that Pillow knows"):
        qd.tools.imread("a.png")
    for shown in (qd.tools.show, qd.tools.imshow, lambda image: qd.tools.imresize(image, 4)):
        for image in (np.zeros(3), np.zeros((2, 2, 2, 2)), np.zeros((0, 2))):
            with pytest.raises(ValueError, match=re.escape(f"got {'the shape ' * (0 in image.shape)}{image.shape}")):
                shown(image)
    with pytest.raises(TypeError, match="interpreted as an integer"):
        qd.tools.imresize(np.zeros((2, 2)), 1.5)


def test_an_animation_that_is_closed_takes_no_frame():
    video = qd.tools.VideoWriter("a.gif")
    video.write(np.zeros((2, 2)))
    video.close()
    with pytest.raises(ValueError, match="the animation 'a.gif' is closed"):
        video.write(np.zeros((2, 2)))


def test_animations():
    frames = np.random.default_rng(1).random((5, 12, 8, 3))
    with qd.tools.VideoWriter("a.gif", fps=10) as video:
        for frame in frames:
            video.write(frame)
        with pytest.raises(ValueError, match="12 x 8 pixels; this one has 8 x 12"):
            video.write(np.zeros((8, 12)))
    made = Image.open("a.gif")
    assert (made.n_frames, made.size, made.info["duration"], made.info["loop"]) == (5, (12, 8), 100, 0)
    qd.tools.VideoWriter("none.gif").close()
    assert not os.path.exists("none.gif")
    with pytest.raises(ValueError, match="fps is a positive number"):
        qd.tools.VideoWriter("a.gif", fps=0)


def test_videos():
    pytest.importorskip("imageio_ffmpeg")
    with qd.tools.VideoWriter("a.mp4", fps=10) as video:
        for level in range(5):
            video.write(np.full((32, 16), level / 5, np.float32))
    assert os.path.getsize("a.mp4") > 500


def test_pictures_of_notebooks():
    values = qd.field(qd.i32, shape=(3, 2))
    values.from_numpy(np.array([[-5, 0], [0, 0], [0, 5]]))
    shown = qd.tools.show(values, size=6)
    assert shown._repr_png_().startswith(b"\x89PNG")
    assert re.fullmatch(
        r"<picture, \d+ bytes: a notebook shows it; \.save\(.*\) writes a file, qd.tools.imshow opens a window>", repr(shown)
    )
    shown.save("a.png")
    pixels = qd.tools.imread("a.png")
    assert pixels.shape == (6, 4) and (pixels[0, 0], pixels[2, 2], pixels[5, 3]) == (0, 128, 255)
    plain = qd.tools.show(np.array([[0.25]]), size=1)
    plain.save("b.png")
    assert qd.tools.imread("b.png").tolist() == [[64]]


@pytest.mark.parametrize(
    ("module", "call", "text"),
    [
        (
            "imageio",
            "qd.tools.imwrite(np.zeros((2, 2)), 'a.png')",
            "qd.tools.imwrite needs the package imageio: pip install 'quadrants[viz]'",
        ),
        ("imageio", "qd.tools.imread('a.png')", "qd.tools.imread needs the package imageio"),
        ("PIL", "qd.GUI()", "qd.GUI needs the package Pillow: pip install 'quadrants[viz]'"),
        ("imageio_ffmpeg", "qd.tools.VideoWriter('a.mp4')", "needs the package imageio-ffmpeg: pip install 'quadrants[viz]'"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(module, call, text, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)

    class Blocked:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.split(".")[0] == module:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Blocked, *sys.meta_path])
    with pytest.raises(ModuleNotFoundError) as caught:
        eval(call)
    assert text in str(caught.value)


def test_the_package_loads_no_imaging_library():
    program = "import sys, quadrants as qd; qd.tools; qd.gui; print([n for n in ('PIL', 'imageio', 'tkinter') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
