"""docs/seeds.md and docs/corrections.md claim nothing that does not exist: places, tests that can fail, figures."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ITEMS = {"0": 46, "1": 14, "2": 28, "3": 37, "4": 26}  # of each seed
ERRORS = {"0": 12, "1": 4, "2": 8, "3": 11, "4": 8}
CHECKS = ("assert", "raises", "warns", "check", "judge", "agree")


def rows_of(page, pattern):
    """The rows of the tables whose first cell is an ID, as lists of cells."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    tables = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines if line.startswith("|")]
    return [cells for cells in tables if re.fullmatch(pattern, cells[0])]


ROWS = rows_of("seeds.md", r"[0-4]-\d\d")
CORRECTIONS = rows_of("corrections.md", r"E[0-4]-\d+")


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def exists(name):
    """A file of the project, or what a dotted name says."""
    if "/" in name:
        return (ROOT / name).exists()
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


@cache
def functions_of(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name: ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def can_fail(name):
    file, _, function = name.partition("::")
    if not (ROOT / file).exists():
        return False
    if not function:
        return file.endswith(".md") and ">>>" in (ROOT / file).read_text(encoding="utf-8")
    return any(word in functions_of(file).get(function, "") for word in CHECKS)


def test_every_item_has_a_row_and_no_other():
    assert [cells[0] for cells in ROWS] == [f"{s}-{k:02}" for s, count in ITEMS.items() for k in range(1, count + 1)]
    expected = [f"E{s}-{k}" for s, count in ERRORS.items() for k in range(1, count + 1)]
    assert [cells[0] for cells in CORRECTIONS] == expected
    assert {len(cells) for cells in ROWS} == {5}
    assert {len(cells) for cells in CORRECTIONS} == {4}


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: cells[0])
def test_what_a_row_names_exists(cells):
    _, what, where, test, figure = cells
    assert what
    assert names(where), "no place"
    assert names(test), "no test"
    assert [name for name in names(where) + names(figure) if not exists(name)] == []
    assert [name for name in names(test) if not can_fail(name)] == []
    assert figure == "-" or all(name.startswith("examples/") for name in names(figure))


@pytest.mark.parametrize("cells", CORRECTIONS, ids=lambda cells: cells[0])
def test_what_a_correction_names_exists(cells):
    _, printed, right, test = cells
    assert printed
    assert right
    assert test == "-" or names(test)
    assert [name for name in names(test) if not can_fail(name)] == []


def test_the_check_notices_what_does_not_exist():
    assert not exists("maxmargin.no_such_name")
    assert not exists("docs/no_such_page.md")
    assert exists("maxmargin.SVC.margin_")
    assert not can_fail("tests/test_seeds.py::test_of_nobody")
    assert not can_fail("tests/test_seeds.py::names")
    assert not can_fail("docs/no_such_page.md")
