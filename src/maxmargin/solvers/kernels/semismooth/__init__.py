"""Semismooth Newton for kernel machines: the free variables are guessed, solved for together, and guessed again."""

from maxmargin.solvers.kernels.semismooth.solver import SemismoothNewton as SemismoothNewton

__all__ = ["SemismoothNewton"]
