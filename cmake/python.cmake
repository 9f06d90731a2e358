# Python and nanobind. nanobind is a pip package: running the interpreter prints the folder of its CMake files.
# A Python that does not run here, or of another version, is described by its headers: all that modules are compiled with.
set(QD_PYTHON_HEADERS "" CACHE PATH "Headers of the Python to build for; by default those of the interpreter that runs the build")
set(QD_PYTHON_ABI "" CACHE STRING "Part of the modules' names with QD_PYTHON_HEADERS, for example cpython-313-x86_64-linux-gnu")
if(QD_PYTHON_HEADERS)
  set(Python_INCLUDE_DIRS ${QD_PYTHON_HEADERS})
  set(Python_SOABI ${QD_PYTHON_ABI})
  set(Python_INTERPRETER_ID Python)
  string(REGEX REPLACE "^cpython-3([0-9]+)-.*" "3.\\1" Python_VERSION ${QD_PYTHON_ABI})
  add_executable(Python::Interpreter IMPORTED)
  add_library(Python::Module INTERFACE IMPORTED)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import numpy; print(numpy.get_include())" OUTPUT_VARIABLE Python_NumPy_INCLUDE_DIRS
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module NumPy)
endif()
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE nanobind_missing)
if(nanobind_missing)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no nanobind; `./dev build` makes a virtual environment that does")
endif()
find_package(nanobind CONFIG REQUIRED)
nanobind_build_library(nanobind-static)

add_library(qd_python INTERFACE)
target_include_directories(qd_python SYSTEM INTERFACE ${Python_INCLUDE_DIRS} ${Python_NumPy_INCLUDE_DIRS} ${NB_DIR}/include)
