"""Moves many workloads at once: bounded starts, one watch for all that roll, pods looked at once at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ansible.module_utils.mesh_api import MeshApi, MeshApiError, labels, meta
from ansible.module_utils.mesh_owned import kept_by_partition, read_pods, stale_pods, summed
from ansible.module_utils.mesh_rollout import (
    STUCK,
    TRANSIENT,
    Move,
    Refused,
    create_failure,
    create_refused,
    deadline_exceeded,
    refusal,
    restart,
    restart_at,
    rollout_left,
)
from ansible.module_utils.mesh_watch import Watches

# Seconds that a failing API is waited for while workloads roll.
PATIENCE = 60
# In more namespaces than this one list of the whole cluster is cheaper than one per namespace.
FEW = 4
# Seconds without progress after which a workload's pods are looked at, and between two such looks.
QUIET = 10
# Seconds between two looks, at the most, at what is followed by its pods; kubectl drain asks a budget as often.
SLOWEST = 5
# What a pod answers that is not there any more, or is another one of the same name.
GONE = (404, 409)
# Namespaces whose pods are looked at in one poll.
LOOKS = 5
# Requests under way at the same time, for restarts and for looks at new pods.
AT_ONCE = 8


@dataclass
class Bounds:
    """What holds for a run of the mover.

    concurrency: how many may roll at the same time; timeout: seconds for one workload; stuck_after: seconds that a
    cause which does not heal may last; max_failed: failures after which nothing new is started; labels: namespace ->
    the injection labels (null for absent) that must hold before and after each restart; wave: its name, for the
    lines of progress.
    """

    concurrency: int = 8
    timeout: float = 300
    stuck_after: float = 30
    max_failed: int = 0
    labels: dict[str, dict[str, str | None]] = field(default_factory=dict)
    wave: str = ""


def scopes(moves: list[Move]) -> dict[tuple[str, str], str]:
    """Return what to follow for each (API version, kind): its objects in the one namespace concerned, or everywhere."""
    found: dict[tuple[str, str], str] = {}
    spaces: dict[tuple[str, str], set[str]] = {}
    for move in moves:
        if not move.by_pods:
            spaces.setdefault((move.api_version, move.kind), set()).add(move.namespace)
    for move in moves:
        if not move.by_pods:
            key = (move.api_version, move.kind)
            found[key] = move.collection(everywhere=len(spaces[key]) > 1)
    return found


def size(move: Move, item: dict[str, Any] | None) -> int:
    """Return how many pods a workload is to have; 1 for one that is followed by its pods alone."""
    if item is None:
        return 1
    if move.kind == "DaemonSet":
        return int((item.get("status") or {}).get("desiredNumberScheduled") or 0)
    wanted = (item.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def updated(move: Move, item: dict[str, Any] | None) -> int:
    """Return how many pods of a rolling workload are new; 0 until its controller has seen the restart."""
    status = (item or {}).get("status") or {}
    if not move.restarted or (status.get("observedGeneration") or 0) < max(move.generation, 1):
        return 0
    return int(status.get("updatedNumberScheduled" if move.kind == "DaemonSet" else "updatedReplicas") or 0)


class Mover:
    """Moves workloads; each is touched at most once.

    Args:
        api: the connection.
        moves: what to move, in this order.
        bounds: see there.
        tell: takes one line of progress.
        watches: tells what changes; without, everything that rolls is listed again and again.
        stop: tells whether a person asked to stop: then nothing new is started and what rolls is let through.
    """

    def __init__(
        self,
        api: MeshApi,
        moves: list[Move],
        bounds: Bounds,
        tell: Callable[[str], None] = lambda _line: None,
        watches: Watches | None = None,
        *,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start with everything waiting."""
        self.stop = stop
        self.sizes: dict[str, int] = {}
        self.api, self.bounds, self.tell, self.watches = api, bounds, tell, watches
        self.scopes = scopes(moves)
        self.total, self.told, self.told_at = len(moves), "", 0.0
        self.asked = {move.ref for move in moves}
        self.waiting = list(moves)
        self.rolling: list[Move] = []
        self.unproven: list[Move] = []  # the status says complete, its pods were not looked at yet
        self.done: list[Move] = []
        self.failed: list[Move] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.pause = 0.5

    def run(self) -> None:
        """Move everything; after too many failures start nothing new and let the rolling ones end."""
        try:
            self.go_on()
        finally:
            if self.watches:
                self.watches.close()

    def go_on(self) -> None:
        """Start, wait and look until nothing is left to do."""
        trouble, known = 0.0, False
        while self.waiting or self.rolling or self.unproven:
            try:
                if not known:
                    self.lost([*self.waiting, *self.rolling])
                    self.read([*self.waiting, *self.rolling])
                    known = True
                    self.sizes = {m.ref: size(m, self.objects.get(m.ref)) for m in self.waiting} | self.sizes
                self.start()
                if not self.rolling and not self.unproven:
                    break
                self.wait()
                self.poll()
                trouble = 0.0
            except MeshApiError as error:  # an API server that restarts is no failed rollout
                trouble = trouble or time.monotonic()
                if error.status not in TRANSIENT or time.monotonic() - trouble > PATIENCE:
                    raise
                known = False  # what was asked for and not answered may have been done all the same
                time.sleep(self.pause)
            self.report()

    def wait(self) -> None:
        """Wait for news, or for the next time to look."""
        if self.watches:
            self.watches.wait(self.pause)
        else:
            time.sleep(self.pause)

    def lost(self, moves: list[Move]) -> list[Move]:
        """Return those of some workloads whose changes are not told from before now on: they must be listed."""
        by_scope: dict[str, list[Move]] = {}
        for move in moves:
            if not move.by_pods:
                by_scope.setdefault(self.scopes[move.api_version, move.kind], []).append(move)
        return [m for scope, own in by_scope.items() if not self.watches or self.watches.open(scope) for m in own]

    def refresh(self) -> None:
        """See how what rolls is now: as the watches tell, or listed where none does."""
        lost = self.lost(self.rolling)
        if lost:
            self.read(lost)
        for (_version, kind), scope in self.scopes.items():
            for there, item in self.watches.take(scope) if self.watches else []:
                self._change(f"{kind} {meta(item).get('namespace')}/{meta(item).get('name')}", there, item)

    def _change(self, ref: str, there: bool, item: dict[str, Any]) -> None:
        known = self.objects.get(ref)
        if ref not in self.asked:
            return
        if there:
            self.objects[ref] = item
        elif known and meta(known).get("uid") == meta(item).get("uid"):  # not one that was made anew meanwhile
            del self.objects[ref]

    def read(self, moves: list[Move]) -> None:
        """Read the objects of some workloads: one by one, by namespace, or all of a kind, whatever is fewest."""
        by_kind: dict[tuple[str, str], list[Move]] = {}
        for move in moves:
            if not move.by_pods:
                by_kind.setdefault((move.api_version, move.kind), []).append(move)
        for group in by_kind.values():
            spaces: dict[str, list[Move]] = {}
            for move in group:
                spaces.setdefault(move.namespace, []).append(move)
                self.objects.pop(move.ref, None)
            if len(spaces) > FEW:
                self._keep(group[0].kind, self.api.list(group[0].collection(everywhere=True)))
                continue
            for own in spaces.values():
                if len(own) > 1:
                    self._keep(own[0].kind, self.api.list(own[0].collection()))
                elif item := self.api.get(own[0].path):
                    self._keep(own[0].kind, [item])

    def _keep(self, kind: str, items: list[dict[str, Any]]) -> None:
        for item in items:
            ref = f"{kind} {meta(item).get('namespace')}/{meta(item).get('name')}"
            if ref in self.asked:
                self.objects[ref] = item

    def read_labels(self) -> None:
        """Read the labels of all namespaces, in one list of their metadata."""
        if self.bounds.labels:
            found = self.api.list("/api/v1/namespaces", metadata_only=True)
            self.namespaces = {meta(n).get("name", ""): labels(n) for n in found}

    def label_changed(self, move: Move) -> str:
        """Return which label of a workload's namespace is not what it must be, or ""."""
        for key, wanted in (self.bounds.labels.get(move.namespace) or {}).items():
            got = self.namespaces.get(move.namespace, {}).get(key)
            if got != wanted:
                return (
                    f"label {key} of namespace {move.namespace} is {got!r}, expected {wanted!r}: something else "
                    "changes it (GitOps?). Next: stop that, or make the change there"
                )
        return ""

    def start(self) -> None:
        """Start as many as may roll at the same time."""
        room = self.bounds.concurrency - len(self.rolling)
        if room <= 0 or not self.waiting or len(self.failed) > self.bounds.max_failed or self.stop():
            return
        self.read_labels()
        while batch := [] if self.stop() else self.next_ones(room):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                trouble = [error for error in pool.map(self.begin, batch) if error]
            began = [move for move in batch if move.failure or move.started]
            self.waiting = [move for move in batch if move not in began] + self.waiting
            self.failed += [move for move in began if move.failure]
            self.rolling += [move for move in began if not move.failure]
            room -= sum(1 for move in began if not move.failure)
            if trouble:
                raise trouble[0]

    def next_ones(self, room: int) -> list[Move]:
        """Take the next workloads off the waiting ones; what is refused as it was read fails without a request."""
        batch: list[Move] = []
        while self.waiting and len(batch) < min(room, AT_ONCE) and len(self.failed) <= self.bounds.max_failed:
            move = self.waiting.pop(0)
            move.failure = self.label_changed(move)
            if not move.failure and not move.by_pods:
                move.failure = refusal(move, self.objects.get(move.ref))
            (self.failed if move.failure else batch).append(move)
        return batch

    def begin(self, move: Move) -> MeshApiError | None:
        """Restart one workload; returns the error where the API server, not the workload, is in trouble."""
        try:
            if not move.by_pods:
                restart(self.api, move, self.objects.get(move.ref))
        except Refused as error:
            move.failure = str(error)
        except MeshApiError as error:
            if error.status in TRANSIENT:
                return error
            move.failure = str(error)
        move.started = move.progressed = time.monotonic()
        return None

    def poll(self) -> None:
        """Look at everything that rolls, once."""
        began = time.monotonic()
        self.refresh()
        for move in self.rolling:
            if not move.by_pods:
                self.look(move, self.objects.get(move.ref), began)
        self.look_at_pods(began)
        self.settle(began)
        self.prove(began)
        self.pause = self.next_look(began)

    def next_look(self, began: float) -> float:
        """Return the seconds to wait: the longer nothing happens, the less often is asked; watches tell at once."""
        if self.watches:
            return 0.5
        progressed = max((move.progressed for move in self.rolling), default=began)
        return min(3.0, max(0.5, time.monotonic() - began, (began - progressed) / 4))

    def look(self, move: Move, item: dict[str, Any] | None, now: float) -> None:
        """See how far a rollout is, from the workload's own status."""
        if item is None:
            move.failure = "it was deleted while it rolled"
            return
        if (meta(item).get("generation") or 0) < move.generation:  # a change of before the restart, told late
            return
        move.waits(rollout_left(move.kind, item), now)
        move.failure = deadline_exceeded(item)
        refused = create_failure(item)
        move.fails({"": refused} if refused else {}, now, status=True)
        move.failure = move.failure or move.stuck(now, self.bounds.stuck_after)

    def due(self, move: Move, now: float) -> bool:
        """Whether a workload's pods are to be looked at: the longer nothing happens, the less often."""
        if move.failure or not (move.by_pods or move.waits_for):
            return False
        quiet = now - move.progressed
        if move.by_pods:
            return bool(now - move.examined >= min(SLOWEST, quiet / 4))
        return bool(min(quiet, now - move.examined) >= min(QUIET, max(1.0, self.bounds.stuck_after / 3)))

    def look_at_pods(self, now: float) -> None:
        """Look at the pods of what makes no progress, and of what only its pods tell about."""
        due: dict[str, list[Move]] = {}
        for move in sorted(self.rolling, key=lambda m: m.examined):
            if self.due(move, now):
                due.setdefault(move.namespace, []).append(move)
        for namespace, moves in list(due.items())[:LOOKS]:
            pods = read_pods(self.api, namespace, moves)
            for move in moves:
                move.examined = now
                if move.by_pods:
                    self.turn(move, pods[move.ref], now)
                else:
                    self.find_cause(move, pods[move.ref], now)

    def find_cause(self, move: Move, pods: list[dict[str, Any]], now: float) -> None:
        """Find a cause that waiting does not heal; with consent delete the one pod a StatefulSet is stuck on."""
        bad = [p for p in pods if p["waiting"].split(": ")[-1] in STUCK]
        causes = {p["name"]: f"pod {p['name']}: {p['waiting']}" for p in bad}
        if not causes:
            staying = sum(not p["terminating"] for p in pods)
            refused = create_refused(self.api, move, self.objects.get(move.ref) or {}, staying)
            causes = {"missing": refused} if refused else {}
        move.fails(causes, now)
        stale = stale_pods(move, pods)
        kept = kept_by_partition(move, stale)
        blocked = [p for p in stale if not p["ready"] and p not in kept]
        if move.how == "rescue" and blocked and not move.kept:
            self.rescue(move, blocked[0], now)
        else:
            move.failure = move.stuck(now, self.bounds.stuck_after)

    def rescue(self, move: Move, pod: dict[str, Any], now: float) -> None:
        """Delete the pod that a StatefulSet is stuck on; one that went by itself meanwhile is nobody's failure."""
        path = f"/api/v1/namespaces/{move.namespace}/pods/{pod['name']}"
        try:
            self.api.request("DELETE", path, body={"preconditions": {"uid": pod["uid"]}})
        except MeshApiError as error:
            if error.status not in GONE:
                raise
            return
        move.kept.append(f"{move.ref}: pod {pod['name']} was never ready and was deleted, with consent")
        move.progressed = now

    def turn(self, move: Move, pods: list[dict[str, Any]], now: float) -> None:
        """Take the next step of a workload that is followed by its pods: evict one, or wait for its replacement."""
        staying = [p for p in pods if not p["terminating"]]
        stale, ready = stale_pods(move, pods), sum(p["ready"] for p in staying)
        first, move.wanted = not move.wanted, move.wanted or max(1, len(staying))
        if not stale:
            left = "" if ready >= move.wanted else f"{ready} of {move.wanted} pods are ready"
            move.waits(left, now)
        elif move.how == "restart_at":
            if first:
                restart_at(self.api, move, stale)
            move.waits(f"{len(stale)} old pods are still there, such as {stale[0]['name']}", now)
        elif (
            len(staying) < move.wanted
            or any(p["terminating"] for p in pods)
            or (move.restarted and ready < move.wanted)
        ):
            move.waits(f"the replacement of an evicted pod; {len(stale)} old pods are left", now)
        else:
            self.evict(move, min(stale, key=lambda p: (p["ready"], p["name"])), len(stale), now)

    def evict(self, move: Move, row: dict[str, Any], left: int, now: float) -> None:
        """Ask for the eviction of this very pod; a refusal that may end, such as a budget's (429), is waited for.

        Source: policy/v1, Eviction. A pod that went meanwhile is 404, another one of its name 409; a pod under two
        budgets is 500, which does not end by itself: the time-out then quotes it.
        """
        pod = row["name"]
        path = f"/api/v1/namespaces/{move.namespace}/pods/{pod}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": move.namespace},
            "deleteOptions": {"preconditions": {"uid": row["uid"]}},
        }
        try:
            self.api.request("POST", path, body=body)
            move.restarted = True
            move.waits(f"pod {pod} to go; {left} old pods are left", now)
        except MeshApiError as error:
            if error.status in TRANSIENT:
                move.waits(f"the eviction of pod {pod}: {error.body or error}", now)
            elif error.status not in GONE:
                move.failure = str(error)

    def settle(self, now: float) -> None:
        """Sort what rolls into failed, complete by its status, and still rolling."""
        rolling, self.rolling = self.rolling, []
        for move in rolling:
            if not move.failure and move.waits_for and now - move.started > self.bounds.timeout:
                move.failure = f"not finished after {self.bounds.timeout:.0f} s: {move.waits_for}" + (
                    f" ({move.cause})" if move.cause else ""
                )
            if move.failure:
                self.failed.append(move)
            else:
                (self.rolling if move.waits_for else self.unproven).append(move)

    def prove(self, now: float) -> None:
        """Look at the pods of complete rollouts, once per namespace when nothing rolls there any more."""
        busy = {move.namespace for move in self.rolling}
        ready = [move for move in self.unproven if move.namespace not in busy]
        if not ready:
            return
        self.read_labels()
        spaces: dict[str, list[Move]] = {}
        for move in ready:
            spaces.setdefault(move.namespace, []).append(move)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            read = pool.map(lambda space: read_pods(self.api, space, spaces[space]), spaces)
            for moves, pods in zip(spaces.values(), read, strict=True):
                for move in moves:
                    self.judge(move, pods[move.ref], now)

    def judge(self, move: Move, pods: list[dict[str, Any]], now: float) -> None:
        """Close one workload, unless an old pod still lives beside new ones."""
        kept = kept_by_partition(move, stale_pods(move, pods))
        names = {p["name"] for p in kept}
        mine = [p for p in pods if p["name"] not in names]
        old = stale_pods(move, mine)
        if old and any(p["revision"] == move.revision for p in mine) and now - move.started <= self.bounds.timeout:
            move.waits_for = f"{len(old)} old pods are still there, such as {old[0]['name']}"
            return
        self.unproven.remove(move)
        move.failure = self.label_changed(move)
        if old and any(p["revision"] == move.revision for p in mine):
            move.failure = f"not finished after {self.bounds.timeout:.0f} s: {len(old)} old pods are still there"
        move.pods = summed(mine)
        if kept:
            words = f"its partition {move.partition} keeps {len(kept)} pods as they are, such as {kept[0]['name']}"
            move.kept.append(f"{move.ref}: {words}")
        (self.failed if move.failure else self.done).append(move)

    def report(self) -> None:
        """Tell how far it is, when that has changed and not too often."""
        now = [f"{move.ref}: {move.waits_for}" for move in self.rolling[:3]]
        head = f"{len(self.done) + len(self.unproven)} of {self.total} moved, {self.proxies()}"
        line = "; ".join([f"{self.bounds.wave}: {head}" if self.bounds.wave else head, *now])
        ended = not (self.rolling or self.unproven or (self.waiting and not self.stop()))
        if line != self.told and (ended or time.monotonic() - self.told_at >= 2):
            self.told, self.told_at = line, time.monotonic()
            self.tell(line)

    def proxies(self) -> str:
        """Return how many pods of all that are to move are new, in words; a rolling one counts as far as it is."""
        moved = sum(self.sizes.get(m.ref, 1) for m in [*self.done, *self.unproven])
        moved += sum(min(self.sizes.get(m.ref, 1), updated(m, self.objects.get(m.ref))) for m in self.rolling)
        return f"{moved} of {sum(self.sizes.values())} proxies"
