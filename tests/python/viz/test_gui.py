"""`qd.GUI`: what it draws, its events, and where frames go without a display."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import quadrants as qd
from quadrants._viz import windows
from quadrants.gui import GUI, Event


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QD_GUI", "file")
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def draw(*calls, res=(40, 20)):
    """The image of some calls of methods, as bytes."""
    gui = GUI("t", res, show_gui=False)
    for name, *arguments in calls:
        getattr(gui, name)(*arguments)
    return np.round(gui.get_image() * 255).astype(int)


def colored(image, color=0xFFFFFF):
    return {tuple(map(int, place)) for place in np.argwhere((image == (color >> 16, color >> 8 & 255, color & 255)).all(2))}


def test_discs():
    image = draw(("circle", (0.5, 0.5), 0xFF0000, 3.0))
    rows = colored(image, 0xFF0000)
    assert {(20, 10), (19, 9), (21, 10), (18, 9)} <= rows and (23, 10) not in rows
    covered = image[:, :, 0].sum() / 255
    assert abs(covered - np.pi * 9) < 1.5  # edges are smooth
    assert colored(draw(("circle", (0.0, 0.0), 0xFF, 2.0)), 0xFF) == {(0, 0)}


def test_many_discs_take_radii_and_colors_of_their_own():
    x = qd.Vector.field(2, qd.f32, shape=3)
    x.from_numpy(np.array([[0.1, 0.5], [0.5, 0.5], [2.0, np.nan]], np.float32))
    image = draw(("circles", x, np.array([2.0, 3.0, 1.0]), np.array([0xFF, 0xFF00, 0xFF])))
    assert (4, 10) in colored(image, 0xFF) and (20, 10) in colored(image, 0xFF00)
    image = draw(("circles", x, 2.0, 0, [0xFF, 0xFF0000], [1, 0, 0]))
    assert (4, 10) in colored(image, 0xFF0000) and (20, 10) in colored(image, 0xFF)
    assert (20, 10) in colored(draw(("circles", [(0.5, 0.5)], 9.5)))  # large discs
    assert not draw(("circles", np.zeros((0, 2)))).any()
    with pytest.raises(IndexError, match="palette_indices run from 0 to 2; the palette has 2 colors"):
        draw(("circles", x, 1, 0, [1, 2], [0, 1, 2]))
    with pytest.raises(ValueError, match="3 colors are expected"):
        draw(("circles", x, 1, np.array([1, 2])))
    with pytest.raises(TypeError, match="a color is an integer such as 0xFF8800"):
        draw(("circles", x, 1, 0.5))


def test_lines_and_outlines():
    across = colored(draw(("line", (0.0, 0.5), (1.0, 0.5))))
    assert {column for column, _ in across} == set(range(40)) and len({row for _, row in across}) == 1
    thick = colored(draw(("lines", np.array([[0.0, 0.5]]), np.array([[1.0, 0.5]]), 4)))
    assert len({row for _, row in thick}) == 4
    edges = colored(draw(("rect", (0.25, 0.75), (0.75, 0.25))))
    assert {(10, 4), (30, 4), (10, 14), (30, 14), (20, 4)} <= edges and (20, 10) not in edges


def test_triangles_arrows_and_text():
    inside = colored(draw(("triangle", (0, 0), (1, 0), (0, 1), 0xFF)), 0xFF)
    assert {(1, 1), (10, 10), (30, 1)} <= inside and (30, 15) not in inside
    assert {(0, 9), (20, 9)} <= colored(draw(("arrow", (0.0, 0.5), (0.5, 0.0))))
    assert len(colored(draw(("vector_field", np.ones((10, 10, 2)), 5)))) > 8
    text = draw(("text", "H", (0.0, 1.0), 15, 0xFF0000))
    assert text[:15, 5:, 0].max() > 200 and not text[20:].any()


POINTS = np.full((4, 2), 0.5)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("circles", (np.zeros(10),), r"positions have two components, got an array of shape \(1, 10\)"),
        ("circles", (POINTS, np.ones(3)), r"one radius is expected, or 4, one for each disc, got an array of shape \(3,\)"),
        ("lines", (POINTS, POINTS[:3]), "as many points are expected for each corner, got 4, 3"),
        ("triangles", (POINTS, POINTS, POINTS[1:]), "got 4, 4, 3"),
        ("arrows", (POINTS, POINTS[1:]), "got 4, 3"),
        ("vector_field", (np.zeros((8, 8)),), r"two axes and two components, got an array of shape \(8, 8\)"),
        ("vector_field", (np.zeros((8, 8, 3)),), "two axes and two components"),
    ],
)
def test_points_that_do_not_fit_are_refused(name, arguments, text):
    with pytest.raises(ValueError, match=text):
        draw((name, *arguments))


def test_third_components_are_left_out():
    begins, along = np.array([[0.1, 0.2, 9.0], [0.5, 0.5, 9.0]]), np.array([[0.2, 0.0, 9.0], [0.0, 0.2, 9.0]])
    assert np.array_equal(draw(("arrows", begins, along)), draw(("arrows", begins[:, :2], along[:, :2])))
    assert not draw(("circles", [])).any()


@pytest.mark.parametrize("res", [0, (3, 0), (1, 2, 3), "a", None, ()])
def test_sizes_that_windows_do_not_have(res):
    with pytest.raises(ValueError, match=r"res is a number of pixels, or \(width, height\), got"):
        GUI("t", res, show_gui=False)


def test_images():
    field = qd.field(qd.f32, shape=(40, 20))
    field[39, 0] = 1.0
    assert colored(draw(("set_image", field))) == {(39, 0)}
    with pytest.raises(ValueError, match=r"the window has \(40, 20\) pixels, the image \(2, 3\): make the GUI with res=\(2, 3\)"):
        draw(("set_image", np.zeros((2, 3))))


def test_show_clears_and_writes_files():
    gui = GUI("t", 8, background_color=0x102030, show_gui=False)
    gui.clear(0xFF)
    gui.show("a.png")
    assert np.asarray(Image.open("a.png"))[0, 0].tolist() == [0, 0, 255]
    gui.show("b.png")
    assert np.asarray(Image.open("b.png"))[0, 0].tolist() == [16, 32, 48]
    assert gui.running


def test_without_a_display_the_loop_ends_and_an_animation_is_left(monkeypatch, capsys):
    monkeypatch.setenv("QD_GUI_FRAMES", "4")
    gui, frames = GUI("A b: c", (16, 8)), 0
    while gui.running and not gui.get_event(GUI.ESCAPE):
        gui.line((0, 0), (frames / 4, 1))
        gui.show()
        frames += 1
    assert frames == 4 and Image.open("a_b_c.gif").n_frames == 4
    assert "no display: 4 frames of 'A b: c' are in a_b_c.gif" in capsys.readouterr().err
    gui.show()  # programs with a loop of their own go on
    monkeypatch.setenv("QD_GUI_FRAMES", "few")
    with pytest.raises(ValueError, match="QD_GUI_FRAMES is a number of frames"):
        GUI()


def test_an_animation_is_complete_when_the_program_ends_earlier(tmp_path):
    program = "import quadrants as qd\ngui = qd.GUI('early', 16)\nfor k in range(3): gui.clear(k * 99); gui.show()\n"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert Image.open("early.gif").n_frames == 3


def test_imshow_writes_a_file_without_a_display(capsys):
    qd.tools.imshow(np.eye(3), "The Image")
    assert qd.tools.imread("the_image.png").shape == (3, 3) and "the_image.png" in capsys.readouterr().err


class FakeWindow(windows.Window):
    def show(self, pixels):
        self.shown = pixels


@pytest.fixture
def gui(monkeypatch):
    monkeypatch.setattr("quadrants._viz.gui.open_window", lambda title, width, height, is_fullscreen: FakeWindow(width, height))
    return GUI("t", (100, 50))


def test_events(gui):
    add = gui.window._add
    add("Press", "Shift"), add("Press", "a"), add("Press", "LMB", (24, 49)), add("Release", "a"), add("Motion", "Wheel", None, (0, 1))
    assert gui.get_event((GUI.PRESS, "a")) and gui.event == Event("Press", "a", (0.0, 0.0), (0.0, 0.0), ("Shift",))
    assert gui.get_event(GUI.PRESS) and gui.event.key == GUI.LMB and gui.event.pos == (0.245, pytest.approx(0.01))
    assert gui.is_pressed(GUI.SHIFT, "b") and not gui.is_pressed("a") and gui.get_cursor_pos() == gui.event.pos
    assert [(event.type, event.key) for event in gui.get_events()] == [("Release", "a"), ("Motion", "Wheel")]
    assert not gui.get_event() and gui.event is None
    add("Press", "x")
    assert gui.get_key_event().key == "x"


def test_closing(gui):
    gui.show()
    assert gui.running and gui.window.shown.shape == (50, 100, 3)
    gui.window._end()
    assert not gui.running and gui.get_event(GUI.EXIT)
    with pytest.raises(qd.QuadrantsRuntimeError, match="the window 't' is closed: draw in a loop `while gui.running:`"):
        gui.show()
    with pytest.raises(qd.QuadrantsRuntimeError, match="no window"):
        gui.get_key_event()


def test_running_can_be_ended_by_the_program(gui):
    gui.running = False
    assert not gui.running and not gui.window.is_open


def test_widgets(gui):
    slider, label, key = gui.slider("size", 0, 10, 0.5), gui.label("count"), gui.button("go")
    gui.window._add("Press", "LMB", (50, 10))  # a quarter of 200 pixels
    assert gui.running and slider.value == 2.5
    gui.window._add("Press", "LMB", (50, 49))
    assert gui.get_event(key) and gui.event.type == GUI.PRESS
    label.value = 3
    assert str(label) == "count: 3" and str(gui._widgets[2]) == "[go]"
    gui.show()
    assert gui.window.shown[:, :60].any()
    with pytest.raises(ValueError, match="minimum <= maximum"):
        gui.slider("x", 1, 0)


def test_windows_of_tkinter(monkeypatch):
    calls, bound = [], {}

    class Anything:
        def __init__(self, *arguments, **options):
            calls.append((arguments, options))

        def __getattr__(self, name):
            return lambda *arguments, **options: bound.update([arguments]) if name in ("bind", "protocol") else None

    monkeypatch.setitem(sys.modules, "tkinter", SimpleNamespace(Tk=Anything, Label=Anything, PhotoImage=Anything))
    monkeypatch.setenv("QD_GUI", "tkinter")
    gui = GUI("t", (4, 2))
    for key, name in (("Shift_L", "Shift"), ("space", " "), ("A", "a"), ("Escape", "Escape")):
        bound["<KeyPress>"](SimpleNamespace(keysym=key))
        assert gui.get_event(GUI.PRESS) and gui.event.key == name
    bound["<ButtonPress>"](SimpleNamespace(num=3, x=1, y=0))
    bound["<ButtonPress>"](SimpleNamespace(num=5, x=1, y=0))
    assert [(e.key, e.pos, e.delta) for e in gui.get_events()] == [("RMB", (0.375, 0.75), (0, 0)), ("Wheel", (0.375, 0.75), (0, -1))]
    gui.clear(0x010203)
    gui.show()
    assert calls[-1] == ((), {"data": b"P6 4 2 255 " + bytes([1, 2, 3]) * 8, "format": "PPM"})
    bound["WM_DELETE_WINDOW"]()
    assert not gui.running


def test_windows_of_pygame(monkeypatch):
    game = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("QD_GUI", "pygame")
    gui = GUI("t", (30, 20))
    gui.clear(0x010203)
    gui.show()
    assert gui.window._screen.get_at((3, 3))[:3] == (1, 2, 3)
    list(gui.get_events())
    game.event.post(game.event.Event(game.KEYDOWN, key=game.K_ESCAPE))
    game.event.post(game.event.Event(game.MOUSEBUTTONDOWN, button=1, pos=(0, 19)))
    assert [(event.type, event.key) for event in gui.get_events()] == [("Press", "Escape"), ("Press", "LMB")]
    game.event.post(game.event.Event(game.QUIT))
    assert not gui.running


def test_a_display_that_does_not_answer(monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.setenv("DISPLAY", ":7777")
    assert type(windows.open_window("t", 8, 8, False)) is windows.Animation
    monkeypatch.setenv("QD_GUI", "pygame")
    with pytest.raises(qd.QuadrantsRuntimeError, match="QD_GUI=pygame opens no window here: .* or unset QD_GUI, and frames go to a file"):
        GUI()


def test_a_package_for_windows_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "tkinter", None)
    monkeypatch.setenv("QD_GUI", "tkinter")
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"QD_GUI=tkinter opens no window here: .*tkinter.*Install tkinter \(python3-tk"):
        GUI()


def test_frames_in_a_notebook(monkeypatch):
    display = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr(display, "display", lambda picture, display_id: SimpleNamespace(update=shown.append, first=shown.append(picture)))
    monkeypatch.setenv("QD_GUI", "notebook")
    gui = GUI("t", 8)
    for color in (0xFF, 0xFF00):
        gui.clear(color)
        gui.show()
    assert len(shown) == 2 and all(picture._repr_png_().startswith(b"\x89PNG") for picture in shown)


def test_a_choice_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("QD_GUI", "opengl")
    with pytest.raises(ValueError, match="QD_GUI is tkinter, pygame, notebook or file"):
        GUI()
