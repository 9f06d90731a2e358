"""The pages of docs/errors: every code has one, its first example is refused with that code, and its second example runs."""

import re
from pathlib import Path

import pytest
from error_support import mistake, paragraphs, rows
from language_support import define

import quadrants as qd
from quadrants._base.error_codes import FAMILIES

PAGES = Path(__file__).parents[3] / "docs" / "errors"
TITLES = dict(re.findall(r"^\| \[(QD\d+)\]\(\w+\.md\) \| (.+?) \|", (PAGES / "README.md").read_text(), re.MULTILINE))


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


@pytest.mark.parametrize("family", FAMILIES, ids=[family.code for family in FAMILIES])
def test_page_shows_the_mistake_and_its_remedy(family):
    text = (PAGES / f"{family.code}.md").read_text()
    assert text.startswith(f"# {family.code}: {TITLES[family.code]}\n")
    wrong, right = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with pytest.raises((qd.QuadrantsCompilationError, qd.QuadrantsRuntimeError)) as caught:
        define(wrong)
    assert caught.value.code == family.code
    assert str(caught.value).endswith(f"\nhelp: {family.remedy} [{family.code}]")
    define(right)


def test_index_lists_every_code():
    index = (PAGES / "README.md").read_text()
    assert [family.code for family in sorted(FAMILIES)] == re.findall(r"^\| \[(QD\d+)\]", index, re.MULTILINE)
    assert {page.stem for page in PAGES.glob("QD*.md")} == {family.code for family in FAMILIES}


def test_every_compile_time_mistake_has_a_code():
    bodies = paragraphs("wrong_kernels/*.txt") + [row[1] for row in rows("rows/expressions.txt") + rows("rows/control.txt")]
    errors = [(body, mistake(body)[0]) for body in bodies]
    assert [body for body, error in errors if isinstance(error, qd.QuadrantsCompilationError) and not getattr(error, "code", None)] == []
