"""Solvers of problems over a kernel matrix."""
