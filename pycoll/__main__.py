"""python -m pycoll: the same as the command ``pycoll``."""

from .cli import main

main(prog_name="pycoll")
