"""Where frames of a GUI go: a window of tkinter or pygame, the output of a notebook's cell, or an animation in a file.

All of them have `show`, which takes pixels as (height, width, 3) bytes, `poll`, which returns the events since its last call, `is_open`,
`cursor`, the place of the mouse with both coordinates from 0 to 1, and `close`.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Any, NamedTuple

import numpy as np

from .._base.errors import QuadrantsRuntimeError
from . import images
from .extras import in_notebook, need

_MODIFIERS = ("Shift", "Alt", "Control")
_PYGAME_KEYS = {
    "escape": "Escape", "return": "Return", "tab": "Tab", "backspace": "BackSpace", "space": " ", "caps lock": "Caps_Lock", "up": "Up",
    "down": "Down", "left": "Left", "right": "Right", "left shift": "Shift", "right shift": "Shift", "left alt": "Alt",
    "right alt": "Alt", "left ctrl": "Control", "right ctrl": "Control",
}  # fmt: skip
_BUTTONS = {1: "LMB", 2: "MMB", 3: "RMB"}


class Event(NamedTuple):
    """Something that the user of a window did."""

    type: str
    """`GUI.PRESS`, `GUI.RELEASE` or `GUI.MOTION`."""
    key: str
    """A letter or digit, or a name such as `GUI.ESCAPE`, `GUI.LMB`, `GUI.MOVE`, `GUI.WHEEL`."""
    pos: tuple[float, float] = (0.0, 0.0)
    """Place of the mouse, from (0, 0) at the lower left to (1, 1)."""
    delta: tuple[float, float] = (0.0, 0.0)
    """Turns of the wheel, to the right and up."""
    modifier: tuple[str, ...] = ()
    """Modifier keys that are pressed."""


def say(text: str) -> None:
    """Writes a line for the user of a program, who need not have called qd.init yet."""
    print(f"[quadrants] {text}", file=sys.stderr)


def file_name(title: str) -> str:
    """Returns the title of a window as a name for files."""
    return re.sub(r"[^\w]+", "_", title.lower()).strip("_") or "window"


class Window:
    """The part that windows share: the events that wait, and the modifier keys that are pressed."""

    left: int | None = None  # frames until the window closes by itself

    def __init__(self, width: int, height: int):
        self.width, self.height, self.is_open, self.cursor = width, height, True, (0.0, 0.0)
        self._events: list[Event] = []
        self._modifiers: set[str] = set()

    def _add(self, kind: str, key: str, place: tuple[int, int] | None = None, delta: tuple[float, float] = (0.0, 0.0)) -> None:
        if place is not None:
            self.cursor = ((place[0] + 0.5) / self.width, 1.0 - (place[1] + 0.5) / self.height)
        if key in _MODIFIERS:
            (self._modifiers.add if kind == "Press" else self._modifiers.discard)(key)
        self._events.append(Event(kind, key, self.cursor, delta, tuple(sorted(self._modifiers))))

    def _end(self) -> None:
        self._add("Press", "WMClose")
        self.is_open = False

    def _update(self) -> None:
        """Collects events with `_add`."""

    def poll(self) -> list[Event]:
        if self.is_open:
            self._update()
        found, self._events = self._events, []
        return found

    def show(self, pixels: np.ndarray) -> None:
        raise NotImplementedError

    def count(self) -> None:
        """Counts a frame; the last one closes the window."""
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                self.close()

    def close(self) -> None:
        self.is_open = False


class TkWindow(Window):
    """A window of tkinter."""

    def __init__(self, title: str, width: int, height: int, is_fullscreen: bool):
        super().__init__(width, height)
        self._tkinter = importlib.import_module("tkinter")
        self._root = self._tkinter.Tk()
        self._root.title(title)
        self._root.attributes("-fullscreen", is_fullscreen)
        self._root.resizable(False, False)
        self._label = self._tkinter.Label(self._root, borderwidth=0, width=width, height=height)
        self._label.pack()
        for name, kind in (("<KeyPress>", "Press"), ("<KeyRelease>", "Release")):
            self._root.bind(name, lambda event, kind=kind: self._add(kind, self._name_key(event.keysym)))
        for name, kind in (("<ButtonPress>", "Press"), ("<ButtonRelease>", "Release")):
            self._label.bind(name, lambda event, kind=kind: self._add_button(kind, event))
        self._label.bind("<Motion>", lambda event: self._add("Motion", "Motion", (event.x, event.y)))
        self._root.bind("<MouseWheel>", lambda event: self._add("Motion", "Wheel", None, (0.0, event.delta / 120)))
        self._root.protocol("WM_DELETE_WINDOW", self._end)

    def _name_key(self, name: str) -> str:
        name = name.removesuffix("_L").removesuffix("_R")
        return " " if name == "space" else name.lower() if len(name) == 1 else name

    def _add_button(self, kind: str, event: Any) -> None:
        place = (event.x, event.y)
        if event.num in (4, 5):  # X11 has buttons for the wheel
            if kind == "Press":
                self._add("Motion", "Wheel", place, (0.0, 1.0 if event.num == 4 else -1.0))
        elif event.num in _BUTTONS:
            self._add(kind, _BUTTONS[event.num], place)

    def _update(self) -> None:
        self._root.update()
        if not self.is_open:
            self._root.destroy()

    def show(self, pixels: np.ndarray) -> None:
        header = f"P6 {self.width} {self.height} 255 ".encode()
        self._picture = self._tkinter.PhotoImage(data=header + pixels.tobytes(), format="PPM")  # tkinter holds no reference
        self._label.configure(image=self._picture)
        self._update()

    def close(self) -> None:
        if self.is_open:
            self._root.destroy()
        super().close()


class PygameWindow(Window):
    """A window of pygame."""

    def __init__(self, title: str, width: int, height: int, is_fullscreen: bool):
        super().__init__(width, height)
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self._pygame = importlib.import_module("pygame")
        self._pygame.display.init()
        if "SDL_VIDEODRIVER" not in os.environ and self._pygame.display.get_driver() in ("dummy", "offscreen"):
            raise RuntimeError("pygame finds no display")  # it would show the frames to no one
        self._screen = self._pygame.display.set_mode((width, height), self._pygame.FULLSCREEN if is_fullscreen else 0)
        self._pygame.display.set_caption(title)

    def _update(self) -> None:
        game = self._pygame
        kinds = {game.KEYDOWN: "Press", game.KEYUP: "Release", game.MOUSEBUTTONDOWN: "Press", game.MOUSEBUTTONUP: "Release"}
        for event in game.event.get():
            if event.type == game.QUIT:
                self._end()
            elif event.type in (game.KEYDOWN, game.KEYUP):
                name = game.key.name(event.key)
                self._add(kinds[event.type], _PYGAME_KEYS.get(name) or name)
            elif event.type in kinds and event.button in _BUTTONS:
                self._add(kinds[event.type], _BUTTONS[event.button], event.pos)
            elif event.type == game.MOUSEMOTION:
                self._add("Motion", "Motion", event.pos)
            elif event.type == game.MOUSEWHEEL:
                self._add("Motion", "Wheel", None, (float(event.x), float(event.y)))
        if not self.is_open:
            game.display.quit()

    def show(self, pixels: np.ndarray) -> None:
        self._pygame.surfarray.blit_array(self._screen, pixels.swapaxes(0, 1))
        self._pygame.display.flip()

    def close(self) -> None:
        if self.is_open:
            self._pygame.display.quit()
        super().close()


def _read_frames(otherwise: int | None) -> int | None:
    """Returns the number of frames that QD_GUI_FRAMES sets."""
    text = os.environ.get("QD_GUI_FRAMES", "")
    if text and (not text.isdigit() or int(text) == 0):
        raise ValueError(f"QD_GUI_FRAMES is a number of frames, at least 1, got {text!r}")
    return int(text) if text else otherwise


class Cell(Window):
    """The output of a notebook's cell: each frame replaces the one before. It is open until the user interrupts the cell."""

    def __init__(self, title: str, width: int, height: int):
        super().__init__(width, height)
        self.left = _read_frames(None)
        self._handle: Any = None

    def show(self, pixels: np.ndarray) -> None:
        picture = images.Picture(images.to_png(pixels[::-1].swapaxes(0, 1)))
        if self._handle is None:
            self._handle = need("IPython.display", "a notebook").display(picture, display_id=True)
        else:
            self._handle.update(picture)


