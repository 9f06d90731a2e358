"""Numbers, vectors, matrices and structs outside of kernels."""
