"""Fixtures of the unit tests."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def module_util() -> object:
    """Return a function that imports one of this project's module_utils."""

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"ansible.module_utils.{name}")

    return load
