#!/usr/bin/env bash
# Install istioctl of each version named, side by side, and helm; each is compared with its published checksum, and
# asked for its version. HELM_VERSION is needed. ISTIO_DOWNLOADS, HELM_DOWNLOADS: mirrors. BIN: where to.
set -euo pipefail

istio_downloads=${ISTIO_DOWNLOADS:-https://github.com/istio/istio/releases/download}
helm_downloads=${HELM_DOWNLOADS:-https://get.helm.sh}
bin=${BIN:-/usr/local/bin}
: "${HELM_VERSION:?is not set. Next: build with --build-arg HELM_VERSION=<x.y.z>}"
[ $# -gt 0 ] || { echo "No Istio version is named. Next: build with --build-arg ISTIO_VERSIONS='<x.y.z> <x.y.z>'" >&2; exit 1; }

case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) echo "Istio publishes no istioctl for $(uname -m). Next: build on amd64 or arm64." >&2; exit 1 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# fetch <address of an archive> <address of its checksum>: the archive, proven, as $folder/archive
fetch() {
  curl --fail --silent --show-error --location --retry 3 --output "$folder/archive" "$1"
  curl --fail --silent --show-error --location --retry 3 --output "$folder/sum" "$2"
  wanted=$(cut -d ' ' -f 1 "$folder/sum")
  got=$(sha256sum "$folder/archive" | cut -d ' ' -f 1)
  [ "$wanted" = "$got" ] || { echo "$1 has checksum $got, $2 says $wanted. Next: build again, or ask who is in between." >&2; exit 1; }
}

# says <version> <command...>: stop unless the command prints that version
says() {
  version=$1
  shift
  said=$("$@" 2>&1) || true
  [[ $said == *"$version"* ]] || { echo "'$*' is not version $version, it says: $said" >&2; exit 1; }
}

for version in "$@"; do
  archive=$istio_downloads/$version/istioctl-$version-linux-$arch.tar.gz
  fetch "$archive" "$archive.sha256"
  tar --extract --gzip --file "$folder/archive" --directory "$folder" istioctl
  install -m 0755 "$folder/istioctl" "$bin/istioctl-$version"
  says "$version" "$bin/istioctl-$version" version --remote=false --short
done

archive=$helm_downloads/helm-v$HELM_VERSION-linux-$arch.tar.gz
fetch "$archive" "$archive.sha256sum"
tar --extract --gzip --file "$folder/archive" --directory "$folder" --strip-components 1 "linux-$arch/helm"
install -m 0755 "$folder/helm" "$bin/helm"
says "$HELM_VERSION" "$bin/helm" version --short
