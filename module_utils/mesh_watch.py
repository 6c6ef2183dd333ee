"""Follow collections of objects: one watch each, so that waiting for many rollouts costs two requests a minute."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from ansible.module_utils.mesh_api import METADATA_ONLY, MeshApi, MeshApiError, meta

with contextlib.suppress(ImportError):  # MeshApi says what is missing, in words
    import urllib3

# Seconds after which the API server ends a watch, and how much later an answer that stays away counts as lost.
WINDOW = 30
GRACE = 10
# A server or an account that lists and does not watch.
FORBIDDEN = (400, 401, 403, 404, 405)
# Seconds between two looks at what came, however much comes.
PACE = 0.2


class Lost(Exception):
    """A watch that ended before its time, or whose place in history the server no longer knows (410)."""


def lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream whose pieces end anywhere."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
    if rest.strip():
        yield rest


def opened(api: MeshApi, path: str, version: str, window: float) -> Any:
    """Ask for a watch from a resourceVersion on; returns the answer, whose body is still to come.

    Raises:
        MeshApiError: the server refused it (a missing right is 403) or did not answer.
    """
    query = {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": int(window),
    }
    headers = {"Accept": "application/json"}
    with api._lock:  # a watch is a request like the others: same credentials, same count
        api._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        api.requests += 1
    url = f"{api.server}{path}?{urlencode(query)}"
    client = api._client.rest_client
    try:
        answer = client.request("GET", url, headers=headers, _request_timeout=(10, window + GRACE))
        if answer.status != 200:
            raise api._refused("GET", path, answer.status, answer.reason, answer.read())
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise api._unreachable(error) from None
    return answer.response


class Watch:
    """One collection, followed in a thread of its own from the moment it was opened.

    Args:
        api: the connection.
        path: the collection's API path.
        changed: set whenever something came.
        window: seconds that one request lasts.
    """

    def __init__(self, api: MeshApi, path: str, changed: threading.Event, window: float = WINDOW) -> None:
        """Take the place in history from which on changes are told; what was before it is for a list."""
        self.api, self.path, self.changed, self.window = api, path, changed, window
        listed = api.request("GET", path, {"limit": 1}, accept=METADATA_ONLY)
        self.version = str(meta(listed).get("resourceVersion") or "")
        self.came: list[tuple[bool, dict[str, Any]]] = []
        self.over: BaseException | None = None
        self.closed = False
        self.answer: Any = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name=f"watch {path}", daemon=True)
        self._thread.start()

    def take(self) -> list[tuple[bool, dict[str, Any]]]:
        """Return what came since the last time: whether the object is there, and the object. Order is the server's."""
        with self._lock:
            came, self.came = self.came, []
        return came

    def close(self) -> None:
        """Stop following; the thread ends now, or with its request at the latest."""
        self.closed = True
        shutdown = getattr(self.answer, "shutdown", None)  # urllib3 >= 2.3 wakes who reads
        if shutdown:
            with contextlib.suppress(ValueError, OSError, urllib3.exceptions.HTTPError):
                shutdown()

    def _follow(self) -> None:
        try:
            while not self.closed:
                self._once()
        except Exception as error:  # whatever it was: who waits must hear of it, and list again
            self.over = error
        self.changed.set()

    def _once(self) -> None:
        """Follow for one request; the next one goes on where it ended."""
        began = time.monotonic()
        self.answer = opened(self.api, self.path, self.version, self.window)
        try:
            for line in lines(self.answer.stream(2**14)):
                self._note(json.loads(line))
        finally:
            self.answer.close()
        if time.monotonic() - began < 1:  # a server that ends them at once is not to be asked without end
            raise Lost(f"{self.path}: the watch ended at once")

    def _note(self, event: dict[str, Any]) -> None:
        kind, item = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise Lost(f"{self.path}: {item.get('message')}")
        self.version = str(meta(item).get("resourceVersion") or self.version)
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            with self._lock:
                self.came.append((kind != "DELETED", item))
            self.changed.set()


class Watches:
    """Several collections, followed at the same time."""

    def __init__(self, api: MeshApi, window: float = WINDOW) -> None:
        """Follow nothing yet."""
        self.api, self.window = api, window
        self.changed = threading.Event()
        self.running: dict[str, Watch] = {}
        self.refused: dict[str, str] = {}

    def open(self, path: str) -> bool:
        """Follow a collection from now on, unless it is followed; returns whether its objects must be listed.

        A collection that may be listed and not watched (403) is listed each time.

        Raises:
            MeshApiError: the API server is in trouble.
        """
        watch = self.running.get(path)
        if watch and watch.over is None:
            return False
        self.running.pop(path, None)
        if watch and isinstance(watch.over, MeshApiError) and watch.over.status in FORBIDDEN:
            self.refused[path] = str(watch.over)
        if path not in self.refused:
            self.running[path] = Watch(self.api, path, self.changed, self.window)
        return True

    def take(self, path: str) -> list[tuple[bool, dict[str, Any]]]:
        """Return what came of a collection since the last time."""
        return self.running[path].take() if path in self.running else []

    def wait(self, seconds: float) -> None:
        """Wait until something came, but no longer than some seconds; what must be listed is not listed more often."""
        if self.refused:
            time.sleep(seconds)
        elif self.changed.wait(seconds):
            time.sleep(PACE)  # what comes together is looked at together
            self.changed.clear()

    def close(self) -> None:
        """Stop following everything."""
        for watch in self.running.values():
            watch.close()
