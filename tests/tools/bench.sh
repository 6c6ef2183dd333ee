#!/usr/bin/env bash
# The steps of the upgrade by hand, as an operator would script them: what `make bench` compares the chain with.
# In: KUBECONFIG, ISTIOCTL (the new one), KUBECTL, OPERATOR_FILE (revision and tag laid over it with --set).
set -euo pipefail

proxy() { "$KUBECTL" get pods -n "$1" -l "app=$2" -o \
  jsonpath='{range .items[?(@.status.phase=="Running")]}{.spec.initContainers[?(@.name=="istio-proxy")].image}{.spec.containers[?(@.name=="istio-proxy")].image}{"\n"}{end}' \
  | sed 's/.*://' | sort -u | paste -sd,; }
code() { "$KUBECTL" exec -n canary deploy/client -c client -- curl -sS -m 5 -o /dev/null -w '%{http_code}' http://web.shop/; }
restart() { "$KUBECTL" rollout restart -n "$1" "deploy/$2" >/dev/null; "$KUBECTL" rollout status -n "$1" "deploy/$2" --timeout=120s >/dev/null; }
tag() { "$ISTIOCTL" tag set "$1" --revision "$2" --overwrite -y >/dev/null 2>&1; }

echo "before: web=$(proxy shop web) client=$(proxy canary client)"
"$ISTIOCTL" x precheck >/dev/null 2>&1
"$ISTIOCTL" install -f "$OPERATOR_FILE" --set revision=1-31-0 --set tag=1.31.0 -y >/dev/null 2>&1
"$ISTIOCTL" tag list >/dev/null
"$KUBECTL" label namespace canary istio.io/rev=1-31-0 --overwrite >/dev/null
restart canary client
echo "mixed: client=$(proxy canary client) web=$(proxy shop web) code=$(code)"
tag prod-stable 1-31-0
tag default 1-31-0
"$KUBECTL" label namespace canary istio.io/rev=prod-stable --overwrite >/dev/null
restart shop web
echo "tags: web=$(proxy shop web) code=$(code)"
tag prod-stable 1-30-5
restart shop web
echo "after_rollback=$(proxy shop web) code=$(code)"
tag prod-stable 1-31-0
restart shop web
echo "after_forward=$(proxy shop web) code=$(code)"
"$ISTIOCTL" uninstall --revision 1-30-5 -y >/dev/null 2>&1
"$KUBECTL" wait --for=delete -n istio-system deploy/istiod-1-30-5 --timeout=120s >/dev/null 2>&1 || true
echo "after uninstall: code=$(code)"
