"""A plugin for pytest that puts our classes in the place of scikit-learn's before a test module imports them.

With it, scikit-learn's own tests tell how far "changing the import is enough". `make test-sklearn` runs all modules of
`expected.EXPECTED`; one of them, or a part, is run by

    python tests/sklearn_suite/run.py sklearn.svm.tests.test_svm -k kernel

Names that we do not have stay scikit-learn's. The modules that a test may look into (`sklearn.linear_model._ridge`)
are left alone: only what is imported from the public packages is ours.
"""

import importlib
import re
from collections import Counter

import pytest
from expected import EXPECTED

import maxmargin

PACKAGES = ("sklearn.linear_model", "sklearn.kernel_ridge", "sklearn.svm")
REASONS = {reason for entries in EXPECTED.values() for reason in entries.values()}


def pytest_configure():
    """Replace the classes and functions of the public packages that have ours of the same name."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for public in maxmargin.__all__:
            if public in getattr(package, "__all__", dir(package)):
                setattr(package, public, getattr(maxmargin, public))


def pytest_collection_modifyitems(items):
    """Mark the failures that have a reason; one that passes all the same is a failure of the run."""
    for item in items:
        for pattern, reason in EXPECTED.get(item.module.__name__, {}).items():
            if re.match(pattern, item.name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
                break


def pytest_terminal_summary(terminalreporter):
    """Print how many tests of each module passed, failed as expected, failed, and were skipped."""
    counts = {}
    for outcome in ("passed", "xfailed", "failed", "error", "skipped", "xpassed"):
        for report in terminalreporter.stats.get(outcome, ()):
            of_module = counts.setdefault(re.split(r"::|\[", report.nodeid)[0], Counter())
            theirs = outcome == "xfailed" and report.wasxfail.removeprefix("reason: ") not in REASONS
            column = {"error": "failed", "xpassed": "passed"}.get(outcome, outcome)
            of_module["skipped" if theirs else column] += 1  # what scikit-learn expects to fail with its own classes
    columns = ("passed", "xfailed", "failed", "skipped")
    terminalreporter.section("scikit-learn's tests with our classes")
    terminalreporter.line(f"{'':48}" + "".join(f"{name:>10}" for name in ("passed", "expected", "failed", "skipped")))
    total = Counter()
    for module, of_module in sorted(counts.items()):
        total += of_module
        terminalreporter.line(f"{module[-48:]:48}" + "".join(f"{of_module[column]:10}" for column in columns))
    run = sum(total[column] for column in columns[:3])
    share = f", {100.0 * total['passed'] / run:.1f} % of those that were run" if run else ""
    terminalreporter.line(f"{'all':48}" + "".join(f"{total[column]:10}" for column in columns) + share)