class Animation(Window):
    """Where there is no display: a GIF in the present folder, complete after a number of frames, when the loop over `running` ends."""

    def __init__(self, title: str, width: int, height: int):
        super().__init__(width, height)
        self.left, self._path, self._title = _read_frames(120), f"{file_name(title)}.gif", title
        self._video: images.VideoWriter | None = None

    def show(self, pixels: np.ndarray) -> None:
        if not self.is_open:
            return
        if self._video is None:
            self._video = images.VideoWriter(self._path, 30)
        self._video.write(pixels[::-1].swapaxes(0, 1))

    def close(self) -> None:
        super().close()
        if self._video is not None:
            video, self._video = self._video, None
            video.close()
            say(f"no display: {video.count} frames of {self._title!r} are in {self._path} (QD_GUI_FRAMES sets their number)")


def open_window(title: str, width: int, height: int, is_fullscreen: bool) -> Window:
    """Opens a window if there is a display and a package for windows; else frames go to the notebook's cell or to a file.

    The variable QD_GUI chooses instead: tkinter, pygame, notebook or file.
    """
    wanted = os.environ.get("QD_GUI", "")
    if wanted not in ("", "tkinter", "pygame", "notebook", "file"):
        raise ValueError(f"QD_GUI is tkinter, pygame, notebook or file, got {wanted!r}")
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if wanted == "notebook" or (not wanted and in_notebook()):
        return Cell(title, width, height)
    for name, kind in (("tkinter", TkWindow), ("pygame", PygameWindow)):
        if wanted == name or (not wanted and has_display):
            try:
                return kind(title, width, height, is_fullscreen)
            except Exception as error:  # neither package says in one way that it has no display
                if wanted:
                    raise QuadrantsRuntimeError(
                        f"QD_GUI={name} opens no window here: {error}. Install tkinter (python3-tk in Debian) or pygame and set DISPLAY,"
                        " or unset QD_GUI, and frames go to a file"
                    ) from None
    return Animation(title, width, height)
