"""Types survive a fit, and a wrong name is found before the program runs: mypy, on a page of a user's code."""

import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from sklearn.utils._param_validation import StrOptions

import maxmargin
from maxmargin.estimators._machinery import names
from maxmargin.estimators._machinery.kernels import KERNEL_NAMES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "data" / "user_page.py"
TYPED = [getattr(maxmargin, name) for name in maxmargin.__all__ if hasattr(getattr(maxmargin, name), "get_params")]


def test_mypy_finds_what_is_wrong_on_a_page_and_nothing_else():
    """With the settings of the house, whose cache `make lint` has filled."""
    command = [sys.executable, "-m", "mypy", "--no-pretty", str(PAGE)]
    environment = os.environ | {"MYPYPATH": str(Path(maxmargin.__file__).parents[1])}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    errors = {int(line): text for line, text in re.findall(r"user_page\.py:(\d+): error: (.*)", done.stdout)}
    marks = {
        k: line.partition("# E: ")[2] for k, line in enumerate(PAGE.read_text().splitlines(), 1) if "# E: " in line
    }
    assert errors.keys() == marks.keys(), done.stdout + done.stderr
    assert len(marks) > 9
    assert all(marks[line] in text for line, text in errors.items()), done.stdout


def test_the_package_says_that_it_has_types():
    assert files(maxmargin).joinpath("py.typed").is_file()


def values_of(hint):
    """The values of all literals in a type."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {value for part in get_args(hint) for value in values_of(part)}


@pytest.mark.parametrize("kind", TYPED, ids=lambda kind: kind.__name__)
def test_the_names_of_the_types_are_those_that_are_accepted(kind):
    known = {**vars(names), "Literal": Literal, "None": None}
    for base in kind.__mro__:
        for parameter, hint in vars(base).get("__annotations__", {}).items():
            words = re.findall(r"\w+(?:\[[^]]*\])?", str(hint).partition("Callable")[0])
            typed = {
                value for word in words if word.partition("[")[0] in known for value in values_of(eval(word, known))
            }
            rules = getattr(kind, "_parameter_constraints", {}).get(parameter, ())
            accepted = {value for rule in rules if isinstance(rule, StrOptions) for value in rule.options}
            assert not typed or not accepted or typed == accepted, parameter


def test_kernels_have_the_names_of_the_type():
    assert set(get_args(names.KernelName)) == set(KERNEL_NAMES)
