"""`qd.GUI`: a window to draw on. Its names and parameters are those of the documented `ti.GUI`."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._base.errors import QuadrantsRuntimeError
from . import images
from .canvas import Canvas, to_rgb
from .extras import in_notebook, need
from .windows import Animation, Event, Window, file_name, open_window, say

_WHITE = 0xFFFFFF


class Widget:
    """A slider, label or button at the upper left of a window. `value` is the number that it shows."""

    def __init__(self, text: str, least: float, most: float, step: float, value: float, event: str | None = None):
        self.text, self.minimum, self.maximum, self.step, self.value, self.event = text, least, most, step, value, event

    def __str__(self) -> str:
        return f"[{self.text}]" if self.event is not None else f"{self.text}: {self.value:g}"

    def move_to(self, share: float) -> None:
        """Set the slider to `share` of its range, rounded to a whole number of steps."""
        if self.maximum > self.minimum:
            steps = round(share * (self.maximum - self.minimum) / self.step)
            self.value = min(self.maximum, self.minimum + steps * self.step)


def _to_pairs(*points: Any) -> list[np.ndarray]:
    """Returns as many positions or directions from each argument, as arrays of shape (n, 2)."""
    made = []
    for values in (np.atleast_2d(images.to_numbers(each).astype(np.float64)) for each in points):
        if values.size and values.shape[-1] not in (2, 3):
            raise ValueError(f"positions have two components, got an array of shape {values.shape}")
        made.append(values.reshape(-1, values.shape[-1])[:, :2] if values.size else np.empty((0, 2)))
    if len({len(each) for each in made}) > 1:
        raise ValueError(f"as many points are expected for each corner, got {', '.join(str(len(each)) for each in made)}")
    return made


class GUI:
    """A window with a canvas; positions go from (0, 0) at the lower left to (1, 1) at the upper right, colors are 0xRRGGBB.

    Without a display, frames go into the output of a notebook's cell, else into a GIF in the present folder, and `running` becomes
    False after QD_GUI_FRAMES frames (120). Positions, colors and images are containers, NumPy arrays, torch tensors or lists.
    """

    SHIFT, ALT, CTRL = "Shift", "Alt", "Control"
    ESCAPE, RETURN, TAB, BACKSPACE, SPACE, CAPSLOCK = "Escape", "Return", "Tab", "BackSpace", " ", "Caps_Lock"
    UP, DOWN, LEFT, RIGHT = "Up", "Down", "Left", "Right"
    LMB, MMB, RMB, EXIT, WHEEL, MOVE = "LMB", "MMB", "RMB", "WMClose", "Wheel", "Motion"
    PRESS, RELEASE, MOTION = "Press", "Release", "Motion"

    def __init__(
        self,
        name: str = "Quadrants",
        res: Any = 512,
        background_color: int = 0x000000,
        show_gui: bool = True,
        fullscreen: bool = False,
        fast_gui: bool = False,
    ):
        """Opens a window.

        Args:
            name: its title, and the name of the GIF.
            res: its width and height in pixels, or one number for both.
            background_color: the color to which `show` clears the canvas, 0xRRGGBB.
            show_gui: False opens no window; `show(file)` writes files.
            fullscreen: whether the window covers the screen.
            fast_gui: accepted for programs that set it; without effect.
        """
        size = np.atleast_1d(res).tolist()
        if len(size) not in (1, 2) or not all(isinstance(each, (int, float)) and each >= 1 for each in size):
            raise ValueError(f"res is a number of pixels, or (width, height), got {res!r}")
        width, height = size[0], size[-1]
        need("PIL.Image", "qd.GUI")
        self.name, self.res, self.background_color = name, (int(width), int(height)), background_color
        self.fps_limit: int | None = 60
        self.event: Event | None = None
        self.window: Window | None = open_window(name, *self.res, fullscreen) if show_gui else None
        self._canvas = Canvas(*self.res, background_color)
        self._waiting: list[Event] = []
        self._pressed: set[str] = set()
        self._widgets: list[Widget] = []
        self._is_running = True
        self._due = 0.0
        if self.window is not None:
            weakref.finalize(self, self.window.close)  # at the latest when Python ends: a GIF is complete then

    def __enter__(self) -> GUI:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the window, or complete the GIF."""
        self._is_running = False
        if self.window is not None and self.window.is_open:
            self.window.close()

    @property
    def running(self) -> bool:
        """Whether the window is open; assigning False closes it. Without a display: whether the GIF needs more frames."""
        self._pump()
        return self._is_running and (self.window is None or self.window.is_open)

    @running.setter
    def running(self, value: bool) -> None:
        if not value:
            self.close()

    # -- drawing

    def _to_places(self, *points: Any) -> list[np.ndarray]:
        return [each * (1, -1) * self.res + (0, self.res[1]) for each in _to_pairs(*points)]

    def clear(self, color: int | None = None) -> None:
        """Set all pixels to `color`, by default to the background color."""
        self._canvas.clear(self.background_color if color is None else color)

    def set_image(self, img: Any) -> None:
        """Copy the image `img` to the canvas: an array of shape `res`, or with 1 to 4 channels as a third axis.

        Its elements are floats from 0 to 1 or unsigned integers. Raises `ValueError` for an image of another size.
        """
        pixels = images.to_bytes(img)
        if pixels.shape[1::-1] != self.res:
            raise ValueError(
                f"the window has {self.res} pixels, the image {pixels.shape[1::-1]}: make the GUI with res={pixels.shape[1::-1]}, or scale"
                f" the image with qd.tools.imresize(img, {self.res[0]}, {self.res[1]})"
            )
        self._canvas.set_pixels(pixels)

    def get_image(self) -> np.ndarray:
        """Return what is drawn, as floats from 0 to 1, of shape (width, height, 3)."""
        return self._canvas.get_pixels()[::-1].swapaxes(0, 1).astype(np.float32) / 255

    def circle(self, pos: Any, color: int = _WHITE, radius: float = 1) -> None:
        """Draw a disc of `color` and `radius` pixels around `pos`."""
        self.circles(pos, radius, color)

    def circles(self, pos: Any, radius: Any = 1, color: Any = _WHITE, palette: Any = None, palette_indices: Any = None) -> None:
        """Draw many discs.

        Args:
            pos: their centers, of shape (n, 2).
            radius: their radius in pixels, or one for each.
            color: their color, or one for each.
            palette: a list of colors, from which `palette_indices` choose.
            palette_indices: for each disc the index of its color, instead of `color`.
        Raises:
            IndexError: an index outside of the palette.
        """
        (centers,) = self._to_places(pos)
        if palette is not None and palette_indices is not None:
            indices, choice = images.to_numbers(palette_indices).ravel(), np.asarray(palette)
            if indices.size and not 0 <= indices.min() <= indices.max() < len(choice):
                raise IndexError(f"palette_indices run from {indices.min()} to {indices.max()}; the palette has {len(choice)} colors")
            color = choice[indices]
        radii = images.to_numbers(radius).astype(np.float64)
        if radii.shape not in ((), (1,), (len(centers),)):
            raise ValueError(f"one radius is expected, or {len(centers)}, one for each disc, got an array of shape {radii.shape}")
        radii = np.broadcast_to(radii, len(centers))
        self._canvas.draw_discs(centers, radii, to_rgb(images.to_numbers(color), len(centers)))

    def line(self, begin: Any, end: Any, radius: float = 1, color: int = _WHITE) -> None:
        """Draw a line of `color` from `begin` to `end`; its width is `radius` pixels."""
        self.lines(begin, end, radius, color)

    def lines(self, begin: Any, end: Any, radius: float = 1, color: Any = _WHITE) -> None:
        """Draw lines from each `begin` to its `end`, of shape (n, 2) both; their width is `radius` pixels, `color` one for all or each."""
        begins, ends = self._to_places(begin, end)
        self._canvas.draw_lines(begins, ends, radius, to_rgb(images.to_numbers(color), len(begins)))

    def arrow(self, orig: Any, direction: Any, radius: float = 1, color: int = _WHITE) -> None:
        """Draw an arrow of `color` from `orig` along `direction`, of a width of `radius` pixels."""
        self.arrows(orig, direction, radius, color)

    def arrows(self, orig: Any, direction: Any, radius: float = 1, color: Any = _WHITE) -> None:
        """Draw arrows from each `orig` along its `direction`, of shape (n, 2) both; `radius` and `color` as for `lines`."""
        begins, along = _to_pairs(orig, direction)
        ends, sides = begins + along, along[:, ::-1] * (-1, 1)
        self.lines(begins, ends, radius, color)
        for side in (sides, -sides):
            self.lines(ends, ends - 0.25 * along + 0.12 * side, radius, color)

    def vector_field(self, vector_field: Any, arrow_spacing: int = 5, color: int = _WHITE) -> None:
        """Draw a 2-D `vector_field` of two components as arrows of `color`, one for `arrow_spacing` elements along each axis.

        Raises `ValueError` for another shape.
        """
        values = images.to_numbers(vector_field)
        if values.ndim != 3 or values.shape[2] != 2:
            raise ValueError(f"a vector field has two axes and two components, got an array of shape {values.shape}")
        values = values[::arrow_spacing, ::arrow_spacing]
        places = (np.indices(values.shape[:2]).reshape(2, -1).T + 0.5) / values.shape[:2]
        longest = np.abs(values).max(initial=1e-30)
        self.arrows(places, values.reshape(-1, 2) / (longest * max(values.shape[:2])), 1, color)

    def triangle(self, a: Any, b: Any, c: Any, color: int = _WHITE) -> None:
        """Fill the triangle with the corners `a`, `b` and `c` with `color`."""
        self.triangles(a, b, c, color)

    def triangles(self, a: Any, b: Any, c: Any, color: Any = _WHITE) -> None:
        """Fill triangles with the corners `a`, `b` and `c`, of shape (n, 2) each; `color` is one for all or each."""
        corners = np.stack(self._to_places(a, b, c), 1)
        self._canvas.draw_polygons(corners, to_rgb(images.to_numbers(color), len(corners)))

    def rect(self, topleft: Any, bottomright: Any, radius: float = 1, color: int = _WHITE) -> None:
        """Draw the outline of the rectangle with the corners `topleft` and `bottomright`; `radius` and `color` as for `line`."""
        (left, top), (right, bottom) = images.to_numbers(topleft).tolist(), images.to_numbers(bottomright).tolist()
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.lines(corners, corners[1:] + corners[:1], radius, color)

    def text(self, content: str, pos: Any, font_size: float = 15, color: int = _WHITE) -> None:
        """Write `content` with its upper left corner at `pos`, in letters of `font_size` pixels and `color`."""
        column, row = self._to_places(pos)[0][0].tolist()
        self._canvas.draw_text(str(content), (column, row), font_size, to_rgb(color, 1)[0])

    def show(self, file: Any = None) -> None:
        """Show what was drawn, and clear the canvas; with `file`, also write it to that file.

        Waits so that there are at most `fps_limit` frames in a second. Raises `QuadrantsRuntimeError` if the user has closed the window.
        """
        if not self.running and not isinstance(self.window, Animation):
            raise QuadrantsRuntimeError(f"the window {self.name!r} is closed: draw in a loop `while gui.running:` to end with it")
        for number, widget in enumerate(self._widgets):
            self._canvas.draw_text(str(widget), (6, 4 + 20 * number), 15, to_rgb(_WHITE, 1)[0])
        pixels = self._canvas.get_pixels()
        if file is not None:
            images.imwrite(pixels[::-1].swapaxes(0, 1), file)
        if self.window is not None:
            if file is None or not isinstance(self.window, Animation):
                self.window.show(pixels)
            self.window.count()
            if not isinstance(self.window, Animation):
                self._wait()
        self.clear()

    def _wait(self) -> None:
        now = time.monotonic()
        if self.fps_limit and now < self._due:
            time.sleep(self._due - now)
        self._due = max(now, self._due) + 1 / (self.fps_limit or 60)

    # -- events

    def _pump(self) -> None:
        for event in [] if self.window is None else self.window.poll():
            if event.type == self.PRESS:
                self._pressed.add(event.key)
            elif event.type == self.RELEASE:
                self._pressed.discard(event.key)
            self._waiting.append(event)
            if (event.type, event.key) == (self.PRESS, self.LMB) or (event.key == self.MOVE and self.LMB in self._pressed):
                self._use_widget(event)

    def _use_widget(self, event: Event) -> None:
        row = int(((1 - event.pos[1]) * self.res[1] - 4) // 20)
        if 0 <= row < len(self._widgets) and event.pos[0] * self.res[0] < 200:
            widget = self._widgets[row]
            widget.move_to(event.pos[0] * self.res[0] / 200)
            if widget.event is not None and event.type == self.PRESS:
                self._waiting.append(event._replace(key=widget.event))

    def get_events(self, *filter: Any) -> Iterator[Event]:
        """Return an iterator that removes the events that wait and yields those that match `filter`: types, keys, or (type, key)."""
        self._pump()
        while self._waiting:
            event = self._waiting.pop(0)
            wanted = (event.type, event.key, (event.type, event.key))
            if not filter or any((tuple(each) if isinstance(each, list) else each) in wanted for each in filter):
                yield event

    def get_event(self, *filter: Any) -> bool:
        """Return whether an event waits that matches `filter`, as for `get_events`; it becomes the attribute `event`."""
        self.event = next(self.get_events(*filter), None)
        return self.event is not None

    def get_key_event(self) -> Event:
        """Wait for a key or button, and return its event. Raises `QuadrantsRuntimeError` once the window is closed."""
        while self.running and not isinstance(self.window, Animation) and self.window is not None:
            for event in self.get_events(self.PRESS, self.RELEASE):
                return event
            time.sleep(0.01)
        raise QuadrantsRuntimeError("there is no window that could have events")

    def is_pressed(self, *keys: str) -> bool:
        """Return whether one of the `keys` or buttons is pressed."""
        self._pump()
        return not self._pressed.isdisjoint(keys)

    def get_cursor_pos(self) -> tuple[float, float]:
        """Return the place of the mouse, (0, 0) at the lower left; (0, 0) if there is no window."""
        self._pump()
        return (0.0, 0.0) if self.window is None else self.window.cursor

    # -- widgets

    def _add_widget(self, widget: Widget) -> Widget:
        self._widgets.append(widget)
        return widget

    def slider(self, text: str, minimum: float, maximum: float, step: float = 1) -> Widget:
        """Add a slider named `text` from `minimum` to `maximum` in steps of `step`, and return it; its `value` begins at the minimum.

        Raises `ValueError` for an empty range.
        """
        if not (maximum >= minimum and step > 0):
            raise ValueError(f"a slider has minimum <= maximum and a positive step, got {minimum}, {maximum}, {step}")
        return self._add_widget(Widget(text, minimum, maximum, step, minimum))

    def label(self, text: str) -> Widget:
        """Add a line that shows `text` and the number `value` of the result, and return it."""
        return self._add_widget(Widget(text, 0, 0, 1, 0))

    def button(self, text: str, event_name: str | None = None) -> str:
        """Add a button named `text`, and return the key of the events of pressing it: `event_name`, by default made from the text."""
        key = event_name or f"WidgetButton_{text}"
        self._add_widget(Widget(text, 0, 0, 1, 0, key))
        return key


def imshow(img: Any, title: str = "imshow") -> None:
    """Show the image `img`, as for `qd.tools.imwrite`, in a window with this `title` until it is closed; in a notebook, below the cell.

    Without a display, the picture is written to a PNG file named after the title, and a line on stderr says so.
    """
    values = images.to_image(img)
    if in_notebook():
        need("IPython.display", "a notebook").display(images.show(values))
        return
    with GUI(title, values.shape[:2]) as gui:
        if isinstance(gui.window, Animation):
            path = f"{file_name(title)}.png"
            images.imwrite(values, path)
            say(f"no display: the image is in {path}")
            return
        while gui.running and not gui.get_event(GUI.ESCAPE):
            gui.set_image(values)
            gui.show()
