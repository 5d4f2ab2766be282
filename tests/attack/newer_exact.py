"""What the newer kinds of problems minimise, in balls of 300 digits."""

from dataclasses import dataclass

from exact import UNIT, Machine, Program, RowSpace, arb, square, total, upper


@dataclass
class CrammerSinger:
    """``|W|^2 / 2 + sum_i s_i max_c (z_ic - z_i,y_i + [c != y_i])``; ``f`` is a list of a function per class."""

    space: RowSpace
    y: list  # numbers of classes
    s: list
    k: int
    intercept: str | None
    scale: arb

    def primal(self, f, b):
        value = total([part.square for part in f]) / 2
        if self.intercept == "penalised":
            value += total([square(v / self.scale) for v in b]) / 2
        for i, (y, s) in enumerate(zip(self.y, self.s, strict=True)):
            if s > 0:
                z = [part.scores[i] + v for part, v in zip(f, b, strict=True)]
                behind = arb(0)
                for c, v in enumerate(z):
                    behind = behind if c == y else behind.max(v - z[y] + 1)
                value += s * behind
        return value

    def slack(self, f, b):
        """What halving coefficients of two classes may change, too."""
        return 16 * UNIT * upper(self.primal(f, b))

    def zero(self):
        nothing = self.space.coefficients([0.0] * self.space.X.shape[1])
        return [([nothing] * self.k, [arb(0)] * self.k)]

    def program(self):
        """One variable for each sample and class, those of a sample with the sum zero."""
        if self.intercept == "free":
            return None
        n, k = self.space.n, self.k
        shift = square(self.scale) if self.intercept == "penalised" else arb(0)
        K = [[v + shift for v in row] for row in self.space.gram.tolist()]
        nothing = arb(0)
        Q = [[K[i][j] if c == e else nothing for j in range(n) for e in range(k)] for i in range(n) for c in range(k)]
        own = [c == y for y in self.y for c in range(k)]
        weight = [s for s in self.s for _ in range(k)]
        low = [nothing if mine else -s for mine, s in zip(own, weight, strict=True)]
        high = [s if mine else nothing for mine, s in zip(own, weight, strict=True)]
        group = [i for i in range(n) for _ in range(k)]
        q = [arb(1) if mine else nothing for mine in own]
        return Program(Q, q, low, high, [nothing] * (n * k), group, [nothing] * n, 1)

    def of_dual(self, a, multipliers):
        f = [self.space.expansion(a[c :: self.k]) for c in range(self.k)]
        shift = square(self.scale) if self.intercept == "penalised" else arb(0)
        return f, [total(a[c :: self.k]) * shift for c in range(self.k)]


@dataclass
class Grouped:
    """``sum_i s_i |Y_i - W x_i - b|^2 / 2 + sum_g strength_g |W_g| + ridge |W|^2 / 2``; ``f`` has a part per target."""

    space: RowSpace
    Y: list  # a list for each target
    s: list
    groups: list  # features of each
    strengths: list
    ridge: arb
    intercept: str | None

    def primal(self, f, b):
        value = self.ridge * total([part.square for part in f]) / 2
        for part, v, y in zip(f, b, self.Y, strict=True):
            missed = [t - z - v for t, z in zip(y, part.scores, strict=True)]
            value += total([s * square(r) for s, r in zip(self.s, missed, strict=True)]) / 2
        for members, strength in zip(self.groups, self.strengths, strict=True):
            squares = total([square(part.w[j]) for part in f for j in members])
            value += strength * (squares.sqrt() if squares > 0 else arb(0))
        return value

    def slack(self, f, b):
        return 16 * UNIT * upper(self.primal(f, b))

    def zero(self):
        nothing = self.space.coefficients([0.0] * self.space.X.shape[1])
        none = [arb(0)] * len(self.Y)
        if self.intercept is None:
            return [([nothing] * len(self.Y), none)]
        means = [total([s * v for s, v in zip(self.s, y, strict=True)]) / total(self.s) for y in self.Y]
        return [([nothing] * len(self.Y), none), ([nothing] * len(self.Y), means)]

    def program(self):
        return None


@dataclass
class InBall(Machine):
    """The sum of losses of functions whose squared norm is at most ``square_of_radius``."""

    square_of_radius: arb = None

    def claimed(self, f):
        return not f.square > self.square_of_radius

    def program(self):
        return None
