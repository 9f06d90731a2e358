#!/bin/bash
# on_device.sh: unpacks the modules that `./dev carry` packed and runs a command with them, on a machine that has no LLVM:
#   tools/on_device.sh python3 -m pytest tests/python/language
# Kernels run on QD_ARCH, by default cuda.
set -eu
cd "$(dirname "$0")/.."
tar -xJf .carry/modules.tar.xz -C python/quadrants
export PYTHONPATH=$PWD/python QD_ARCH=${QD_ARCH-cuda}
exec "$@"
