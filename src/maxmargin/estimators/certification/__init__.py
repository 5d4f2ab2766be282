"""A neutral referee for fitted models: what it says, and one file of judges for each family of models."""

from maxmargin.estimators.certification import grouped, kernel_machines, least_squares, linear_machines, selectors
from maxmargin.estimators.certification.conditions import Conditions, KKTReport, kkt_report
from maxmargin.estimators.certification.verdict import Verdict, certify

__all__ = [
    "Conditions",
    "KKTReport",
    "Verdict",
    "certify",
    "grouped",
    "kernel_machines",
    "kkt_report",
    "least_squares",
    "linear_machines",
    "selectors",
]
