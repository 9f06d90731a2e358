#!/usr/bin/env bash
# Runs the smoke tests with the wheel in a root with an older C library: Debian 11, glibc 2.31.
#
#   tools/check_wheel.sh [wheel]      default: make it with `./dev wheel`
#
# Needs root, debootstrap and the network. Debian 11 has no Python that we support, so Debian 12's is compiled there once, in ten minutes of
# one core; build-old-root/ keeps it.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build-old-root
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
[ "$(id -u)" = 0 ] || { echo "check_wheel.sh: needs root for chroot"; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -q --no-install-recommends debootstrap
wheel=${1:-}
if [ -z "$wheel" ]; then
  rm -f dist/*.whl
  ./dev wheel
  wheel=$(ls dist/*-cp311-*.whl)
fi

# The mounts below are visible only to this script and end with it.
[ -n "${QD_OLD_ROOT_NAMESPACE:-}" ] || exec env QD_OLD_ROOT_NAMESPACE=1 unshare --mount --propagation private "$0" "$wheel"

if [ ! -e "$root/etc/debian_version" ]; then
  packages=ca-certificates,gcc,make,libc6-dev,zlib1g-dev,libffi-dev,libssl-dev,xz-utils
  debootstrap --variant=minbase --include=$packages bullseye "$root" "$mirror/debian" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
  echo "deb-src $mirror/debian bookworm main" >"$root/etc/apt/sources.list.d/source.list"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
mount --bind "$root" "$root"
for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
mount -t tmpfs tmpfs "$root/dev/shm"

inside() { chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt SMOKE_PREFIX=/environment bash -euc "$1"; }
if [ ! -e "$root/opt/python3.11/bin/python3.11" ]; then
  echo "check_wheel: compiling Python 3.11"
  inside "mkdir -p /src; cd /src; apt-get -q update; apt-get -q source --download-only python3.11; tar xf python3.11_*.orig.tar.*
    cd Python-3.11.*; CFLAGS=-O1 ./configure -q --prefix=/opt/python3.11; make -s; make -s install" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
fi
rm -rf "$root/given" && mkdir "$root/given"
cp -r "$wheel" tests/smoke "$root/given"
inside "ldd --version | head -1; rm -rf /environment; /opt/python3.11/bin/python3.11 -m venv /environment
  /environment/bin/pip install -q --disable-pip-version-check /given/*.whl 'pytest>=8'
  /environment/bin/pip check
  cd /given; timeout 1200 /environment/bin/python -m pytest -q -p no:cacheprovider smoke"
