"""What must not be written down becomes `***`: tokens, passwords, keys, and what stands before the @ of a URL."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "***"
# A JSON Web Token is three base64url parts, and its first begins with {" (RFC 7519).
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
# "bearer authentication" is no secret: a token is long and has digits.
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+(?=[a-z.~+/=_-]*\d)[\w.~+/=-]{12,}")
_PEM = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@'\"]+@")
# key=value, key: value and "key": "value" of what carries secrets, with the spellings of kubeconfigs and flags.
_KEYS = r"(?:[\w-]*(?:password|passwd|secret|token)|client-key-data|client-certificate-data|authorization|api[-_]?key)"
_PAIR = re.compile(rf"(?i)(?<![\w-])((?:--)?{_KEYS}[\"']?\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"']+)")
# A flag whose value is the next word, and the path of a setting that holds a secret.
_FLAG = re.compile(rf"(?i)--{_KEYS}")
_SETTING = re.compile(rf"(?i)(?:.*[.\[])?{_KEYS}\]?(?:\.value)?")


def redact_text(text: str) -> str:
    """Return text in which secrets are hidden; what is hidden already stays as it is."""
    text = _PEM.sub(HIDDEN, text)
    text = _URL.sub(rf"\1{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    text = _JWT.sub(HIDDEN, text)
    return _PAIR.sub(lambda found: found.group(0) if HIDDEN in found.group(2) else found.group(1) + HIDDEN, text)


def redact(value: Any) -> Any:
    """Return a value of dicts, lists and texts in which secrets are hidden; keys and other types stay."""
    if isinstance(value, dict):
        plain = {key: redact(item) for key, item in value.items()}
        return _hide_setting(plain) if _SETTING.fullmatch(str(plain.get("setting", ""))) else plain
    if isinstance(value, list):
        hide_next = [False, *(isinstance(item, str) and bool(_FLAG.fullmatch(item)) for item in value)]
        return [
            HIDDEN if hide and isinstance(item, str) else redact(item)
            for item, hide in zip(value, hide_next, strict=False)
        ]
    return redact_text(value) if isinstance(value, str) else value


def _hide_setting(row: dict[str, Any]) -> dict[str, Any]:
    """Return the comparison of a setting (see `settings_diff.Finding`) without its two values."""
    values = sorted({str(row[key]) for key in ("running", "new") if row.get(key)}, key=len, reverse=True)
    found = dict(row)
    for key, item in row.items():
        if isinstance(item, str) and key not in ("setting", "kind", "object"):
            for value in values:
                found[key] = found[key].replace(value, HIDDEN)
    return found
