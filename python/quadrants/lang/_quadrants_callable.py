"""The classes of kernels, and of kernels of an object, under the names that programs know."""

from .._kernel import BoundKernel as BoundQuadrantsCallable
from .._kernel import Kernel as QuadrantsCallable

__all__ = ["BoundQuadrantsCallable", "QuadrantsCallable"]
