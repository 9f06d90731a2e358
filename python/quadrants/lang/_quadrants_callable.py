"""The classes of kernels and bound kernels, under the names that programs use."""

from .._language.kernel import BoundKernel as BoundQuadrantsCallable
from .._language.kernel import Kernel as QuadrantsCallable

__all__ = ["BoundQuadrantsCallable", "QuadrantsCallable"]
