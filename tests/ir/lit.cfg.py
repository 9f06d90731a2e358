"""lit: each .mlir file here runs qd-opt and checks its output."""

import os

import lit.formats

config.name = "ir"  # noqa: F821  (lit provides `config`)
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821
config.test_exec_root = os.path.join(os.path.dirname(__file__), "..", "..", "build", "tests-ir")  # noqa: F821
config.environment["PATH"] = os.environ["PATH"]  # noqa: F821
