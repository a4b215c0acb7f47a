"""Builds pycoll: libcoll through CMake, bundled in the package, and the CFFI extension over it.

    pip install .                       libcoll built here and bundled (pycoll/lib, pycoll/include)
    PYCOLL_USE_SYSTEM=1 pip install .   the extension alone, over an installed libcoll that pkg-config finds

PYCOLL_CMAKE_ARGS holds further arguments for CMake, e.g. -DCOLL_LIBFABRIC=OFF. What is not code is in pyproject.toml.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
CMAKE_MINIMUM = (3, 18)
USE_SYSTEM = os.environ.get("PYCOLL_USE_SYSTEM", "0")
if USE_SYSTEM not in ("0", "1"):
    raise SystemExit(f"PYCOLL_USE_SYSTEM is {USE_SYSTEM!r}; allowed are 0 and 1")
USE_SYSTEM = USE_SYSTEM == "1"
# The limited API gives one wheel for all versions of Python, except for those without the global lock.
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
OLDEST_PYTHON = (3, 10)


def output_of(*command):
    """What the command prints, or None if it is missing or fails."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def cmake_is_usable():
    found = re.search(r"version (\d+)\.(\d+)", output_of("cmake", "--version") or "")
    return found is not None and tuple(map(int, found.groups())) >= CMAKE_MINIMUM


def missing_debian_packages():
    """The Debian packages that bring what this build needs and does not find."""
    compiler = shlex.split(os.environ.get("CC", "cc"))[0]
    python_header = Path(sysconfig.get_path("include"), "Python.h")
    checks = {
        "gcc": shutil.which(compiler),
        "pkg-config": shutil.which("pkg-config"),
        "python3-dev": python_header.exists(),
    }
    if not USE_SYSTEM:
        checks["make"] = shutil.which("make") or shutil.which("ninja")
        # Without pkg-config it cannot be known; it is then the first thing to install.
        checks["libsodium-dev"] = (
            not checks["pkg-config"] or output_of("pkg-config", "--exists", "libsodium") is not None
        )
    return [package for package, found in checks.items() if not found]


def load_ffi_build():
    """pycoll/_ffi_build.py, without importing pycoll, which needs the extension that is being built."""
    spec = importlib.util.spec_from_file_location("pycoll_ffi_build", ROOT / "pycoll" / "_ffi_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildExt(build_ext):
    def run(self):
        # What an earlier build with other settings left must not be taken for this one's.
        self.force = True
        # setuptools builds in place by building elsewhere and copying the extension alone; libcoll goes there directly.
        in_place = self.inplace or getattr(self, "editable_mode", False)
        self.destination = ROOT / "pycoll" if in_place else Path(self.build_lib, "pycoll").resolve()
        for directory in ("lib", "include"):
            shutil.rmtree(self.destination / directory, ignore_errors=True)
        super().run()

    def build_extension(self, ext):
        missing = missing_debian_packages()
        if missing:
            raise SystemExit(
                f"pycoll cannot be built, something is missing. On Debian: apt-get install {' '.join(missing)}"
            )
        where = self.use_system_library() if USE_SYSTEM else self.build_library()
        source = Path(self.build_temp, "_coll.c")
        source.parent.mkdir(parents=True, exist_ok=True)
        load_ffi_build().make_ffibuilder(**where).emit_c_code(str(source))
        ext.sources = [str(source)]
        for key, value in where.items():
            setattr(ext, key, value)
        super().build_extension(ext)

    def build_library(self):
        # Not in build_temp, which an editable install throws away: only what changed is compiled again.
        build = ROOT / "build" / "pycoll"
        configure = [
            "cmake",
            f"-S{ROOT}",
            f"-B{build}",
            f"-DCMAKE_INSTALL_PREFIX={self.destination}",
            "-DCMAKE_INSTALL_LIBDIR=lib",
            "-DCMAKE_INSTALL_INCLUDEDIR=include",
            f"-DCOLL_VERSION={self.distribution.get_version()}",
            "-DCOLL_TESTS=OFF",
            "-DCOLL_STATIC=OFF",
            "-DCOLL_VERSIONED_SONAME=OFF",
            *shlex.split(os.environ.get("PYCOLL_CMAKE_ARGS", "")),
        ]
        # Objects are kept, settings of an earlier build are not.
        (build / "CMakeCache.txt").unlink(missing_ok=True)
        jobs = str(min(os.cpu_count() or 1, 8))
        try:
            subprocess.run(configure, check=True)
            subprocess.run(["cmake", "--build", str(build), "--parallel", jobs], check=True)
            subprocess.run(["cmake", "--install", str(build)], check=True)
        except subprocess.CalledProcessError as error:
            raise SystemExit(
                f"libcoll could not be built: {shlex.join(error.cmd)} failed; its messages are above"
            ) from None
        return {
            "include_dirs": [str(self.destination / "include")],
            "library_dirs": [str(self.destination / "lib")],
            "libraries": ["coll"],
            "runtime_library_dirs": ["$ORIGIN/lib"],
        }

    def use_system_library(self):
        if output_of("pkg-config", "--exists", "libcoll") is None:
            raise SystemExit(
                "PYCOLL_USE_SYSTEM=1, but pkg-config does not know libcoll. Install it (cmake --install) and add the "
                "directory of libcoll.pc to PKG_CONFIG_PATH"
            )
        library_dir = output_of("pkg-config", "--variable=libdir", "libcoll")
        return {
            "include_dirs": [output_of("pkg-config", "--variable=includedir", "libcoll")],
            "library_dirs": [library_dir],
            "libraries": ["coll"],
            "runtime_library_dirs": [str(Path(library_dir).resolve())],
        }


tag = "cp{}{}".format(*OLDEST_PYTHON)
setup(
    ext_modules=[
        Extension(
            "pycoll._coll",
            sources=[],  # generated from coll.h while building
            py_limited_api=LIMITED_API,
            define_macros=[("Py_LIMITED_API", "0x{:02x}{:02x}0000".format(*OLDEST_PYTHON))] if LIMITED_API else [],
        )
    ],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": tag}} if LIMITED_API else {},
    # A build requirement only where the system has no usable one.
    setup_requires=[] if USE_SYSTEM or cmake_is_usable() else ["cmake>={}.{}".format(*CMAKE_MINIMUM)],
    use_scm_version={
        "version_file": "pycoll/_version.py",
        "fallback_version": (ROOT / "VERSION").read_text().strip(),
    },
)
