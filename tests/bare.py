"""The bare package: clients of the tests load only its communicators, since all the rest takes seconds in each."""

import sys
from importlib.util import find_spec, module_from_spec


def load():
    sys.modules["maxmargin"] = module_from_spec(find_spec("maxmargin"))


def dask_setup(worker):
    """Called by a Dask worker before its first task."""
    load()
