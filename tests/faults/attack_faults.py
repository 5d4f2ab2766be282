"""The night of faults: damaged files, mistaken commands, signals, full disks, closed streams, lost ranks.

``python tests/faults/attack_faults.py --seconds 1800 --seed 7`` runs until the time is over and prints what it found;
``--number 12`` runs one case again, ``--first 400`` goes on where an earlier run of the same seed has ended.
"""

import argparse
import faulthandler
import os
import random
import resource
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path

from commands import make_files, mistaken_command, wrong_with_command
from formats import damaged_case, whole_files, wrong_with
from processes import KINDS, prepare

PATIENCE = 20.0  # seconds of the processor for a small file, the compilation of what reads it included
PROCESSES = 100  # of so many cases one starts processes, which takes as long as all others
ROOM = 2**30  # bytes of addresses beyond those that the process has


class Night:
    """Folders with whole files, from which cases are made by number."""

    def __init__(self, folder):
        self.formats, self.shop, self.works = (folder / name for name in ("formats", "shop", "works"))
        for place in (self.formats, self.shop, self.works):
            place.mkdir()
        self.whole = whole_files(self.formats)
        self.names = make_files(self.shop)
        prepare(self.works)

    def case(self, seed, number):
        """What case it is, and what was found."""
        rng = random.Random(f"{seed} {number}")
        if number % PROCESSES == PROCESSES - 1:
            return rng.choice(KINDS)(rng, self.works)
        kind = self._reading if rng.random() < 0.6 else self._command
        began = time.process_time()
        said, found = kind(rng)
        if time.process_time() - began > PATIENCE:
            found.append(f"it took {time.process_time() - began:.1f} s")
        return said, found

    def _reading(self, rng):
        """Read one damaged file in bounded memory."""
        case, suffix = damaged_case(rng, self.whole)
        path = self.formats / f"data.{suffix}"
        with bounded_memory():
            return f"{case.name}: {case.done}", list(_guarded(wrong_with(case, path)))

    def _command(self, rng):
        """Run one mistaken command in the folder."""
        words = mistaken_command(rng, self.names)
        before = os.getcwd()
        os.chdir(self.shop)
        try:
            with bounded_memory():
                return shlex.join(words), list(_guarded(wrong_with_command(words, self.shop, self.names)))
        finally:
            os.chdir(before)


def _guarded(complaints):
    """Complaints, of which the last one may be an exception that nobody expected."""
    try:
        yield from complaints
    except Exception as error:
        trace = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in trace if "maxmargin" in frame.filename][-1:] + trace[-1:]
        places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in ours)
        yield f"{type(error).__name__}: {str(error)[:200]} ({places})"


class bounded_memory:
    """Let the process have little more memory than it has."""

    def __enter__(self):
        self._before = resource.getrlimit(resource.RLIMIT_AS)
        statistics = Path("/proc/self/statm")
        if statistics.exists():
            limit = int(statistics.read_text().split()[0]) * resource.getpagesize() + ROOM
            resource.setrlimit(resource.RLIMIT_AS, (limit, self._before[1]))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_AS, self._before)


def main():
    """Run until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--number", type=int)
    arguments = parser.parse_args()
    faulthandler.enable()
    began, findings = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        night = Night(Path(folder))
        number = arguments.first if arguments.number is None else arguments.number
        while time.monotonic() - began < arguments.seconds:
            faulthandler.dump_traceback_later(600.0, exit=True)  # something hangs
            said, found = night.case(arguments.seed, number)
            for complaint in found:
                findings += 1
                print(f"{number}: {said}: {complaint}", flush=True)
            number += 1
            if arguments.number is not None:
                break
    print(f"{findings} findings in the cases {arguments.first} to {number - 1} of seed {arguments.seed}.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
