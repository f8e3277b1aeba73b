# SPDX-License-Identifier: MIT
"""`make pages`: a page for each result that is kept; documents link to none of them."""

import os
import re
import subprocess

import pytest
from conftest import BUILD, SOURCE

RESULTS = sorted((SOURCE / "docs" / "results").glob("*.json"))
DOCUMENTS = [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")]
LINK = re.compile(r"\]\(([^)#]*)")


@pytest.fixture(scope="module")
def made() -> str:
    """What `make pages` says."""
    words = ["make", "-s", "-C", str(BUILD), "pages"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [file.stem for file in RESULTS])
def test_every_result_has_its_page(made: str, name: str) -> None:
    pages = BUILD / "docs" / "pages"
    is_study = name.endswith(("-study", "-barriers"))
    page = pages / name / "study.html" if is_study else pages / f"{name}.html"
    text = page.read_text()
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_results_carry_their_date(file: os.PathLike[str]) -> None:
    assert re.match(r"\d{4}-\d\d-\d\d-", os.path.basename(file))


def test_documents_link_to_no_page_that_is_only_made() -> None:
    for document in DOCUMENTS:
        links = LINK.findall(document.read_text())
        assert not [link for link in links if "pages/" in link], document
