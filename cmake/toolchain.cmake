# Compiler, linker and flags of all modules.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 22)
  message(FATAL_ERROR "Quadrants is built with clang 22 (found ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}); pass -DCMAKE_CXX_COMPILER=clang++-22")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(QD_CCACHE ccache)
if(QD_CCACHE)
  # ccache hashes the precompiled header as an input; its defines and time macros need no further check.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${QD_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# Flags of Quadrants' code; they do not apply to nanobind and to headers of other projects.
add_library(qd_flags INTERFACE)
target_include_directories(qd_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
find_path(QD_VULKAN_HEADERS vulkan/vulkan_core.h)
qd_require(QD_VULKAN_HEADERS "vulkan/vulkan_core.h, Vulkan's declarations")
target_include_directories(qd_flags SYSTEM INTERFACE ${QD_VULKAN_HEADERS})
include(linking)
qd_find_compile_options(${CMAKE_SYSTEM_NAME} QD_COMPILE)
target_compile_options(qd_flags INTERFACE ${QD_COMPILE})
if(QD_DEBUG_INFO OR QD_SANITIZE)
  add_compile_options(-gline-tables-only)
endif()

if(QD_GLIBC)
  qd_find_link_options(${CMAKE_SYSTEM_NAME} QD_LINK)
else() # Loaders understand packed relocations since glibc 2.36.
  qd_find_link_options(${CMAKE_SYSTEM_NAME} QD_LINK PACKED_RELOCATIONS)
endif()
add_link_options(${QD_LINK_COMMON})
if(QD_SANITIZE)
  add_compile_options(-fsanitize=${QD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # `vptr` needs type information that LLVM's classes do not export.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options(-fsanitize=${QD_SANITIZE} -fno-sanitize=vptr -shared-libsan)
else()
  add_link_options(${QD_LINK_OWN_RUNTIME})
endif()
