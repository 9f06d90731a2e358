"""The classes of kernels, and of kernels of an object, under the names that programs know."""

from .._language.kernel import BoundKernel as BoundQuadrantsCallable
from .._language.kernel import Kernel as QuadrantsCallable

__all__ = ["BoundQuadrantsCallable", "QuadrantsCallable"]
