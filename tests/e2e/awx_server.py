"""As much of AWX's API as the modules of awx.awx ask for: lists with filters, create, change, associations, surveys.

It keeps objects as they are sent. Paths and answers follow awx/api of AWX 24.6.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Thing = dict[str, Any]
# What a new object has although nobody sent it: the defaults that the modules compare with.
DEFAULTS: dict[str, Thing] = {
    "projects": {"status": "successful", "summary_fields": {}, "scm_revision": ""},
    "credential_types": {"managed": False},
}
ALIASES = {"unified_job_templates": ("job_templates", "workflow_job_templates", "projects", "inventory_sources")}


class AwxServer(ThreadingHTTPServer):
    """The objects, by kind and id, and what was associated with what."""

    def __init__(self) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.next_id = 1
        self.things: dict[str, dict[int, Thing]] = {}
        self.links: dict[tuple[str, int, str], list[int]] = {}
        self.surveys: dict[tuple[str, int], Thing] = {}
        self.changes: list[str] = []
        self.add("organizations", {"name": "Default"})
        self.changes.clear()

    @property
    def address(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, kind: str, fields: Thing) -> Thing:
        """Keep a new object and return it as the API shows it."""
        number, self.next_id = self.next_id, self.next_id + 1
        url = f"/api/v2/{kind}/{number}/"
        related = {"survey_spec": f"{url}survey_spec/", "current_job": "", "last_job": ""}
        thing = DEFAULTS.get(kind, {}) | {"id": number, "url": url, "type": kind[:-1], "related": related} | fields
        self.things.setdefault(kind, {})[number] = thing
        self.changes.append(f"POST {kind} {fields.get('name') or fields.get('identifier')}")
        return self.shown(kind, thing)

    def shown(self, kind: str, thing: Thing) -> Thing:
        """Return an object as a reader sees it: no secret is ever shown."""
        if kind != "credentials":
            return thing
        return thing | {"inputs": dict.fromkeys(thing.get("inputs", {}), "$encrypted$")}

    def found(self, kind: str, query: dict[str, str]) -> list[Thing]:
        """Return the objects of a kind whose fields are as asked."""
        kinds = ALIASES.get(kind, (kind,))
        rows = [self.shown(k, thing) for k in kinds for thing in self.things.get(k, {}).values()]
        return [row for row in rows if all(str(row.get(key)) == value for key, value in query.items() if key != "type")]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: AwxServer

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a list, an object, a survey or a list of associated objects."""
        parts, query = self._asked()
        with self.server.lock:
            if len(parts) == 1:
                self._list(self.server.found(parts[0], query))
            elif len(parts) == 2:
                thing = self.server.things.get(parts[0], {}).get(int(parts[1]))
                self._answer(200, self.server.shown(parts[0], thing)) if thing else self._answer(404, {})
            elif parts[2] == "survey_spec":
                self._answer(200, self.server.surveys.get((parts[0], int(parts[1])), {}))
            else:
                self._list(
                    [{"id": number} for number in self.server.links.get((parts[0], int(parts[1]), parts[2]), [])]
                )

    def do_POST(self) -> None:
        """Make an object, set a survey, or associate."""
        parts, _query = self._asked()
        body = self._body()
        with self.server.lock:
            if len(parts) == 1:
                self._answer(201, self.server.add(parts[0], body))
            elif parts[2] == "survey_spec":
                self.server.surveys[parts[0], int(parts[1])] = body
                self.server.changes.append(f"POST survey of {parts[0]} {parts[1]}")
                self._answer(200, {})
            elif parts[2] == "create_approval_template":
                made = self.server.add("workflow_approval_templates", body)
                node = self.server.things["workflow_job_template_nodes"][int(parts[1])]
                node["related"] = node["related"] | {"unified_job_template": made["url"]}
                self._answer(201, made)
            else:
                self._associate((parts[0], int(parts[1]), parts[2]), body)

    def do_PATCH(self) -> None:
        """Change an object."""
        parts, _query = self._asked()
        body = self._body()
        with self.server.lock:
            thing = self.server.things[parts[0]][int(parts[1])]
            thing.update(body)
            self.server.changes.append(
                f"PATCH {parts[0]} {thing.get('name') or thing.get('identifier')} {sorted(body)}"
            )
            self._answer(200, self.server.shown(parts[0], thing))

    def _associate(self, key: tuple[str, int, str], body: Thing) -> None:
        links = self.server.links.setdefault(key, [])
        if body.get("disassociate"):
            links.remove(body["id"])
        else:
            links.append(body["id"])
        self.server.changes.append(f"POST {key} {body}")
        self._answer(204, None)

    def _asked(self) -> tuple[list[str], dict[str, str]]:
        url = urlsplit(self.path)
        parts = url.path.removeprefix("/api/v2/").strip("/").split("/")
        if self.headers.get("Authorization") != "Bearer open-sesame":
            parts = ["nobody"]
        return parts, dict(parse_qsl(url.query))

    def _body(self) -> Thing:
        found: Thing = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        return found

    def _list(self, rows: list[Thing]) -> None:
        self._answer(200, {"count": len(rows), "next": None, "results": rows})

    def _answer(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("X-API-Product-Name", "AWX")
        self.send_header("X-API-Product-Version", "24.6.1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
