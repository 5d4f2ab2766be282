"""Solvers of problems over rows of features."""
