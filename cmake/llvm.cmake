# LLVM, MLIR and lld, linked statically. Lists the components that the compiler calls; --gc-sections drops unused code.
# Suppresses messages about optional libraries that LLVM does not find (editline, curl).
set(CMAKE_MESSAGE_LOG_LEVEL NOTICE)
set(QD_LLVM_VERSION 22.1) # MLIR and LLD have none of their own: they look for the LLVM that they belong to
foreach(package LLVM MLIR LLD)
  find_package(${package} ${QD_${package}_VERSION} QUIET CONFIG HINTS ${QD_LLVM_ROOT})
  qd_require(${package}_FOUND "${package} 22, in ${QD_LLVM_ROOT} or CMAKE_PREFIX_PATH")
endforeach()
unset(CMAKE_MESSAGE_LOG_LEVEL)

llvm_map_components_to_libnames(QD_LLVM_COMPONENTS
  core support irreader bitreader bitwriter linker option object mc passes target targetparser analysis scalaropts vectorize transformutils
  asmparser x86codegen x86asmparser x86desc x86info aarch64codegen aarch64asmparser aarch64desc aarch64info
  nvptxcodegen nvptxdesc nvptxinfo amdgpucodegen amdgpudesc amdgpuinfo amdgpuutils)

set(QD_MLIR_LIBRARIES MLIRIR MLIRParser MLIRPass MLIRSupport MLIRFunctionInterfaces MLIRControlFlowInterfaces
    MLIRSideEffectInterfaces MLIRInferTypeOpInterface MLIRTransforms MLIRTransformUtils MLIRAnalysis)
set(QD_COMPILER_LIBRARIES ${QD_MLIR_LIBRARIES} lldELF lldCommon ${QD_LLVM_COMPONENTS})
# `_runtime` takes BLAKE3 and xxHash from LLVM's support library; the rest of it is dropped.
set(QD_HASHING_LIBRARIES LLVMSupport)
set(QD_OPT_LIBRARIES MLIROptLib ${QD_COMPILER_LIBRARIES})

add_library(qd_mlir INTERFACE)
target_include_directories(qd_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} ${LLD_INCLUDE_DIRS})
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(qd_mlir INTERFACE ${llvm_definitions})
# Templates of LLVM's headers cause this warning when Quadrants instantiates them.
target_compile_options(qd_mlir INTERFACE -Wno-unused-parameter)

# The distribution's MLIR and lld link the shared libLLVM, and its LLVM links libraries that only code unused here calls (Z3, libxml2).
# The wheel must run without them: these dependencies are removed, and the compression libraries are linked statically.
foreach(library z zstd)
  find_library(QD_STATIC_${library} lib${library}.a)
  qd_require(QD_STATIC_${library} "lib${library}.a")
endforeach()
get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${imported_targets})
  get_target_property(requests ${target} INTERFACE_LINK_LIBRARIES)
  if(requests)
    list(FILTER requests EXCLUDE REGEX "^(LLVM|.*Polly.*|.*[zZ]3.*|LibXml2::LibXml2)$")
    list(TRANSFORM requests REPLACE "^ZLIB::ZLIB$" "${QD_STATIC_z}")
    list(TRANSFORM requests REPLACE "^zstd::libzstd_shared$" "${QD_STATIC_zstd}")
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${requests}")
  endif()
endforeach()

# `_compiler` omits parts of LLVM that --gc-sections retains because of calls that never happen.
add_library(qd_unused_llvm OBJECT ${CMAKE_CURRENT_LIST_DIR}/unused_llvm.c)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/unused_llvm.txt unused REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/unused_llvm.txt)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(TRANSFORM unused REPLACE "^LLVMInitializeAArch64" "LLVMInitializeX86")
endif()
list(TRANSFORM unused PREPEND "-Wl,--defsym=")
list(TRANSFORM unused APPEND "=qd_nothing" OUTPUT_VARIABLE QD_WITHOUT_UNUSED_LLVM)
