"""LinearSVC on every binary data set, scaled or not: ``python benchmarks/robustness.py --help``."""

import sys

if __name__ == "__main__":
    from benchmark_utils.robustness import main

    sys.exit(main())
