# Toolchain for arm64 processors on another one: clang, and Debian's libraries for arm64 in QD_SYSROOT (tools/debian_root.py).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QD_SYSROOT)
set(CMAKE_SYSROOT ${QD_SYSROOT})
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# nanobind is a Python package of this machine; LLVM's are named by QD_LLVM_ROOT.
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
# CMake's own trials link before the build's options are set.
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
