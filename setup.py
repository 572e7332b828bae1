"""Builds the two C extension modules; everything else is declared in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

FLAGS = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]


def extension(name: str) -> Extension:
    folder = Path("csrc") / name
    return Extension(
        f"stator._{name}",
        sources=sorted(str(path) for path in folder.glob("*.c")),
        depends=sorted(str(path) for path in folder.glob("*.h")),
        include_dirs=["csrc"],
        extra_compile_args=FLAGS,
    )


setup(ext_modules=[extension("entry"), extension("frames")])
