# Device-side routines: src/devlib/*.cpp → one LLVM bitcode file per number of lanes, embedded in _compiler behind devlib/bitcode.h.
# Each source is compiled with QD_DEVLIB_LANES set to the number of lanes, for the plain architecture and without a libc; the emitter gives each
# function the attributes of the kernel's target.
find_program(QD_LLVM_LINK llvm-link PATHS ${QD_LLVM_ROOT}/bin NO_DEFAULT_PATH REQUIRED)
set(folder ${PROJECT_BINARY_DIR}/devlib)
file(MAKE_DIRECTORY ${folder})
file(GLOB devlib_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/devlib/*.cpp)
set(devlib_flags -std=c++20 -O2 -emit-llvm -c -ffreestanding -fno-builtin -fno-exceptions -fno-rtti -fno-math-errno -ffp-contract=off
    -fno-stack-protector -fno-threadsafe-statics -fno-vectorize -fno-slp-vectorize -fvisibility=hidden -fPIC -Wall -Wextra -Werror
    -I ${PROJECT_SOURCE_DIR}/src)

set(lane_counts 1 2 4 8 16)
set(devlib_files)
foreach(lanes ${lane_counts})
  set(modules)
  foreach(source ${devlib_sources})
    cmake_path(GET source STEM name)
    set(module ${folder}/${name}_${lanes}.bc)
    add_custom_command(OUTPUT ${module}
      COMMAND ${CMAKE_CXX_COMPILER} ${devlib_flags} -DQD_DEVLIB_LANES=${lanes} -MD -MF ${module}.d -MT ${module} ${source} -o ${module}
      DEPFILE ${module}.d DEPENDS ${source} COMMENT "devlib ${name}, ${lanes} lanes" VERBATIM)
    list(APPEND modules ${module})
  endforeach()
  if(NOT modules)
    # An empty module, so that the compiler always has one to link.
    set(modules ${folder}/empty.ll)
    file(CONFIGURE OUTPUT ${modules} CONTENT "" @ONLY)
  endif()
  add_custom_command(OUTPUT ${folder}/lanes_${lanes}.bc COMMAND ${QD_LLVM_LINK} ${modules} -o ${folder}/lanes_${lanes}.bc
                     DEPENDS ${modules} COMMENT "devlib, ${lanes} lanes" VERBATIM)
  list(APPEND devlib_files ${folder}/lanes_${lanes}.bc)
  # The bitcode reader wants whole, aligned words.
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
# ccache does not see what #embed reads.
set_target_properties(qd_devlib PROPERTIES CXX_COMPILER_LAUNCHER "")
