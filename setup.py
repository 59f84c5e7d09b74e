"""The packages of the wheel: three folders of the repository, one package when installed (see pyproject.toml)."""

from setuptools import find_packages, setup

NESTED = ("calculators", "frontends")
"""Folders beside ``costcore`` that become a part of it."""

nested = find_packages(include=[pattern for room in NESTED for pattern in (room, f"{room}.*")])
setup(packages=[*find_packages(include=["costcore", "costcore.*"]), *(f"costcore.{name}" for name in nested)])
