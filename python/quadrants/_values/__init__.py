"""What a number, a vector, a matrix and a struct are outside of kernels."""
