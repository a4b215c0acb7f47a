"""Makes the CFFI extension ``pycoll._coll`` out of coll.h, so that no declaration is written twice.

The C preprocessor runs over coll.h; what comes from the header itself (not from what it includes) is what cffi parses.
In API mode the C compiler checks every declaration against the header once more.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from cffi import FFI

MODULE = "pycoll._coll"
SHIMS = [Path(__file__).with_name(name) for name in ("_shim.h", "_probe.h")]


def find_header(include_dirs: Iterable[str]) -> Path:
    """The first coll.h along ``include_dirs``."""
    tried = [Path(directory) / "coll.h" for directory in include_dirs]
    for header in tried:
        if header.is_file():
            return header
    raise FileNotFoundError("coll.h is in none of: " + ", ".join(str(header.parent) for header in tried))


def declarations(header: Path) -> str:
    """The declarations of ``header`` in the form that ``ffi.cdef`` takes."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-E", f"-I{header.parent}", str(header)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        marker = re.match(r'#\s*(?:line\s+)?\d+\s+"([^"]*)"', line)
        if marker:
            inside = Path(marker.group(1)).name == header.name
        elif inside:
            kept.append(line)
    # cffi's parser knows no attributes; they nest at most one parenthesis deeper, as in format(printf, 2, 3).
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", "\n".join(kept))


def shim_source() -> str:
    """What the extension has in C beside libcoll: the blocking calls as Python makes them, and the bench's probes."""
    return "".join(shim.read_text(encoding="utf-8") for shim in SHIMS)


def shim_declarations() -> str:
    """The prototypes of the functions in the shims, which each begin with PYCOLL_API."""
    text = re.sub(r"/\*.*?\*/", "", shim_source(), flags=re.DOTALL)
    prototypes = re.findall(r"^PYCOLL_API\s+([^{]*?)\s*\{", text, flags=re.MULTILINE)
    constants = "enum { PYCOLL_CAREFUL = ..., PYCOLL_PROBE_LINE = ... };\n"
    return constants + "".join(f"{prototype};\n" for prototype in prototypes)


def make_ffibuilder(
    include_dirs: Sequence[str] = (),
    library_dirs: Sequence[str] = (),
    libraries: Sequence[str] = ("coll",),
    runtime_library_dirs: Sequence[str] = (),
) -> FFI:
    """A builder of the extension; the arguments are those of a setuptools Extension."""
    builder = FFI()
    builder.cdef(declarations(find_header(include_dirs)))
    builder.cdef(shim_declarations())
    builder.set_source(
        MODULE,
        "#include <coll.h>\n" + shim_source(),
        include_dirs=list(include_dirs),
        library_dirs=list(library_dirs),
        libraries=list(libraries),
        runtime_library_dirs=list(runtime_library_dirs),
    )
    return builder
