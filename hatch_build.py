"""Build the compiled modules, where there is a C compiler, while this package is built.

Every `compiled_*.pyx` has a twin in Python, so a build without a compiler gives a package that
works and is slower. Compiled modules lie beside their sources, and in wheels. `TM_PURE_PYTHON=1`
builds none. By hand: `python hatch_build.py`.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "src"
WORK = ROOT / "build" / "compiled"
PURE = "running the slower pure Python code"


class CompiledModules(BuildHookInterface[Any]):
    """Builds the compiled modules, and puts them into wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before the files of a wheel are collected."""
        if self.target_name != "wheel":
            return
        if problem := build():
            self.app.display_warning(problem)
        elif version != "editable":
            built = [compiled_name(source) for source in sources()]
            build_data["force_include"] |= {str(SOURCES / each): str(each) for each in built}
            build_data |= {"pure_python": False, "infer_tag": True}


def build() -> str:
    """Compile every module that changed, beside its source; return what was in the way."""
    if os.environ.get("TM_PURE_PYTHON", "") not in ("", "0"):
        return f"TM_PURE_PYTHON is set: {PURE}"
    if not has_compiler():
        return f"no C compiler: {PURE}"
    try:
        compile_modules([source for source in sources() if is_stale(source)])
    except Exception as error:
        # Whatever it is, the twins in Python run.
        return f"compiling failed: {PURE} ({type(error).__name__}: {error})"
    return ""


def sources() -> list[Path]:
    """Return the modules to compile, relative to the folder of the package."""
    return [path.relative_to(SOURCES) for path in sorted(SOURCES.rglob("*.pyx"))]


def compiled_name(source: Path) -> Path:
    """Return where the compiled form of a module belongs."""
    return source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))


def is_stale(source: Path) -> bool:
    """Say whether a module, or what all of them share, changed since it was compiled."""
    built = SOURCES / compiled_name(source)
    inputs = [SOURCES / source, Path(__file__), *SOURCES.rglob("*.pxd")]
    return not built.exists() or any(
        path.stat().st_mtime > built.stat().st_mtime for path in inputs
    )


def has_compiler() -> bool:
    """Say whether the C compiler is there that extensions of this Python are built with."""
    if sys.platform == "win32":
        return True  # setuptools knows where to look for it
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


def compile_modules(modules: list[Path]) -> None:
    """Translate modules to C and compile them."""
    if not modules:
        return
    # Packages that only a build has.
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extensions = [
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(SOURCES / source)],
            # Debug information is nine tenths of the file.
            extra_compile_args=[] if sys.platform == "win32" else ["-g0"],
        )
        for source in modules
    ]
    translated = cythonize(extensions, build_dir=str(WORK), include_path=[str(SOURCES)], quiet=True)
    command = build_ext(Distribution({"ext_modules": translated}))
    command.build_lib, command.build_temp = str(SOURCES), str(WORK)
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    if problem := build():
        print(problem)
