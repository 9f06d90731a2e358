"""`qd.gui`: windows to draw on, with the names of the documented `ti.GUI`; needs the extra `viz`."""

from ._viz.gui import GUI, Widget
from ._viz.windows import Event

__all__ = ["GUI", "Event", "Widget"]
