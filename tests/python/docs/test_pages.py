"""Every Python block of the README and of docs/guide runs, and prints what the page says that it prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))] if "```python" in page.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs_as_written(page, tmp_path):
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("run_page.py"), page, tmp_path / "page.py"],
        cwd=tmp_path,
        env=os.environ | {"QD_OFFLINE_CACHE_FILE_PATH": str(tmp_path / "cache"), "QD_GUI": "file"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    printed = result.stdout.replace(str(tmp_path), "...")
    position = 0
    for block in re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        found = printed.find(block, position)
        assert found >= 0, f"the page says\n{block}\nbut this was printed:\n{printed}{result.stderr}"
        position = found + len(block)
