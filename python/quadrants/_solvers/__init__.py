"""Sparse matrices, and solvers of linear systems that are too large for the registers of an iteration. `qd.linalg` has their names."""
