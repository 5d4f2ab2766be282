"""What ``solver="auto"`` loses against the best solver: ``python benchmarks/regret.py --help``."""

import sys

if __name__ == "__main__":
    from benchmark_utils.regret import main

    sys.exit(main())
