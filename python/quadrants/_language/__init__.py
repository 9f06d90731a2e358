"""Builtins and statements of kernels, and the decorators of functions in the kernel language."""
