"""The diagram of libcoll's layers, drawn from the table that the lint test holds, and the files of each layer."""

from __future__ import annotations

import ast
import re
from xml.sax.saxutils import escape

from .files import ROOT, SOURCE, first_comment, paragraphs, save, table
from .files import escape as rest

# Layers that so many others include that their arrows would hide the rest; the legend says it in words.
EVERYWHERE = {"base": "all layers include base", "data": "dashed: includes data"}
# From left to right within a level, so that few arrows cross.
ORDER = ["transport", "bootstrap", "p2p", "sched", "engine", "node", "data", "topo", "select", "algo", "pattern", "api"]
WIDTH, HEIGHT, GAP, RISE, MARGIN = 104, 34, 22, 84, 16


def write() -> None:
    allowed = table_of_layers()
    save("layers.svg", diagram(allowed))
    for layer in allowed:
        if (SOURCE / layer).is_dir():
            save(f"layers/{layer}.inc", "\n".join(files(layer)))


def table_of_layers() -> dict[str, set[str]]:
    """ALLOWED of tests/lint/test_layers.py, without importing it."""
    tree = ast.parse((ROOT / "tests" / "lint" / "test_layers.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALLOWED":
            value = ast.literal_eval(ast.unparse(node.value).replace("set()", "[]"))  # set() is not a literal
            return {layer: set(others) for layer, others in value.items()}
    raise ValueError("tests/lint/test_layers.py has no table ALLOWED")


def levels(allowed: dict[str, set[str]]) -> list[list[str]]:
    """Each layer above all that it includes; base is the ground."""
    level: dict[str, int] = {}

    def height(layer: str) -> int:
        if layer not in level:
            level[layer] = 1 + max((height(other) for other in allowed[layer]), default=0)
        return level[layer]

    rows: list[list[str]] = [[] for _ in range(max(map(height, allowed)))]
    for layer in sorted(set(allowed) - {"base"}, key=lambda name: (ORDER.index(name) if name in ORDER else 99, name)):
        rows[level[layer] - 1].append(layer)
    return rows


def diagram(allowed: dict[str, set[str]]) -> str:
    rows = levels(allowed)
    widest = max(map(len, rows))
    width = widest * (WIDTH + GAP) - GAP + 2 * MARGIN
    height = (len(rows) + 1) * RISE - (RISE - HEIGHT) + 2 * MARGIN + 26
    place = {}
    for number, row in enumerate(rows):
        space = (width - 2 * MARGIN - len(row) * WIDTH) / (len(row) + 1) if len(row) < widest else 0
        for index, layer in enumerate(row):
            x = MARGIN + (space + index * (WIDTH + space) if space else index * (WIDTH + GAP))
            place[layer] = (x, MARGIN + (len(rows) - 1 - number) * RISE)
    ground = MARGIN + len(rows) * RISE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" font-size="14"'
        ' font-family="sans-serif">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#5b6b7d"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for layer in place:
        for other in sorted(allowed[layer] - {"base"}):
            lines.append(arrow(layer, other, place, dashed=other in EVERYWHERE))
    for layer, (x, y) in place.items():
        lines.append(box(layer, x, y, WIDTH))
    lines.append(box("base", MARGIN, ground, width - 2 * MARGIN))
    legend = "an arrow: may include    " + "    ".join(EVERYWHERE.values())
    lines.append(
        f'<text x="{MARGIN}" y="{height - 10}" font-size="12" fill="#445566" xml:space="preserve">'
        f"{escape(legend)}</text>"
    )
    return "\n".join([*lines, "</svg>"])


def box(layer: str, x: float, y: float, width: float) -> str:
    return (
        f'<g id="{layer}"><rect x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="5" fill="#eaf1f8"'
        f' stroke="#34506b"/><text x="{x + width / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle"'
        f' fill="#12263a">{layer}</text></g>'
    )


def arrow(layer: str, other: str, place: dict[str, tuple[float, float]], dashed: bool) -> str:
    """From the bottom of one box to the top of the other; a little aside, so that arrows do not end in one point."""
    (x, y), (other_x, other_y) = place[layer], place[other]
    lean = max(-1.0, min(1.0, (other_x - x) / 300))
    start, end = x + WIDTH * (0.5 + 0.3 * lean), other_x + WIDTH * (0.5 - 0.3 * lean)
    style = ' stroke-dasharray="4 4" opacity="0.6"' if dashed else ""
    return (
        f'<path class="{layer}-{other}" d="M{start:g},{y + HEIGHT} L{end:g},{other_y - 1:g}" stroke="#5b6b7d"'
        f' fill="none"{style} marker-end="url(#arrow)"/>'
    )


def files(layer: str) -> list[str]:
    """The layer's files with the first sentence of each."""
    rows = []
    for path in sorted([*(SOURCE / layer).rglob("*.h"), *(SOURCE / layer).rglob("*.c")]):
        sentence = re.split(r"(?<=[.:;])\s", paragraphs(first_comment(path))[0])[0]
        rows.append((f"``{path.relative_to(SOURCE / layer)}``", rest(sentence.rstrip(":;"))))
    return table(("File", "Idea"), rows, "30 70")
