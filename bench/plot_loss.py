"""Draws the JSON of examples/train as one SVG: both losses over the steps, and their distance.

  build/examples/fa2_train --text README.md docs/*.md --json loss.json
  python3 bench/plot_loss.py loss.json --out loss.svg
"""
import argparse
import json
import math

from plot import STYLE, text

FA2, FLOAT32 = "#d9480f", "#212529"
WIDTH, LEFT, RIGHT, TOP = 560, 72, 24, 96
LOSS_HEIGHT, GAP, DIFFERENCE_HEIGHT, BOTTOM = 220, 44, 110, 52


class Panel:
    """A box of the picture with its own axis of values. All boxes share the steps."""

    def __init__(self, top, height, low, high, steps):
        self.top, self.height, self.low, self.high, self.steps = top, height, low, high, steps

    def x(self, step):
        return LEFT + WIDTH * (step - 1) / max(1, self.steps - 1)

    def y(self, value):
        return self.top + self.height * (1 - (value - self.low) / (self.high - self.low))

    def line(self, value, label):
        y = self.y(value)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" class="grid"/>'
        yield text(LEFT - 8, y + 4, label, "small", "end")

    def curve(self, values, colour, width):
        path = " ".join(f"{self.x(i + 1):.1f},{self.y(v):.1f}" for i, v in enumerate(values))
        return f'<polyline points="{path}" class="line" stroke="{colour}" stroke-width="{width}"/>'


def legend():
    for x, colour, width, label in ((LEFT, FA2, 4, "attention by fa2, bfloat16"), (LEFT + 220, FLOAT32, 1.2, "materialised, float32")):
        yield f'<line x1="{x}" y1="66" x2="{x + 22}" y2="66" stroke="{colour}" stroke-width="{width}"/>'
        yield text(x + 28, 70, label)


def losses_panel(losses):
    most = math.ceil(max(losses["fa2"] + losses["float32"]))
    panel = Panel(TOP, LOSS_HEIGHT, 0, most, len(losses["fa2"]))
    for value in range(most + 1):
        yield from panel.line(value, value)
    yield panel.curve(losses["fa2"], FA2, 3.2)
    yield panel.curve(losses["float32"], FLOAT32, 1.2)


def differences_panel(losses):
    top, least = TOP + LOSS_HEIGHT + GAP, 1e-7
    apart = [math.log10(max(least, abs(a - b))) for a, b in zip(losses["fa2"], losses["float32"])]
    panel = Panel(top, DIFFERENCE_HEIGHT, math.floor(min(apart)), max(-1, math.ceil(max(apart))), len(apart))
    for power in range(panel.low, panel.high + 1):
        yield from panel.line(power, f"1e{power}")
    yield text(LEFT, top - 9, "difference of the two", "panel")
    yield panel.curve(apart, FA2, 1.6)
    for step in (1, *(len(apart) * i // 4 for i in range(1, 5))):
        yield text(panel.x(step), top + DIFFERENCE_HEIGHT + 17, step, "small", "middle")


def svg(document):
    facts, losses = document["facts"], document["losses"]
    width, height = LEFT + WIDTH + RIGHT, TOP + LOSS_HEIGHT + GAP + DIFFERENCE_HEIGHT + BOTTOM
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
             f"<style>{STYLE}</style>", f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
             text(LEFT, 30, f"Loss of a transformer in training, {facts['device']}", "title"),
             text(LEFT, 48, f"nats a byte; {facts['layers']} layers, attention {facts['attention']}", "small"), *legend(),
             *losses_panel(losses), *differences_panel(losses),
             text(LEFT + WIDTH / 2, height - 12, "step", "", "middle"), "</svg>", ""]
    return "\n".join(parts)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("losses", help="what fa2_train --json wrote")
    p.add_argument("--out", default="", help="the SVG to write; default: the JSON's name with .svg")
    a = p.parse_args()
    with open(a.losses) as f:
        document = json.load(f)
    with open(a.out or a.losses.removesuffix(".json") + ".svg", "w") as f:
        f.write(svg(document))


if __name__ == "__main__":
    main()
