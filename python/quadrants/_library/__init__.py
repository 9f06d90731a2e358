"""Functions of the kernel language that `qd.linalg` and `qd.math` export."""
