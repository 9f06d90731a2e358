"""The pytest plugin `quadrants`: when pytest-cov is active, it also records the lines of kernels."""

from __future__ import annotations

import os
from typing import Any


def pytest_configure(config: Any) -> None:
    """Sets QD_KERNEL_COVERAGE if pytest-cov is active, unless the variable is set; `--cov-branch` selects branch coverage."""
    if not config.pluginmanager.hasplugin("_cov"):
        return
    os.environ.setdefault("QD_KERNEL_COVERAGE", "1")
    if config.getoption("cov_branch", None):
        os.environ.setdefault("_QD_KCOV_ARC", "1")
