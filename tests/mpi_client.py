"""What a rank runs: ``mpirun python mpi_client.py PROGRAM [SHARD]``; the shard is the rank if none is given."""

import sys

import bare

if __name__ == "__main__":
    bare.load()
    from faulty import PROGRAMS
    from maxmargin.communicators import run_on_mpi

    name, *given = sys.argv[1:]
    sys.stdout.write(f"{run_on_mpi(PROGRAMS[name], lambda rank, size: given[0] if given else rank)}\n")
