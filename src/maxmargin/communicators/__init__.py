"""How the clients of a distributed fit talk to each other: one file for each engine."""

from maxmargin.communicators.alone import ALONE, Alone
from maxmargin.communicators.counting import Counting, Traffic
from maxmargin.communicators.dask import DaskCommunicator, group_by_worker, run_on_dask
from maxmargin.communicators.faults import ClientLost, supervise
from maxmargin.communicators.in_process import InProcess, run_in_process
from maxmargin.communicators.mpi import MpiCommunicator, launch_on_mpi, run_on_mpi
from maxmargin.communicators.star import Star

__all__ = [
    "ALONE",
    "Alone",
    "ClientLost",
    "Counting",
    "DaskCommunicator",
    "InProcess",
    "MpiCommunicator",
    "Star",
    "Traffic",
    "group_by_worker",
    "launch_on_mpi",
    "run_in_process",
    "run_on_dask",
    "run_on_mpi",
    "supervise",
]
