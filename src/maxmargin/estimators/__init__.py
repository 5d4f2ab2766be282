"""The scikit-learn face of the library."""

from maxmargin.estimators.certification import Verdict, certify
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.svc import SVC

__all__ = ["SVC", "LinearSVC", "Verdict", "certify"]
