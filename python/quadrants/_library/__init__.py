"""Functions of the language behind `qd.linalg` and `qd.math`."""
