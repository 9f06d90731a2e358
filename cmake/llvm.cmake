# LLVM, MLIR and lld, linked statically. Only what the compiler calls is named; --gc-sections drops the rest.
set(QD_LLVM_ROOT /usr/lib/llvm-22 CACHE PATH "Installation prefix of LLVM 22")
# What LLVM looks for and does not find (editline, curl) is of no interest.
set(CMAKE_MESSAGE_LOG_LEVEL NOTICE)
find_package(LLVM 22.1 REQUIRED CONFIG PATHS ${QD_LLVM_ROOT} NO_DEFAULT_PATH)
find_package(MLIR REQUIRED CONFIG PATHS ${QD_LLVM_ROOT} NO_DEFAULT_PATH)
find_package(LLD REQUIRED CONFIG PATHS ${QD_LLVM_ROOT} NO_DEFAULT_PATH)
unset(CMAKE_MESSAGE_LOG_LEVEL)

llvm_map_components_to_libnames(QD_LLVM_COMPONENTS
  core support irreader bitreader bitwriter linker option object mc passes target targetparser analysis scalaropts vectorize transformutils
  asmparser x86codegen x86asmparser x86desc x86info aarch64codegen aarch64asmparser aarch64desc aarch64info
  nvptxcodegen nvptxdesc nvptxinfo)

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
# LLVM's headers in our own templates: nothing that we could change.
target_compile_options(qd_mlir INTERFACE -Wno-unused-parameter)

# The distribution's MLIR and lld ask for the shared libLLVM, and its LLVM for libraries that only parts unused here call (Z3, libxml2).
# The wheel must run where none of these is installed: those requests are struck out, and the compressors come in statically.
foreach(library z zstd)
  find_library(QD_STATIC_${library} lib${library}.a REQUIRED)
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
