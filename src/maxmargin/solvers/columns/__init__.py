"""Solvers of problems over columns of features."""
