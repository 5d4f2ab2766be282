"""The exact optimum of a small quadratic program: an active set method in 600 digits."""

import time

from exact import Program, arb, arb_mat, column, entries, total
from flint import ctx

RIDGE = arb("1e-300")  # of the largest diagonal entry: makes every step unique, and changes nothing that is looked at
ZERO = arb("1e-120")
PRECISION = 2048  # bits, of which a ridge takes 1000


def nearest_feasible(program: Program, start):
    """Variables clipped to their bounds, each group moved to its sum."""
    a = [arb(v).mid() for v in start]
    for v in range(len(a)):
        a[v] = _clipped(a[v], program.low[v], program.high[v])
    for g, wanted in enumerate(program.totals):
        members = [v for v, group in enumerate(program.group) if group == g]
        for v in members:
            missing = wanted - total([a[u] for u in members])
            a[v] = _clipped((a[v] + missing).mid(), program.low[v], program.high[v])
    return a


def _clipped(x, low, high):
    x = low if low is not None and x < low else x
    return high if high is not None and x > high else x


def _largest(values):
    out = arb(0)
    for value in values:
        out = out.max(abs(value))
    return out


class ActiveSet:
    """Bounds are met and left one after the other until no multiplier has the wrong sign."""

    def __init__(self, program: Program, start):
        self.p, self.a, n = program, nearest_feasible(program, start), len(program.q)
        self.Q = arb_mat(program.Q)
        largest = max((float(abs(self.Q[v, v])) for v in range(n)), default=1.0) or 1.0
        with ctx.workprec(PRECISION):
            for v in range(n):
                self.Q[v, v] = self.Q[v, v] + program.D[v] + RIDGE * largest
        self.fixed = {v for v in range(n) if program.low[v] is not None and program.low[v] == program.high[v]}
        self.free = {v for v in range(n) if v not in self.fixed and not self._at_low(v) and not self._at_high(v)}

    def _at_low(self, v):
        return self.p.low[v] is not None and not self.a[v] > self.p.low[v]

    def _at_high(self, v):
        return self.p.high[v] is not None and not self.a[v] < self.p.high[v]

    def solve(self, seconds):
        """Variables and multipliers at the optimum, or where the time ended."""
        with ctx.workprec(PRECISION):
            return self._solve(seconds)

    def _solve(self, seconds):
        deadline, b, seen = time.perf_counter() + seconds, [arb(0)] * len(self.p.totals), set()
        settled = False
        while time.perf_counter() < deadline:
            Qa = entries(self.Q * column(self.a))
            r = [(q - x).mid() for q, x in zip(self.p.q, Qa, strict=True)]
            step, b = self._step(r)
            small = ZERO * _largest([*self.a, *step.values()])
            if settled or not any(abs(x) > small for x in step.values()):
                entering = self._entering(r, b, ZERO * (_largest(self.p.q) + _largest(Qa)))
                self.free |= entering
                state = frozenset(self.free), frozenset(v for v in range(len(r)) if self._at_high(v))
                if not entering or state in seen:  # degenerate: bounds are left and met without a step
                    break
                seen.add(state)
                settled = False
            else:
                settled = self._move(step)
        return self.a, b

    def _step(self, r):
        """Newton's step of the free variables, and the multipliers of groups; None for those without a free one."""
        free = sorted(self.free)
        groups = sorted({self.p.group[v] for v in free if self.p.group[v] is not None})
        size, m = len(free) + len(groups), len(free)
        b = [None] * len(self.p.totals)
        if not free:
            return {}, b
        H = arb_mat(size, size)
        for i, u in enumerate(free):
            for j, v in enumerate(free):
                H[i, j] = self.Q[u, v]
            for k, g in enumerate(groups):
                if self.p.group[u] == g:
                    H[i, m + k] = H[m + k, i] = arb(1)
        right = [r[v] for v in free] + [arb(0)] * len(groups)
        x = [v.mid() for v in entries(H.mid().solve(column(right), algorithm="approx"))]
        for k, g in enumerate(groups):
            b[g] = x[m + k]
        return dict(zip(free, x, strict=False)), b

    def _entering(self, r, b, worst):
        """The variable at a bound that gains most by leaving it; of a group without free ones, a pair of them."""
        entering = set()
        for g in range(len(self.p.totals)):
            if b[g] is None:
                ups = [v for v in self._members(g) if not self._at_high(v)]
                downs = [v for v in self._members(g) if not self._at_low(v)]
                i = max(ups, key=lambda v: float(r[v]), default=None)
                j = min(downs, key=lambda v: float(r[v]), default=None)
                if i is not None and j is not None and r[i] - r[j] > worst:
                    return {i, j}
                b[g] = r[i] if i is not None else r[j] if j is not None else arb(0)
        for v in range(len(r)):
            if v in self.free or v in self.fixed:
                continue
            g = self.p.group[v]
            gain = r[v] - (arb(0) if g is None else b[g])
            gain = gain if self._at_low(v) else -gain
            if gain > worst:
                worst, entering = gain, {v}
        return entering

    def _members(self, g):
        return [v for v, group in enumerate(self.p.group) if group == g and v not in self.fixed]

    def _move(self, step):
        """Along the step to its end, or to the first bound; whether that was its end."""
        reach, blocking = arb(1), None
        for v, x in step.items():
            end = self.p.high[v] if x > 0 else self.p.low[v]
            if end is None or not abs(x) > 0:
                continue
            room = ((end - self.a[v]) / x).mid()
            if room < reach:
                reach, blocking = room, v
        for v, x in step.items():
            self.a[v] = (self.a[v] + reach * x).mid()
        if blocking is not None:
            self.a[blocking] = self.p.high[blocking] if step[blocking] > 0 else self.p.low[blocking]
            self.free.discard(blocking)
        return blocking is None
