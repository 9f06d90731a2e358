"""Pictures: what `qd.tools` reads, writes and shows, and what `qd.GUI` draws. Only this package needs Pillow and imageio."""
