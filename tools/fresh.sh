#!/usr/bin/env bash
# Tests in a clean Debian 12 root that `./dev demo` and `./dev test` do all the setup that they need.
#
#   tools/fresh.sh [command of ./dev ...]      default: demo test
#
# Needs root, debootstrap and the network. It tests a clone of the last commit. The root is build-fresh/root, recreated each time.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build-fresh/root
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=(demo test)

[ "$(id -u)" = 0 ] || { echo "fresh.sh: needs root for chroot"; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -q --no-install-recommends debootstrap

# The mounts below are visible only to this script and end with it.
[ -n "${QD_FRESH_NAMESPACE:-}" ] || exec env QD_FRESH_NAMESPACE=1 unshare --mount --propagation private "$0" "$@"
rm -rf "$root"
mkdir -p "$root"

echo "fresh: a minimal Debian 12 in ${root#"$PWD"/}"
debootstrap --variant=minbase --include=python3,ca-certificates,git bookworm "$root" "$mirror/debian" >"$root.log" 2>&1 || { tail "$root.log"; exit 1; }
cat >"$root/etc/apt/sources.list" <<SOURCES
deb $mirror/debian bookworm main
deb $mirror/debian bookworm-updates main
deb $mirror/debian-security bookworm-security main
SOURCES
# The network of this machine may have a certificate authority of its own.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
# If the root is a mount, mount namespaces can be created inside; the test of the wheel needs them.
mount --bind "$root" "$root"
for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
mount -t tmpfs tmpfs "$root/dev/shm"

git clone -q --no-hardlinks . "$root/quadrants"
for command in "${commands[@]}"; do
  echo "fresh: ./dev $command"
  started=$SECONDS
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "cd /quadrants && ./dev $command"
  echo "fresh: ./dev $command passed in $((SECONDS - started)) s"
done
