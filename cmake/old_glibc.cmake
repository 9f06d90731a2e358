# QD_GLIBC: the modules run with this glibc and newer ones, not only with those as new as this system's. For wheels.
set(QD_GLIBC "" CACHE STRING "Oldest glibc that the modules run with, for example 2.28; by default the one of this system")
if(NOT QD_GLIBC)
  return()
endif()
set(folder ${PROJECT_BINARY_DIR}/glibc-${QD_GLIBC})
execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/old_glibc/write_stubs.py ${folder} ${QD_GLIBC} ${CMAKE_CXX_COMPILER}
                COMMAND_ERROR_IS_FATAL ANY)
add_link_options(-L${folder})
add_library(qd_old_glibc OBJECT ${CMAKE_CURRENT_LIST_DIR}/old_glibc/functions.c)
target_compile_options(qd_old_glibc PRIVATE -std=c17 -Wall -Wextra -Werror)
