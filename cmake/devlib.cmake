# Device-side routines (src/devlib/*.cpp) → one LLVM bitcode file, embedded in _compiler as `qd_devlib_bitcode`.
# The code is compiled for the plain architecture without a libc; the emitter gives each function the attributes of the kernel's target.
find_program(QD_LLVM_LINK llvm-link PATHS ${QD_LLVM_ROOT}/bin NO_DEFAULT_PATH REQUIRED)
set(folder ${PROJECT_BINARY_DIR}/devlib)
file(MAKE_DIRECTORY ${folder})
file(GLOB devlib_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/devlib/*.cpp)
set(devlib_flags -std=c++20 -O2 -emit-llvm -c -ffreestanding -fno-builtin -fno-exceptions -fno-rtti -fno-math-errno -ffp-contract=off
    -fno-stack-protector -fno-threadsafe-statics -fno-vectorize -fno-slp-vectorize -fvisibility=hidden -fPIC -Wall -Wextra -Werror
    -I ${PROJECT_SOURCE_DIR}/src)

set(devlib_modules)
foreach(source ${devlib_sources})
  cmake_path(GET source STEM name)
  add_custom_command(OUTPUT ${folder}/${name}.bc
    COMMAND ${CMAKE_CXX_COMPILER} ${devlib_flags} -MD -MF ${folder}/${name}.d -MT devlib/${name}.bc ${source} -o ${folder}/${name}.bc
    DEPFILE ${folder}/${name}.d DEPENDS ${source} COMMENT "devlib ${name}" VERBATIM)
  list(APPEND devlib_modules ${folder}/${name}.bc)
endforeach()
if(NOT devlib_modules)
  # An empty module, so that the compiler always has one to link.
  file(CONFIGURE OUTPUT ${folder}/empty.ll CONTENT "" @ONLY)
  set(devlib_modules ${folder}/empty.ll)
endif()
add_custom_command(OUTPUT ${folder}/devlib.bc COMMAND ${QD_LLVM_LINK} ${devlib_modules} -o ${folder}/devlib.bc
                   DEPENDS ${devlib_modules} COMMENT "devlib" VERBATIM)

file(CONFIGURE OUTPUT ${folder}/devlib.cpp @ONLY CONTENT [=[
#include <cstddef>
// The bitcode reader wants whole, aligned words.
extern "C" {
extern const unsigned char qd_devlib_bitcode[];
extern const size_t qd_devlib_bitcode_size;
alignas(16) const unsigned char qd_devlib_bitcode[] = {
#embed "devlib.bc"
};
const size_t qd_devlib_bitcode_size = sizeof(qd_devlib_bitcode);
}
]=])
add_library(qd_devlib OBJECT ${folder}/devlib.cpp)
target_compile_options(qd_devlib PRIVATE -Wno-c23-extensions)
set_source_files_properties(${folder}/devlib.cpp PROPERTIES OBJECT_DEPENDS ${folder}/devlib.bc)
