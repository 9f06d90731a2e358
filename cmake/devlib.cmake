# Device-side routines: src/devlib/devlib.cpp → one LLVM bitcode file per number of lanes, embedded in _compiler behind devlib/bitcode.h.
# It is compiled for wasm64 without a libc, because clang passes every vector by value there; the code that links it gives each function
# the attributes of the kernel's target. -O1 runs no passes that depend on the vectors of the target. Bit tricks rely on wrapping integers.
set(folder ${PROJECT_BINARY_DIR}/devlib)
file(MAKE_DIRECTORY ${folder})
set(devlib_source ${PROJECT_SOURCE_DIR}/src/devlib/devlib.cpp)
set(devlib_flags --target=wasm64 -std=c++20 -O1 -emit-llvm -c -ffreestanding -fno-builtin -fno-exceptions -fno-rtti -fno-math-errno
    -ffp-contract=off -fwrapv -fno-threadsafe-statics -fno-vectorize -fno-slp-vectorize -fvisibility=hidden -Wall -Wextra -Werror
    -I ${PROJECT_SOURCE_DIR}/src)

set(lane_counts 1 2 4 8 16)
set(devlib_files)
foreach(lanes ${lane_counts})
  set(module ${folder}/lanes_${lanes}.bc)
  add_custom_command(OUTPUT ${module}
    COMMAND ${CMAKE_CXX_COMPILER} ${devlib_flags} -DQD_DEVLIB_LANES=${lanes} -MD -MF ${module}.d -MT ${module} ${devlib_source} -o ${module}
    DEPFILE ${module}.d DEPENDS ${devlib_source} COMMENT "devlib, ${lanes} lanes" VERBATIM)
  list(APPEND devlib_files ${module})
  # The bitcode reader requires whole, aligned words.
  string(APPEND devlib_arrays "alignas(16) constexpr unsigned char kLanes${lanes}[] = {\n#embed \"lanes_${lanes}.bc\"\n};\n")
  string(APPEND devlib_cases "  case ${lanes}: return {reinterpret_cast<const char *>(kLanes${lanes}), sizeof(kLanes${lanes})};\n")
endforeach()

file(CONFIGURE OUTPUT ${folder}/bitcode.cpp @ONLY CONTENT [=[
#include "devlib/bitcode.h"
namespace {
@devlib_arrays@} // namespace
std::string_view qd::devlib::getBitcode(int lanes) {
  switch (lanes) {
@devlib_cases@  default: return {};
  }
}
]=])
add_library(qd_devlib OBJECT ${folder}/bitcode.cpp)
target_link_libraries(qd_devlib PRIVATE qd_flags)
target_compile_options(qd_devlib PRIVATE -Wno-c23-extensions)
set_source_files_properties(${folder}/bitcode.cpp PROPERTIES OBJECT_DEPENDS "${devlib_files}")
# ccache does not detect the files that #embed reads.
set_target_properties(qd_devlib PROPERTIES CXX_COMPILER_LAUNCHER "")
