"""The mesh's CA, from what the API server holds: CA bundles of webhooks, root certificates of namespaces."""

from __future__ import annotations

import datetime
import re
from collections import Counter

from cryptography import x509

from mesh_logic.checks.context import Context, Found, say, some

SOON = datetime.timedelta(days=30)
_ONE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def expiries(bundle: str) -> list[datetime.datetime]:
    """Return when each certificate of a PEM bundle ends; text that is no certificate has none."""
    found = []
    for text in _ONE.findall(bundle):
        try:
            found.append(x509.load_pem_x509_certificate(text.encode()).not_valid_after_utc)
        except ValueError:
            continue
    return found


def expiry(ctx: Context, now: datetime.datetime) -> Found:
    """Find CA certificates that have expired or soon will; the last one of a bundle that ends keeps it alive."""
    users: dict[str, list[str]] = {}
    for row in [*ctx.facts["injectors"], *ctx.facts["validators"]]:
        for entry in row["entries"]:
            users.setdefault(entry["ca"], []).append(row["name"])
    for digest, bundle in sorted(ctx.inspected["ca_bundles"].items()):
        ends = expiries(bundle)
        if not ends or max(ends) > now + SOON:
            continue
        what = f"CA bundle of {some(sorted(set(users.get(digest, ['no webhook']))))}"
        code = "CA_EXPIRED" if max(ends) <= now else "CA_EXPIRES_SOON"
        yield say(code, what, f"its certificate ends {max(ends):%Y-%m-%d %H:%M} UTC", namespace=ctx.istio)


def roots(ctx: Context) -> Found:
    """Compare the root certificates of the namespaces with proxies; a mesh that hands out none is left alone."""
    held = ctx.inspected["roots"]
    if not held:
        return
    for name in ctx.proxy_namespaces:
        if name not in held:
            yield say(
                "ROOT_MISSING", f"Namespace {name}", "it has proxies and no ConfigMap istio-ca-root-cert", name=name
            )
    most = Counter(held[name] for name in ctx.proxy_namespaces if name in held).most_common()
    others = sorted(n for n in ctx.proxy_namespaces if n in held and held[n] != most[0][0])
    if others:
        text = f"their root certificate is not the one of the other namespaces: {some(others)}"
        yield say("ROOTS_DIFFER", "Root certificates", text, name=others[0])


def same_ca(ctx: Context) -> Found:
    """Compare the CA bundles of the two revisions' injectors; to be asked after the install."""
    bundles = {
        revision: {
            e["ca"] for row in ctx.facts["injectors"] if row["revision"] == revision for e in row["entries"] if e["ca"]
        }
        for revision in (ctx.old, ctx.new)
    }
    if bundles[ctx.old] and bundles[ctx.new] and bundles[ctx.old] != bundles[ctx.new]:
        text = f"the CA bundle of {ctx.new} is not the one of {ctx.old}"
        yield say("CA_DIFFERS", f"Revision {ctx.new}", text, namespace=ctx.istio)
