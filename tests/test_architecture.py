"""The rules of the house that a machine can check: who imports whom, what is documented, what importing costs."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin
from maxmargin import protocols
from maxmargin.solvers import SOLVERS

ROOT = Path(__file__).parents[1]
SOURCE = Path(maxmargin.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {str(file.relative_to(SOURCE)): ast.parse(file.read_text()) for file in FILES}
OUTPUT = {"capture_output": True, "check": True, "text": True}
LONG = 25  # lines from which even a private function needs a docstring

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def imported(tree):
    """Names of the top-level packages that a file imports anywhere, lazily or not."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def own_definitions(tree):
    """Classes and functions of a file with their owner, but not those inside functions."""
    todo = [(tree, node) for node in tree.body]
    while todo:
        owner, node = todo.pop()
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            yield owner, node
        if isinstance(node, (ast.ClassDef, ast.If, ast.Try)):
            todo += [(node if isinstance(node, ast.ClassDef) else owner, n) for n in ast.iter_child_nodes(node)]


def test_layers():
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_no_compiled_loop_asks_whether_a_number_is_finite():
    """Numba answers by ``x - x``, which reassociation turns into 0: ``math.isfinite`` of a sum is always true."""

    def is_compiled(node):
        names = {name.id for mark in node.decorator_list for name in ast.walk(mark) if isinstance(name, ast.Name)}
        return bool(names & {"compiled", "compiled_in_place", "compiled_methods", "inlined"})

    wrong = [
        f"{name}:{call.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and is_compiled(node)
        for call in ast.walk(node)
        if isinstance(call, ast.Attribute) and call.attr == "isfinite"
    ]
    assert not wrong, f"compare with math.inf instead: {wrong}"


def test_numba_is_imported_only_in_jit():
    importers = [name for name, tree in TREES.items() if {"numba", "llvmlite"} & imported(tree)]
    assert sorted(importers) == ["_jit/__init__.py", "_jit/cache.py", "_jit/interrupts.py"]


def test_optional_packages_are_imported_lazily():
    def at_the_top(tree):
        return imported(ast.Module([n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))], []))

    optional = {"rich", "pandas", "polars", "numba", "onnx", "mpi4py", "dask", "distributed", "pyarrow"}
    assert {name: optional & at_the_top(tree) for name, tree in TREES.items() if optional & at_the_top(tree)} == {}


def test_only_the_command_line_prints():
    def prints(tree):
        return any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            for node in ast.walk(tree)
        )

    assert [name for name, tree in TREES.items() if prints(tree) and not name.startswith("cli/")] == []


def test_nothing_unpickles():
    unsafe = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    assert [name for name, tree in TREES.items() if unsafe & imported(tree)] == []


def test_modules_and_classes_have_docstrings():
    missing = [name for name, tree in TREES.items() if not ast.get_docstring(tree)]
    for name, tree in TREES.items():
        for _, node in own_definitions(tree):
            if isinstance(node, ast.ClassDef) and not ast.get_docstring(node):
                missing.append(f"{name}: class {node.name}")
    assert missing == []


def test_long_private_functions_have_docstrings():
    missing = [
        f"{name}: {node.name}, {node.end_lineno - node.lineno + 1} lines"
        for name, tree in TREES.items()
        for _, node in own_definitions(tree)
        if isinstance(node, FUNCTIONS)
        and node.name != "__init__"
        and node.end_lineno - node.lineno >= LONG
        and not ast.get_docstring(node)
    ]
    assert missing == []


def test_methods_without_docstring_are_documented_in_protocols():
    """What ruff lets pass in losses, penalties, kernels and vectors must be said once in protocols.py."""
    said = {name for role in vars(protocols).values() if isinstance(role, type) for name in vars(role)}
    missing = [
        f"{name}: {owner.name}.{node.name}"
        for name, tree in TREES.items()
        for owner, node in own_definitions(tree)
        if isinstance(node, FUNCTIONS)
        and isinstance(owner, ast.ClassDef)
        and not owner.name.startswith("_")
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and node.name not in said
    ]
    assert missing == []


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_a_solver_tells_its_problem_method_cost_and_reference(name):
    paragraphs = [" ".join(p.split()) for p in SOLVERS[name].__doc__.split("\n\n")]
    found = [p.split(":")[0] for p in paragraphs if p.split(":")[0] in ("Problem", "Method", "Cost", "Reference")]
    assert found == ["Problem", "Method", "Cost", "Reference"]
    for p in paragraphs[1:]:
        assert len(p.split()) >= 8, p


@pytest.mark.parametrize("name", maxmargin.__all__)
def test_a_public_name_is_importable_and_documented(name):
    thing = getattr(importlib.import_module("maxmargin"), name)
    assert thing.__module__.split(".")[0] == "maxmargin"
    assert len((vars(thing).get("__doc__", None) or thing.__doc__ or "").split()) >= 4
    # A dataclass without a docstring gets its signature for one.
    assert not thing.__doc__.startswith(f"{name}(")


def test_nothing_public_is_missing_from_all():
    """What ``dir`` shows is what ``__all__`` and type checkers know, apart from folders and modules."""
    shown = {name for name in dir(maxmargin) if not name.startswith("_")} - {"TYPE_CHECKING", "import_module"}
    public = {name for name in shown if not inspect.ismodule(getattr(maxmargin, name))}
    assert public == set(maxmargin.__all__)
    (static,) = (node for node in TREES["__init__.py"].body if isinstance(node, ast.If))
    imports = [alias for node in static.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert {alias.asname for alias in imports} - {None, "bounds", "estimators", "solvers"} == (
        public - set(maxmargin.estimators.__all__)
    )


def test_public_names_are_imported_when_they_are_asked_for():
    """The command line has to answer at once, and be it to Ctrl-C."""

    def modules_after(code):
        run = subprocess.run([sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"], **OUTPUT)
        return set(run.stdout.split())

    assert not {"numpy", "maxmargin.estimators"} & modules_after("import maxmargin; maxmargin.__version__")
    assert not {"sklearn", "maxmargin.estimators"} & modules_after(
        "import contextlib, io; from maxmargin.cli import main; out = io.StringIO(); redirect = contextlib."
        "redirect_stdout(out); redirect.__enter__(); assert main(['--help']) == 0; redirect.__exit__(None, None, None)"
    )
    assert "maxmargin.estimators.svc" in modules_after("from maxmargin import *; SVC")
    assert "maxmargin.loop" in modules_after("import maxmargin; maxmargin.loop")
    with pytest.raises(AttributeError, match="module 'maxmargin' has no attribute 'SVX'"):
        maxmargin.SVX  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'SVX'"):
        from maxmargin import SVX  # noqa: F401


def test_importing_costs_little_more_than_scikit_learn():
    def imported(module):
        code = f"import sys, {module}; print(*sys.modules)"
        run = subprocess.run([sys.executable, "-c", code], **OUTPUT)
        return set(run.stdout.split())

    more = imported("maxmargin.estimators") - imported("sklearn.svm")
    foreign = {name for name in more if not name.startswith("maxmargin")}
    packages = {name.partition(".")[0] for name in foreign} - set(sys.stdlib_module_names)
    assert packages <= {"sklearn", "scipy", "numpy", "threadpoolctl", "joblib"}  # which are there in any case
    assert len(foreign) < 60, foreign
