"""One look for all figures: colours that colour-blind readers can tell apart, labels at the lines, small SVG files."""

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

# Okabe and Ito's colours, without the yellow that vanishes on white.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = "#222222", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#8a8a8a"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"

plt.rcParams.update(
    {
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.edgecolor": GREY,
        "axes.labelcolor": BLACK,
        "axes.labelsize": 9,
        "font.size": 9,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
        "svg.hashsalt": "maxmargin",  # equal drawings, equal files
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": BLACK,
        "ytick.labelcolor": BLACK,
    }
)


def save(figure, folder, name):
    """Write ``name.svg`` and return its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)
    return path


def label(axes, x, y, text, colour, **placement):
    """Text beside a line, in its colour, on a little white so that other lines do not cross it."""
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
    axes.text(x, y, text, color=colour, **{"ha": "left", "va": "center", "fontsize": 8.5, "bbox": box, **placement})
