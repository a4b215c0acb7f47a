"""Renders the recipe for every variant with rattler-build, without solving: no channel is asked.

    pip install py-rattler-build
    python conda-recipe/render.py

Rendering evaluates every expression and checks every key, so a recipe that has gone stale fails here.
"""

import os
import sys
from pathlib import Path

from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

HERE = Path(__file__).resolve().parent
EXPECTED = {"libcoll", "pycoll"}


def main() -> int:
    os.environ.setdefault("COLL_VERSION", (HERE.parent / "VERSION").read_text().strip())
    recipe = Stage0Recipe.from_file(HERE / "recipe.yaml")
    variants = VariantConfig.from_file(HERE / "variants.yaml")
    rendered = recipe.render(variants, RenderConfig(PlatformConfig(target_platform="linux-64")))
    names = set()
    for variant in rendered:
        package = variant.recipe.package
        needed = variant.recipe.requirements.to_dict()
        names.add(package.name)
        print(f"{package.name} {package.version} {dict(variant.variant)}")
        for place in ("build", "host", "run"):
            for requirement in needed.get(place, []):
                print(f"    {place:6} {requirement}")
    if names != EXPECTED:
        print(f"rendered {sorted(names)}, expected {sorted(EXPECTED)}", file=sys.stderr)
        return 1
    print(f"{len(rendered)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
