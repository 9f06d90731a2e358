# Python and nanobind. nanobind is a pip package: running the interpreter prints the folder of its CMake files.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module NumPy)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE nanobind_missing)
if(nanobind_missing)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind; `./dev build` makes a virtual environment that does")
endif()
find_package(nanobind CONFIG REQUIRED)
nanobind_build_library(nanobind-static)

add_library(qd_python INTERFACE)
target_include_directories(qd_python SYSTEM INTERFACE ${Python_INCLUDE_DIRS} ${Python_NumPy_INCLUDE_DIRS} ${NB_DIR}/include)
