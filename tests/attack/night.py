"""The long attack: problem after problem until the time is over, with a script for every kind of finding."""

import time
from collections import Counter

from reduce import reduced
from script import script
from watch import Worker

SOMETIMES = 50  # problems


def night(make, seed, first, count, seconds, max_time):
    """Run problems and print what was found; the number of findings, at most 1, is the exit code."""
    worker, deadline, number = Worker(), time.perf_counter() + seconds, first
    kinds: Counter = Counter()
    try:
        while time.perf_counter() < deadline and (count is None or number < first + count):
            made = make(seed, number)
            for finding in worker.run(made, max_time):
                kind = (finding["kind"].removeprefix("certify: "), made.estimator, finding["solver"])
                kinds[kind] += 1
                line = "{kind} (solver={solver!r}): claimed {claimed}; true is {true}".format(**finding)
                print(f"seed {seed}, number {number}: {made.estimator}: {line}", flush=True)
                if kinds[kind] == 1:
                    print(script(*reduced(made, finding, worker, max_time)), flush=True)
            number += 1
            if number % SOMETIMES == 0:
                print(f"number {number} is next", flush=True)
    finally:
        worker.stop()
    print(f"{number - first} problems, {sum(kinds.values())} findings of {len(kinds)} kinds; --first {number} goes on.")
    for kind, times in kinds.most_common():
        print(f"{times:5d}  {', '.join(kind)}")
    return min(1, len(kinds))
