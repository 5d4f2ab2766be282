"""The house: ``python examples/house.py`` draws the layers of pyproject.toml with the folders of src and what they say.

Nothing about the folders is written here: their names and order are read from the import contract, and what each is for
is the first sentence of its docstring.
"""

import argparse
import ast
import textwrap
import tomllib
from pathlib import Path

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, PINK, RED, plt, save

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "maxmargin"
# What a fit does on a floor, for the column beside the house.
ONE_FIT = {
    "cli": "reads files, prints the certificate",
    "estimators": "check, plan, pose, choose ... keep, warn",
    "loop": "start, advance, certify, stop: Solution",
    "solvers": "supports, start, advance, point",
    "problems": "primal and dual value of a point",
    "operators": "X w, X^T alpha, rows of a kernel matrix",
}
TINTS = {"estimators": ORANGE, "loop": RED, "solvers": GREEN, "problems": BLUE, "operators": PINK}
WIDTH, LINE = 100.0, 2.0  # of the house, and the height of a line of text, in units of the drawing
LETTERS = 1.19  # in a unit of width: text has no certain width before somebody's browser chooses a font


def layers():
    """The floors from top to bottom, each a list of names: those of the import contract."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    floors = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [floor.split(" | ") for floor in floors]


def summary(path):
    """What a folder or module says it is for."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))).splitlines()[0].strip("`.")


def rooms(name):
    """The folders within one of solvers or estimators; a solver with a folder of its own is no room."""
    return sorted(path for path in (SOURCE / name).iterdir() if (path / "__init__.py").exists())


def paragraph(path, width):
    """The sentence of a folder in lines for a room of this width."""
    return textwrap.wrap(summary(path), int(LETTERS * width) - 2)


def write(axes, x, y, text, **style):
    axes.text(x, y, text, **{"ha": "left", "va": "top", "fontsize": 8.0, "color": BLACK, **style})


def room(axes, path, x, top, width, height, colour):
    """A box with the name of a folder and its sentence."""
    face = plt.Rectangle((x, top - height), width, height, facecolor=colour, alpha=0.13, lw=0)
    axes.add_patch(face)
    axes.add_patch(plt.Rectangle((x, top - height), width, height, fill=False, edgecolor=colour, lw=1.0))
    write(axes, x + 1.0, top - 0.7, path.name + "/" * path.is_dir(), fontweight="bold", fontsize=9.0)
    for k, line in enumerate(paragraph(path, width)):
        write(axes, x + 1.0, top - 0.9 - LINE * (k + 1.1), line)


def height_of(paths, widths):
    """Of the tallest of some rooms."""
    return LINE * (1.9 + max(len(paragraph(path, width)) for path, width in zip(paths, widths, strict=True)))


def shares(paths):
    """Widths of rooms side by side: those with more to say get more."""
    letters = [20 + len(summary(path)) for path in paths]
    return [WIDTH * n / sum(letters) for n in letters]


def floor(axes, names, top):
    """One layer, with the folders in it. Returns where the next one begins."""
    paths = [SOURCE / name for name in names]
    colour, inner = TINTS.get(names[0], GREY), rooms(names[0]) if len(names) == 1 and paths[0].is_dir() else []
    widths = shares(paths)
    height = own = height_of(paths, widths)
    if inner:
        part = (WIDTH - 1.0) / len(inner) - 1.0
        height = own + height_of(inner, [part] * len(inner)) + 1.0
    x = 0.0
    for path, width in zip(paths, widths, strict=True):
        room(axes, path, x, top, width - 0.6 * (path is not paths[-1]), height, colour)
        x += width
    for k, path in enumerate(inner):
        room(axes, path, 1.0 + k * (part + 1.0), top - own, part, height - own - 1.0, colour)
    if names[0] in ONE_FIT:
        write(axes, WIDTH + 3.0, top - 0.5 * height, ONE_FIT[names[0]], va="center")
        axes.plot([WIDTH + 0.4, WIDTH + 2.4], [top - 0.5 * height] * 2, color=colour, lw=1.2)
    return top - height - 0.8


def draw_house():
    figure, axes = plt.subplots(figsize=(10.5, 8.4))
    write(axes, WIDTH + 3.0, 3.4, "one fit", fontweight="bold", fontsize=9.0)
    write(axes, 0.0, 3.4, "src/maxmargin: each floor imports only from those below it", fontweight="bold", fontsize=9.0)
    top = 0.0
    for names in layers():
        top = floor(axes, names, top)
    axes.set(xlim=(-1.0, WIDTH + 37.0), ylim=(top - 0.5, 4.0))
    axes.set_axis_off()
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.99)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    with plt.rc_context({"svg.fonttype": "none"}):  # as text, which is small, can be searched, and is read out
        return save(draw_house(), options.figures, "house")


if __name__ == "__main__":
    main()
