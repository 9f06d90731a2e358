"""The runtime that `qd.init` starts, and the slow path of launches for which no compiled version fits."""
