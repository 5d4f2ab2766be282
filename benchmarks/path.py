"""Twenty values of C by warm starts: ``python benchmarks/path.py --help``."""

import sys

if __name__ == "__main__":
    from benchmark_utils.path import main

    sys.exit(main())
