"""The tree of exception classes: programs catch them by any of their bases."""

import pytest

import quadrants as qd
from quadrants.lang import exception

CLASSES = {
    "QuadrantsCompilationError": (Exception,),
    "QuadrantsSyntaxError": (exception.QuadrantsCompilationError, SyntaxError),
    "QuadrantsNameError": (exception.QuadrantsCompilationError, NameError),
    "QuadrantsIndexError": (exception.QuadrantsCompilationError, IndexError),
    "QuadrantsTypeError": (exception.QuadrantsCompilationError, TypeError),
    "QuadrantsRuntimeError": (RuntimeError,),
    "QuadrantsAssertionError": (exception.QuadrantsRuntimeError, AssertionError),
    "QuadrantsRuntimeTypeError": (exception.QuadrantsRuntimeError, TypeError),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_their_bases_and_are_offered(name):
    assert getattr(exception, name).__bases__ == CLASSES[name]
    assert name == "QuadrantsIndexError" or getattr(qd, name) is getattr(exception, name)
    assert ("QuadrantsIndexError" in qd.__all__) is False
