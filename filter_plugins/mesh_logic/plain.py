"""Ansible hands lazy, tagged containers to filters; YAML and JSON writers take plain ones only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from mesh_logic.errors import as_filter


def plain(value: Any) -> Any:
    """Return a value as plain dicts, lists and text."""
    if isinstance(value, dict):
        return {str.__str__(key) if isinstance(key, str) else key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str.__str__(value) if isinstance(value, str) else value


def plain_filter(function: Callable[..., Any], error: type[Exception]) -> Callable[..., Any]:
    """Return a function as a filter: its arguments become plain values, its MeshErrors the given error."""

    @wraps(function)
    def with_plain_values(*args: Any, **kwargs: Any) -> Any:
        return function(*(plain(a) for a in args), **{key: plain(a) for key, a in kwargs.items()})

    return as_filter(with_plain_values, error)
