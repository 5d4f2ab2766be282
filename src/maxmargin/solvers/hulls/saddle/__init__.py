"""Saddle-SVC: primal-dual steps for the distance of two hulls."""

from maxmargin.solvers.hulls.saddle.solver import Saddle as Saddle
