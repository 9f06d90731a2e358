# mlir-tblgen: src/<module>/<file>.td → generated/<module>/<file><suffix>, included as "<module>/<file>.h.inc". `qd_generated` makes them all.
find_program(QD_MLIR_TBLGEN mlir-tblgen PATHS ${QD_LLVM_ROOT}/bin NO_DEFAULT_PATH REQUIRED)
add_custom_target(qd_generated)
file(GLOB QD_TD_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/*.td)

# qd_tablegen(module/file.td output-name generator-arguments...)
function(qd_tablegen td output)
  set(source ${PROJECT_SOURCE_DIR}/src/${td})
  if(NOT EXISTS ${source})
    return()
  endif()
  set(result ${PROJECT_BINARY_DIR}/generated/${output})
  cmake_path(GET result PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${result}
    COMMAND ${QD_MLIR_TBLGEN} ${ARGN} -I ${PROJECT_SOURCE_DIR}/src -I ${QD_LLVM_ROOT}/include ${source} -o ${result} -d ${result}.d
    DEPFILE ${result}.d DEPENDS ${source} ${QD_MLIR_TBLGEN} COMMENT "tblgen ${output}" VERBATIM)
  string(REPLACE "/" "_" target ${output})
  add_custom_target(qd_tablegen_${target} DEPENDS ${result})
  add_dependencies(qd_generated qd_tablegen_${target})
endfunction()

qd_tablegen(ir/dialect.td ir/dialect.h.inc -gen-dialect-decls -dialect=qd)
qd_tablegen(ir/dialect.td ir/dialect.cpp.inc -gen-dialect-defs -dialect=qd)
qd_tablegen(ir/dialect.td ir/types.h.inc -gen-typedef-decls -typedefs-dialect=qd)
qd_tablegen(ir/dialect.td ir/types.cpp.inc -gen-typedef-defs -typedefs-dialect=qd)
qd_tablegen(ir/ops.td ir/ops.h.inc -gen-op-decls)
qd_tablegen(ir/ops.td ir/ops.cpp.inc -gen-op-defs)
qd_tablegen(passes/passes.td passes/passes.h.inc -gen-pass-decls -name=Quadrants)
