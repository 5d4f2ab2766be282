"""Run scikit-learn's installed tests with our classes: all modules of the list, or those that are named.

``--part`` runs the few seconds that `make test` can spare. Other arguments are pytest's.
"""

import sys
from pathlib import Path

import pytest
import sklearn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # where pytest finds the plugin

from expected import EXPECTED  # noqa: E402

PART = ("sklearn.svm.tests.test_svm",)  # whose loops other tests have compiled


def main(arguments):
    """Run pytest, and return its exit code."""
    modules = [name for name in arguments if name.startswith("sklearn.")]
    rest = [name for name in arguments if not name.startswith("sklearn.") and name != "--part"]
    chosen = modules or (PART if "--part" in arguments else list(EXPECTED))
    names_from = str(Path(sklearn.__file__).parent)  # so that tests are named by module
    settings = ["-c", str(HERE / "pytest.ini"), "--rootdir", names_from, "-q", "-p", "no:cacheprovider"]
    return pytest.main([*settings, *rest, "--pyargs", *chosen])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
