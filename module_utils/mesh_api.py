"""One small client for the Kubernetes API: paged lists, patches, exec; plain dicts in and out.

Credentials, TLS and retries come from the `kubernetes` client (kubeconfig, exec plugins, proxies);
the typed and dynamic layers above it are left out because they cost four to seven times the time of
the request itself on large lists.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import os
import re
import ssl
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urlencode, urlsplit

try:
    import urllib3
    import yaml
    from kubernetes import client as k8s_client
    from kubernetes import config as k8s_config
    from kubernetes.stream import ws_client
    from websocket import WebSocketException

    IMPORT_ERROR = ""
except ImportError:
    IMPORT_ERROR = traceback.format_exc()

Row = TypeVar("Row")
PAGE_SIZE = 500
# The token of the next page: the metadata of a list comes before its items.
CONTINUE = re.compile(rb'"continue":"([^"\\\\]+)"')
# How the API server writes the lists of its own kinds: what they are, their metadata, then the objects. Lists of custom
# kinds come in the order of the alphabet, with the metadata behind the objects (apimachinery, unstructured).
LIST_HEAD = re.compile(r'\{"kind":"\w+","apiVersion":"[\w./-]+","metadata":')
LIST_ITEMS = re.compile(r',"items":\[')
COMMA = re.compile(r"\s*,\s*")
DECODER = json.JSONDecoder()
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

# How every module of this project names the cluster; merged into its argument_spec.
CONNECTION_SPEC: dict[str, Any] = {
    "kubeconfig": {"type": "str", "default": ""},
    "context": {"type": "str", "default": ""},
    "request_timeout": {"type": "int", "default": 60},
}


class MeshApiError(Exception):
    """A request that did not give what was asked for. Its text is meant for the operator.

    Attributes:
        status: HTTP status, or 0 when no answer came.
        body: the API server's own message, never a credential.
        result: what was done before it went wrong, for the task's result.
    """

    def __init__(self, text: str, status: int = 0, body: str = "", result: dict[str, Any] | None = None) -> None:
        """Keep the operator's text beside the status and the server's words."""
        super().__init__(text)
        self.status = status
        self.body = body
        self.result = result or {}


class _CollectorPause:
    """Keeps Python's collector of reference cycles off while lists are decoded, by however many threads at once.

    JSON holds no cycles, but the collector walks every new object of a page again and again to find that out: it costs
    two thirds of the time of decoding 25 KB pods, more in a process as full of objects as ansible-playbook.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._was_on = False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Keep it off until the last user leaves, then put it back as it was."""
        with self._lock:
            if not self._users:
                self._was_on = gc.isenabled()
                gc.disable()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users and self._was_on:
                    gc.enable()


collector_paused = _CollectorPause()


def list_head(text: str) -> tuple[dict[str, Any], int] | None:
    """Return (metadata of a list, where its objects begin), or None where it is not written as `LIST_HEAD` says."""
    head = LIST_HEAD.match(text)
    if not head:
        return None
    try:
        details, at = DECODER.raw_decode(text, head.end())
    except ValueError:
        return None
    items = LIST_ITEMS.match(text, at)
    return (details, items.end()) if items else None


def objects_from(text: str, at: int) -> Iterator[dict[str, Any]]:
    """Decode the objects of a list one by one, from where `list_head` says; none is kept here.

    Raises:
        ValueError: an object is not JSON, or the list ends before its end.
    """
    more = None if text.startswith("]", at) else COMMA
    while more:
        item, at = DECODER.raw_decode(text, at)
        yield item
        del item
        comma = more.match(text, at)
        more, at = (more, comma.end()) if comma else (None, at)
    if text[at:].strip() != "]}":
        raise ValueError(f"the list does not end where its objects do (character {at} of {len(text)})")


class MeshApi:
    """A connection to one cluster.

    Args:
        kubeconfig: path, or several joined by the OS path separator; empty means $KUBECONFIG, then
            ~/.kube/config, then the service account of the pod this runs in.
        context: context name; empty means the current one.
        request_timeout: seconds for one request.

    Raises:
        MeshApiError: no usable configuration.
    """

    def __init__(self, kubeconfig: str = "", context: str = "", request_timeout: int = 60) -> None:
        """Load the credentials; no request is made yet."""
        if IMPORT_ERROR:
            raise MeshApiError(
                f"The Python that runs this module ({sys.executable}) cannot import `kubernetes`: "
                f"{IMPORT_ERROR.strip().splitlines()[-1]}. Next: run Ansible from an environment made with "
                "`make setup`, or set ansible_python_interpreter to the Python that has it, such as "
                "'{{ ansible_playbook_python }}'."
            )
        self.kubeconfig = kubeconfig
        self.context = context
        self.timeout = request_timeout
        self.requests = 0
        self._lock = threading.Lock()
        self._client = self._connect()
        self._near = urlsplit(self.server).hostname in ("127.0.0.1", "localhost", "::1")

    def _connect(self) -> Any:
        paths = self.kubeconfig or os.environ.get("KUBECONFIG", "")
        try:
            if not paths and not os.path.exists(os.path.expanduser("~/.kube/config")):
                configuration = k8s_client.Configuration()
                k8s_config.load_incluster_config(client_configuration=configuration)
                return k8s_client.ApiClient(configuration=configuration)
            return k8s_config.new_client_from_config(
                config_file=paths or None, context=self.context or None, persist_config=False
            )
        except (k8s_config.ConfigException, OSError, yaml.YAMLError) as error:
            where = paths or "~/.kube/config"
            asked = f", context {self.context!r}" if self.context else ""
            raise MeshApiError(
                f"No usable kubeconfig at {where}{asked}: {str(error).rstrip('.')}. Next: set mesh_kubeconfig and "
                f"mesh_context, and try `kubectl --kubeconfig {where} config get-contexts`."
            ) from None

    @property
    def server(self) -> str:
        """URL of the API server this connection points at."""
        return str(self._client.configuration.host)

    def request(  # noqa: PLR0917 - HTTP has these six parts
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Any:
        """Make one request and return the decoded JSON body.

        Raises:
            MeshApiError: any status >= 400, no answer, or an answer that is not JSON.
        """
        return self._decoded(method, path, self._send(method, path, query, body, content_type, accept))

    def _decoded(self, method: str, path: str, data: bytes) -> Any:
        try:
            return json.loads(data or b"{}")
        except ValueError as error:
            raise self._not_json(method, path, error) from None

    def _not_json(self, method: str, path: str, error: ValueError) -> MeshApiError:
        return MeshApiError(
            f"{method} {path} on {self.server} answered something that is not JSON: {error}. Next: try again; when it "
            "stays, look at what stands between here and the API server."
        )

    def _send(  # noqa: PLR0917 - the same six parts
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Make one request and return the body as it came; several threads may do so at once."""
        headers = {"Accept": accept}
        if not self._near:  # on the same machine packing costs more than it saves
            headers["Accept-Encoding"] = "gzip"
        if body is not None:
            headers["Content-Type"] = content_type
        with self._lock:  # a credential plugin must not run twice, and the count must be right
            self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            self.requests += 1
        url = self.server + path + ("?" + urlencode(query) if query else "")
        try:
            answer = self._client.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=(10, self.timeout)
            )
            data: bytes = answer.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from None
        # the client's raw layer hands out refusals like answers: the status must be looked at here
        if not 200 <= answer.status <= 299:
            raise self._refused(method, path, answer.status, answer.reason, data)
        return data

    def _refused(self, method: str, path: str, status: int, reason: str, data: bytes) -> MeshApiError:
        raw = data.decode(errors="replace")
        try:
            said = str(json.loads(raw).get("message", raw))
        except (json.JSONDecodeError, AttributeError):
            said = raw
        said = " ".join(said.split())[:800] or reason
        if "system:anonymous" in said or status == 401:
            version = getattr(sys.modules.get("kubernetes"), "__version__", "unknown")
            hint = (
                f"the request carried no accepted credentials (kubernetes client {version}, Python "
                f"{sys.version.split()[0]}). Next: check the user of this context in the kubeconfig."
            )
        elif status == 403:
            hint = "this account lacks that right. Next: grant it (docs/rights.md), nothing was assumed to be empty."
        elif status == 404:
            hint = "the object or its API does not exist on this server."
        elif status in (429, 500, 503, 504):
            hint = "the API server is overloaded or one of its webhooks did not answer. Next: try again."
        else:
            hint = "the API server refused it."
        return MeshApiError(f"{method} {path} on {self.server}: HTTP {status}, {said} - {hint}", status, said)

    def _unreachable(self, error: Exception) -> MeshApiError:
        text = " ".join(str(error).split())
        if isinstance(error, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in text or "SSLError" in text:
            hint = (
                "its certificate was not accepted. Next: check certificate-authority(-data) in the kubeconfig. Python "
                "3.13 and later also refuse a cluster CA without the key usage extension: have the CA reissued with "
                "keyUsage=keyCertSign, or run with Python 3.12."
            )
        else:
            hint = (
                "no answer. Next: check that the cluster is up and reachable from here, for example with "
                "`kubectl --request-timeout 5s get --raw /version`."
            )
        return MeshApiError(f"The API server {self.server} cannot be used: {text[:400]} - {hint}")

    def list(self, path: str, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        """Return every object of a list as plain dicts; see `rows`, which keeps less of a long one."""
        return self.rows(path, lambda item: item, selector, metadata_only)

    def rows(
        self, path: str, make: Callable[[dict[str, Any]], Row], selector: str = "", metadata_only: bool = False
    ) -> builtins.list[Row]:
        """Return `make(object)` for every object of a list, read page by page; each object is forgotten at once.

        While a page is decoded the next one is already under way: its token stands near the start of the page. A token
        that expires (410) starts the whole list anew, so nothing comes twice. A 403, 404 or time-out raises, it is
        never `[]`.
        """
        for attempt in (1, 2, 3):
            try:
                return self._pages(path, make, selector, METADATA_ONLY if metadata_only else "application/json")
            except MeshApiError as error:
                if error.status != 410 or attempt == 3:
                    raise
        raise MeshApiError(f"GET {path} on {self.server}: the list expired three times while it was read.", 410)

    def _pages(
        self, path: str, make: Callable[[dict[str, Any]], Row], selector: str, accept: str
    ) -> builtins.list[Row]:
        query: dict[str, Any] = {"limit": PAGE_SIZE} | ({"labelSelector": selector} if selector else {})
        found: list[Row] = []
        with collector_paused(), ThreadPoolExecutor(1) as ahead:
            data = self._send("GET", path, query, accept=accept)
            while True:
                early = CONTINUE.search(data, 0, 4096)
                token = early.group(1).decode() if early else ""
                coming = (
                    ahead.submit(self._send, "GET", path, query | {"continue": token}, accept=accept) if token else None
                )
                last = self._take(path, data, make, found)
                if not last:
                    return found
                if coming is None or last != token:  # the token stood elsewhere, or needs decoding
                    data = self._send("GET", path, query | {"continue": last}, accept=accept)
                else:
                    data = coming.result()

    def _take(self, path: str, data: bytes, make: Callable[[dict[str, Any]], Row], found: builtins.list[Row]) -> str:
        """Add `make(object)` of every object of a page to `found`; return the token of the next page, or "".

        Objects are decoded one by one: 500 decoded pods of 25 KB take 60 MB, and longer than one that is still in the
        processor's cache. A page that is written in another way is decoded whole.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise self._not_json("GET", path, error) from None
        head = list_head(text)
        if head is None:
            del text
            page = self._decoded("GET", path, data)
            details = page.get("metadata") or {}
            if not isinstance(page.get("items", ""), list | None):
                raise MeshApiError(f"GET {path} on {self.server} is not a list: kind {page.get('kind')}.")
            found.extend(map(make, page.get("items") or []))
        else:
            details, at = head
            found.extend(map(make, self._objects(path, text, at)))
        return str(details.get("continue") or "")

    def _objects(self, path: str, text: str, at: int) -> Iterator[dict[str, Any]]:
        try:
            yield from objects_from(text, at)
        except ValueError as error:  # never one of who takes the objects: those do not pass through here
            raise self._not_json("GET", path, error) from None

    def get(self, path: str) -> dict[str, Any] | None:
        """Return one object, or None when it does not exist. Every other failure raises."""
        try:
            found: dict[str, Any] = self.request("GET", path)
        except MeshApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def served(self, group: str) -> str:
        """Return the preferred version of an API group, such as `networking.istio.io/v1`; "" where it is not served."""
        groups = self.request("GET", "/apis").get("groups") or []
        return next((str(g["preferredVersion"]["groupVersion"]) for g in groups if g.get("name") == group), "")

    def merge_patch(self, path: str, body: dict[str, Any], dry_run: bool = False) -> dict[str, Any]:
        """Apply a JSON merge patch: a null value removes its key. Returns the object as stored."""
        query = {"dryRun": "All"} if dry_run else None
        stored: dict[str, Any] = self.request("PATCH", path, query, body, "application/merge-patch+json")
        return stored

    def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], timeout: int = 20
    ) -> tuple[int, str, str]:
        """Run a command in a container; returns (exit code, stdout, stderr).

        Raises:
            MeshApiError: the stream could not be opened, or the command did not end within `timeout` seconds.
        """
        self.requests += 1
        target = f"{namespace}/{pod}, container {container}"
        query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", c) for c in command)]
        headers: dict[str, str] = {"sec-websocket-protocol": "v4.channel.k8s.io"}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        url = ws_client.get_websocket_url(self.server + path, query)
        try:
            # the stream alone: CoreV1Api would import a second's worth of models for this one call
            channel = ws_client.WSClient(self._client.configuration, url, headers, capture_all=False)
            channel.run_forever(timeout=timeout)
            out, err = channel.read_stdout(timeout=0) or "", channel.read_stderr(timeout=0) or ""
            if channel.is_open():
                channel.close()
                raise MeshApiError(f"exec in {target}: `{' '.join(command)}` did not end within {timeout} s.")
            return int(channel.returncode), out, err
        except (k8s_client.ApiException, WebSocketException, OSError, ValueError, TypeError, LookupError) as error:
            raise MeshApiError(
                f"exec in {target}: {' '.join(str(error).split())[:400]}. Next: check the right `create pods/exec` and "
                "that the pod still runs."
            ) from None


class Task(Protocol):
    """What the code of a module needs to know of its task: AnsibleModule has it, and so has the in-process action."""

    params: dict[str, Any]
    check_mode: bool

    def tell(self, line: str) -> None:
        """Show a line of progress to whoever watches, where that is possible."""


Work: TypeAlias = Callable[[Task, "MeshApi"], dict[str, Any]]


def outcome(task: Task, work: Work) -> dict[str, Any]:
    """Run a module's work with the task's connection; returns the task's result, a failure included."""
    try:
        api = MeshApi(task.params["kubeconfig"], task.params["context"], task.params["request_timeout"])
        return work(task, api)
    except MeshApiError as error:
        return {"failed": True, "msg": str(error), "status": error.status, **error.result}


def connected(module: Any, work: Work) -> None:
    """Run a module's work and leave as modules do: a module returns once, so its progress is not shown."""
    module.tell = lambda _line: None
    result = outcome(module, work)
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)


def meta(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object's metadata, also when it is missing or null."""
    return item.get("metadata") or {}


def labels(item: dict[str, Any]) -> dict[str, str]:
    """Return an object's labels, also when they are missing or null."""
    return meta(item).get("labels") or {}


def annotations_of(item: dict[str, Any]) -> dict[str, str]:
    """Return an object's annotations, also when they are missing or null."""
    return meta(item).get("annotations") or {}
