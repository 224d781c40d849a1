#!/bin/sh
# Installs ROCm from TheRock's release archives (one per GPU family) below /opt/rocm-VERSION, with a symlink from /opt/rocm.
#
#   install-rocm.sh VERSION [FAMILY] [CHANNEL]
#
#   VERSION   7.10.0, or for a nightly 7.11.0a20260101
#   FAMILY    gfx94X-dcgpu (MI300A, MI300X, MI325X; the default), gfx90X-dcgpu (MI210, MI250X), gfx110X-all, ...
#   CHANNEL   stable (the default), prereleases, nightlies, devreleases
#
# ROCM_TARBALLS, if set, is the URL of a folder with the archives, for machines without internet access; ROCM_SHA256 is
# the archive's checksum, verified if set; ROCM_PREFIX is the folder to install to instead of /opt.
set -eu

fail() {
    echo "install-rocm: $*" >&2
    exit 1
}

[ $# -ge 1 ] && [ $# -le 3 ] || fail "usage: install-rocm.sh VERSION [FAMILY] [CHANNEL]"
version=$1
family=${2:-gfx94X-dcgpu}
channel=${3:-stable}

case $version in
    [0-9]*.[0-9]*.[0-9]*) ;;
    *) fail "\"$version\" is no version such as 7.10.0" ;;
esac
case $family in
    gfx[0-9]*) ;;
    *) fail "\"$family\" is no family of GPUs such as gfx94X-dcgpu" ;;
esac
case $version$family in
    *[!A-Za-z0-9.+-]*) fail "versions and families have letters, digits, dots and dashes" ;;
esac
case $channel in
    stable) host=repo.amd.com/rocm ;;
    prereleases | nightlies | devreleases) host=rocm.$channel.amd.com ;;
    *) fail "there is no channel \"$channel\": stable, prereleases, nightlies or devreleases" ;;
esac

folder=${ROCM_TARBALLS:-https://$host/tarball}
prefix=${ROCM_PREFIX:-/opt}
target=$prefix/rocm-$version
archive=$(mktemp)
trap 'rm -f "$archive"' EXIT

url=$folder/therock-dist-linux-$family-$version.tar.gz
echo "fetching $url"
curl --fail --location --retry 3 --silent --show-error --output "$archive" "$url" ||
    fail "there is nothing at $url: look whether this version was released for $family in the channel $channel"
if [ -n "${ROCM_SHA256:-}" ]; then
    echo "$ROCM_SHA256  $archive" | sha256sum --check --quiet || fail "the archive is not the one that was expected"
fi

mkdir -p "$target"
tar --extract --gzip --file "$archive" --directory "$target"
ls "$target"/lib/libamdhip64.so* > /dev/null 2>&1 || fail "the archive has no lib/libamdhip64.so: it is not ROCm"
ln -sfn "$target" "$prefix/rocm"
echo "ROCm $version for $family is in $target"
