# What a build takes from the system because pip cannot install it. If something is missing, one message names all of it.
set(QD_LLVM_ROOT /usr/lib/llvm-22 CACHE PATH "Installation prefix of LLVM 22")
set(QD_DEBIAN_PACKAGES clang-22 lld-22 llvm-22-dev libmlir-22-dev mlir-22-tools liblld-22-dev libstdc++-12-dev libc6-dev zlib1g-dev
    libzstd-dev libxml2-dev libffi-dev libz3-dev libvulkan-dev)

# Ends the configuration unless the variable, the result of a search, is true; `what` was searched for.
function(qd_require variable what)
  if(${variable})
    return()
  endif()
  list(JOIN QD_DEBIAN_PACKAGES " " packages)
  message(FATAL_ERROR "Quadrants is compiled by clang 22 and contains LLVM, MLIR and lld 22, which pip cannot install. Missing here: ${what}.\n"
    "On Debian 12 install them as root:\n  apt-get install ${packages}\n"
    "Elsewhere install LLVM 22 with clang, lld and MLIR, and name its folder:\n"
    "  pip install . -C cmake.define.QD_LLVM_ROOT=/opt/llvm\n"
    "A wheel needs none of this: take the one for this Python and processor.")
endfunction()

# The wheel builder sets CXX to the compiler of Python itself, which is replaced; a clang in CXX is used.
if(NOT DEFINED CMAKE_CXX_COMPILER AND NOT "$ENV{CXX}" MATCHES "clang")
  set(languages C CXX)
  set(compilers clang clang++)
  foreach(language compiler IN ZIP_LISTS languages compilers)
    find_program(CMAKE_${language}_COMPILER ${compiler}-22)
    find_program(CMAKE_${language}_COMPILER ${compiler} PATHS ${QD_LLVM_ROOT}/bin NO_DEFAULT_PATH)
    qd_require(CMAKE_${language}_COMPILER "the compiler ${compiler}-22")
  endforeach()
endif()
