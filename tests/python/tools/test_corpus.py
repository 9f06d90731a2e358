"""`./dev corpus`: how it says that the IR of kernels has changed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OLD = {"frontend": "a\nb", "x64": "c", "cuda": "d"}
SCRIPT = """
from pathlib import Path
from tests.corpus import __main__ as corpus
corpus.KEPT, corpus.DIGESTS = Path("kept"), Path("digests.txt")
corpus.write_digests({{"area.program.kernel": {{stage: corpus.compute_digest(text) for stage, text in {old}.items()}}}})
print(corpus.compare({{"area.program.kernel": {old}}}, corpus.read_digests(), None, []))
print(corpus.compare({new}, corpus.read_digests(), None, []))
"""


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        ({"area.program.kernel": OLD}, ["0 changed\nTrue"]),
        ({"area.program.kernel": OLD | {"cuda": "e"}}, ["area.program.kernel differs: cuda", "-d\n+e", "1 changed", "False"]),
        ({"area.program.kernel": OLD | {"frontend": "a\nc", "x64": "e"}}, ["differs: frontend, x64", " a\n-b\n+c", "1 changed", "False"]),
        ({"area.program.other": OLD}, ["area.program.other is new", "area.program.kernel is gone", "2 changed", "False"]),
    ],
    ids=["same", "lowered differently", "built differently", "renamed"],
)
def test_changes_are_named_and_shown(tmp_path: Path, new: dict[str, dict[str, str]], wanted: list[str]) -> None:
    script = SCRIPT.format(old=OLD, new=new)
    path = f"import sys; sys.path[:0] = {[str(ROOT), *sys.path]}\n"
    process = subprocess.run([sys.executable, "-c", path + script], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    first, _, rest = process.stdout.partition("True\n")
    assert "0 changed" in first
    for part in wanted:
        assert part in rest
