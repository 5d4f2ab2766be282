"""A worker process that is watched: a fit that does not return is ended, and counts as a finding."""

import base64
import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FOLDER = Path(__file__).parent
SOON, LATE = 60.0, 120.0  # seconds of work for one fit; the second time, as the first may have compiled loops
LOOKS = 1.0  # seconds between two looks at a process
IDLE = 10.0  # times as long by the clock: then it does not work but wait, and always will
LAST_WORDS = 1000  # characters
LATE_ANSWER = object()


def seconds_of(process):
    """The seconds that processors have worked for a process; ``None`` where nobody knows."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class Worker:
    """Runs problems of the attack one by one."""

    def __init__(self):
        self.process = None

    def run(self, made, max_time, solvers=None):
        """The findings of a case, as dictionaries; of all solvers, of some, or of "auto" and so many others."""
        for patience in (SOON, LATE):
            found, doing = self._once((made, max_time, solvers), patience)
            if found is not None:
                return found
        return [{"kind": "hang", "solver": doing, "claimed": f"max_time={max_time:g}", "true": f"over {LATE:g} s"}]

    def _once(self, request, patience):
        if self.process is None:
            self._start()
        with contextlib.suppress(BrokenPipeError):  # it has ended: the next lines notice that
            self.process.stdin.write(base64.b64encode(pickle.dumps(request)).decode() + "\n")
            self.process.stdin.flush()
        doing = "start"
        while True:
            line = self._next_line(patience)
            if line is LATE_ANSWER:
                self.stop()
                return None, doing
            if line is None:
                ending = self._ending()
                self.stop()
                return [{"kind": "crash", "solver": doing, "claimed": "a fit", "true": ending}], doing
            answer = json.loads(line)
            if "found" in answer:
                return answer["found"], doing
            doing = answer["doing"]

    def _next_line(self, patience):
        """What the worker says next, unless it works for longer; others may keep the processor busy meanwhile."""
        began, worked = time.perf_counter(), seconds_of(self.process.pid)
        while True:
            try:
                return self.answers.get(timeout=LOOKS)
            except queue.Empty:
                waited, now = time.perf_counter() - began, seconds_of(self.process.pid)
                if waited > IDLE * patience or (waited if now is None else now - worked) > patience:
                    return LATE_ANSWER

    def _start(self):
        command = [sys.executable, "-X", "faulthandler", "-W", "ignore", str(FOLDER / "attack.py"), "--worker"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        pipe = subprocess.PIPE
        self.words = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - it is closed in `stop`
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.words, text=True, env=environment)
        self.answers: queue.Queue = queue.Queue()
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout, self.answers), daemon=True)
        self.reader.start()

    def _ending(self):
        """How the process ended, and its last words: a signal without any comes from outside."""
        try:
            code = self.process.wait(timeout=SOON)
        except subprocess.TimeoutExpired:
            return "the process says no more"
        self.words.seek(0)
        words = self.words.read()
        words = words[words.find("Fatal Python error") :][:LAST_WORDS] if "Fatal" in words else words[-LAST_WORDS:]
        by = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"the process ended {by}: {words.strip() or 'without a word'}"

    @staticmethod
    def _read(stream, answers):
        for line in stream:
            if line.startswith("{"):
                answers.put(line)
        answers.put(None)

    def stop(self):
        """End the process that was started here."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            for stream in (self.process.stdin, self.process.stdout, self.words):
                with contextlib.suppress(OSError):  # what was not sent is of no interest any more
                    stream.close()
            self.process = None
