"""Draws the JSON of bench/compare.py as one SVG of small panels: a row per mask, a column per head dim.

  python3 bench/plot.py docs/measurements/2026-11-23-h200-serving/forward.json --out forward.svg
  python3 bench/plot.py forward.json with_flex.json    # takes systems that the first file lacks from later ones
  python3 bench/plot.py forward.json --markdown        # the same as a table, on stdout
"""
import argparse
import json
import math
from html import escape

SYSTEMS = {  # name in the JSON -> label, colour
    "fa2": ("fa2", "#d9480f"),
    "CUDNN": ("cuDNN", "#2b8a3e"),
    "FLASH": ("FlashAttention-2", "#1864ab"),
    "FLEX": ("FlexAttention", "#862e9c"),
    "EFFICIENT": ("memory-efficient", "#868e96"),
}
MASKS = {False: "full", True: "causal"}
WIDTH, HEIGHT, GAP, ROW_GAP = 270, 170, 22, 60  # size of a panel, and gaps between panels
LEFT, TOP, RIGHT, BOTTOM = 62, 104, 24, 52
STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 12px; fill: #495057 }
  .title, .panel { font-weight: 600; fill: #212529 }
  .title { font-size: 17px }
  .small { font-size: 11px; fill: #868e96 }
  .grid { stroke: #e9ecef }
  .line { fill: none; stroke-linejoin: round; stroke-linecap: round }
"""


def text(x, y, content, css="", anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}"{extra}>{escape(str(content))}</text>'


def length(seqlen):
    return f"{seqlen // 1024}k" if seqlen % 1024 == 0 else str(seqlen)


def present(rows, names):
    return [n for n in names if any(n in r["tflops"] for r in rows)]


class Chart:
    def __init__(self, document):
        self.facts, self.rows = document["facts"], document["rows"]
        self.systems = present(self.rows, SYSTEMS)
        self.dims = sorted({r["d"] for r in self.rows})
        self.masks = sorted({r["causal"] for r in self.rows})
        self.seqlens = sorted({r["seqlen"] for r in self.rows})
        self.top = 100 * (int(max(x for r in self.rows for x in r["tflops"].values())) // 100 + 1)

    def x(self, column, seqlen):
        first, last, inset = self.seqlens[0], self.seqlens[-1], 14
        at = math.log2(seqlen / first) / (math.log2(last / first) or 1)
        return LEFT + column * (WIDTH + GAP) + inset + at * (WIDTH - 2 * inset)

    def y(self, line, tflops):
        return TOP + line * (HEIGHT + ROW_GAP) + HEIGHT * (1 - tflops / self.top)

    def axes(self, column, line, dim, causal):
        left, right = LEFT + column * (WIDTH + GAP), LEFT + column * (WIDTH + GAP) + WIDTH
        yield text(left, self.y(line, self.top) - 9, f"head dim {dim}, {MASKS[causal]}", "panel")
        for value in range(0, self.top + 1, 100 if self.top <= 400 else 200):
            y = self.y(line, value)
            yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid"/>'
            if column == 0:
                yield text(left - 8, y + 4, value, "small", "end")
        for seqlen in self.seqlens:
            yield text(self.x(column, seqlen), self.y(line, 0) + 17, length(seqlen), "small", "middle")

    def curve(self, column, line, name, rows):
        points = [(self.x(column, r["seqlen"]), self.y(line, r["tflops"][name])) for r in rows if name in r["tflops"]]
        colour, thick = SYSTEMS[name][1], name == "fa2"
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" class="line" stroke="{colour}" stroke-width="{3.2 if thick else 1.6}"/>'
        for x, y in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3.6 if thick else 2.2}" fill="{colour}"/>'

    def legend(self):
        x = LEFT
        for name in self.systems:
            label, colour = SYSTEMS[name]
            yield f'<line x1="{x:.1f}" y1="66" x2="{x + 22:.1f}" y2="66" stroke="{colour}" stroke-width="{4 if name == "fa2" else 2}"/>'
            yield text(x + 28, 70, label, "panel" if name == "fa2" else "")
            x += 54 + 6.2 * len(label)

    def svg(self, title):
        width = LEFT + len(self.dims) * (WIDTH + GAP) - GAP + RIGHT
        height = TOP + len(self.masks) * (HEIGHT + ROW_GAP) - ROW_GAP + BOTTOM
        versions = ", ".join(f"{n} {self.facts[n]}" for n in ("driver", "PyTorch", "CUDA", "cuDNN", "fa2") if n in self.facts)
        middle = (TOP + height - BOTTOM) / 2
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
                 f"<style>{STYLE}</style>", f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
                 text(LEFT, 30, f"{title}, {self.facts.get('GPU', '')}", "title"), text(LEFT, 48, versions, "small"),
                 text(18, middle, "TFLOP/s", "", "middle", f' transform="rotate(-90 18 {middle:.1f})"'),
                 text((LEFT + width - RIGHT) / 2, height - 12, "sequence length", "", "middle"), *self.legend()]
        for line, causal in enumerate(self.masks):
            for column, dim in enumerate(self.dims):
                rows = sorted((r for r in self.rows if (r["d"], r["causal"]) == (dim, causal)), key=lambda r: r["seqlen"])
                parts += self.axes(column, line, dim, causal)
                for name in reversed(self.systems):  # fa2 on top
                    parts += self.curve(column, line, name, rows)
        return "\n".join(parts + ["</svg>", ""])


def markdown(rows):
    names = present(rows, ("fa2", "FLASH", "CUDNN", "FLEX"))
    yield "| d | mask | seqlen | " + " | ".join(names) + " | fa2/CUDNN |\n" + "|---" * (len(names) + 4) + "|"
    for r in rows:
        t = r["tflops"]
        cells = [r["d"], MASKS[r["causal"]], r["seqlen"]] + [f"{t[n]:.0f}" if n in t else "-" for n in names]
        yield "| " + " | ".join(map(str, cells + [f"{t['fa2'] / t['CUDNN']:.2f}" if "CUDNN" in t else "-"])) + " |"


def merged(paths):
    """Returns the first file's document, with systems that it lacks from later files, at the points that it has on
    N(0,1) inputs."""
    documents = [json.load(open(path)) for path in paths]
    for d in documents:  # other classes of inputs would be further points at one place
        d["rows"] = [r for r in d["rows"] if r.get("inputs", "x1") == "x1"]
    point = lambda r: (r["d"], r["causal"], r["seqlen"])  # noqa: E731
    rows = {point(r): r for r in documents[0]["rows"]}
    for row in (r for d in documents[1:] for r in d["rows"] if point(r) in rows):
        rows[point(row)]["tflops"] = row["tflops"] | rows[point(row)]["tflops"]
    return documents[0]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("measurements", nargs="+", help="what bench/compare.py --out wrote: JSON")
    p.add_argument("--out", default="", help="the SVG to write; default: the first JSON's name with .svg")
    p.add_argument("--title", default="Attention forward")
    p.add_argument("--markdown", action="store_true", help="print a Markdown table instead")
    a = p.parse_args()
    document = merged(a.measurements)
    if a.markdown:
        print("\n".join(markdown(document["rows"])))
        return
    with open(a.out or a.measurements[0].removesuffix(".json") + ".svg", "w") as f:
        f.write(Chart(document).svg(a.title))


if __name__ == "__main__":
    main()
