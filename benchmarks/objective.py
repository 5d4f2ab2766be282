"""The objective, for benchopt: the relative duality gap of a solver's answer."""

from benchopt import BaseObjective

from benchmark_utils.judge import judge_of
from benchmark_utils.peer import Answer, make

REFERENCE_TOL = 1e-8
REFERENCE_SECONDS = 120.0


class Objective(BaseObjective):
    """Whatever the solver says of itself, a judge that shares no code with any of them computes its gap."""

    name = "Support vector machine"
    url = "https://github.com/maxmargin/maxmargin"
    min_benchopt_version = "1.6"
    sampling_strategy = "tolerance"

    def set_data(self, X, y, task):
        self.X, self.y, self.task = X, y, task
        self.judge = judge_of(X, y, task)
        if task.family == "linear":  # some libraries return no dual variables: they are judged against this bound
            ours = make("maxmargin", {})
            ours.time_limit = REFERENCE_SECONDS
            self.judge.dual_bound = self.judge.certificate(ours.fit(X, y, task, REFERENCE_TOL)).dual

    def get_objective(self):
        return {"X": self.X, "y": self.y, "task": self.task}

    def evaluate_result(self, w, b, alpha, info):
        return {"value": self.judge.relative_gap(Answer(w, b, alpha, info))}

    def get_one_result(self):
        n, d = self.X.shape
        return Answer([0.0] * d, 0.0, [0.0] * n)._asdict()
