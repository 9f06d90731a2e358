"""The pytest plugin `quadrants`: where pytest-cov runs, lines of kernels are recorded too."""

from __future__ import annotations

import os
from typing import Any


def pytest_configure(config: Any) -> None:
    """Turns on QD_KERNEL_COVERAGE when pytest-cov is active, unless the variable is set; `--cov-branch` asks for branches."""
    if not config.pluginmanager.hasplugin("_cov"):
        return
    os.environ.setdefault("QD_KERNEL_COVERAGE", "1")
    if config.getoption("cov_branch", None):
        os.environ.setdefault("_QD_KCOV_ARC", "1")
