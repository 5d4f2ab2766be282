"""What a rank runs: ``mpirun python mpi_client.py PROGRAM [SHARD]``; the shard is the rank if none is given."""

import sys
from importlib.util import find_spec, module_from_spec

if __name__ == "__main__":
    # The bare package, so that each rank loads its communicators only: all the rest would take most of the tests' time.
    sys.modules["maxmargin"] = module_from_spec(find_spec("maxmargin"))

    from faulty import PROGRAMS
    from maxmargin.communicators import run_on_mpi

    name, *given = sys.argv[1:]
    sys.stdout.write(f"{run_on_mpi(PROGRAMS[name], lambda rank, size: given[0] if given else rank)}\n")
