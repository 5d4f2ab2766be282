"""How the clients of a distributed fit talk to each other: one file for each engine."""

from maxmargin.communicators.alone import ALONE, Alone
from maxmargin.communicators.counting import Counting, Traffic
from maxmargin.communicators.in_process import InProcess, run_in_process

__all__ = ["ALONE", "Alone", "Counting", "InProcess", "Traffic", "run_in_process"]
