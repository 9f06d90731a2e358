# Options of compiler and linker for each system, as lists. A function of its arguments alone, so that `cmake -P` tests it on any system.
#
# Only Linux is built and tested. The options for macOS (Apple's linker or lld) and Windows (clang-cl with lld-link) are written after the
# linkers' manuals; docs/dev/packaging.md lists what else these systems need.

# qd_find_compile_options(<Linux|Darwin|Windows> <result>): warnings, and sections that the linker can drop.
function(qd_find_compile_options system result)
  if(system STREQUAL "Windows")
    set(${result} /W3 /WX /Gy /Gw /EHsc /utf-8 PARENT_SCOPE) # for clang-cl, /Wall is -Weverything
  elseif(system STREQUAL "Darwin")
    set(${result} -Wall -Wextra -Werror PARENT_SCOPE) # Mach-O drops symbols; there are no sections for each function
  else()
    set(${result} -Wall -Wextra -Werror -ffunction-sections -fdata-sections -fno-semantic-interposition PARENT_SCOPE)
  endif()
endfunction()

# qd_find_link_options(<Linux|Darwin|Windows> <prefix> [PACKED_RELOCATIONS])
# Sets <prefix>_COMMON, the options of all modules: unused and equal functions are dropped, and the build has an identity that the disk
# cache reads; <prefix>_OWN_RUNTIME, which links the C++ runtime statically; and <prefix>_REPLACES, whether the linker can replace functions
# (--wrap, --defsym).
function(qd_find_link_options system prefix)
  cmake_parse_arguments(PARSE_ARGV 2 arg "PACKED_RELOCATIONS" "" "")
  if(system STREQUAL "Darwin")
    set(common -Wl,-dead_strip) # the identity is LC_UUID, which each link writes
    set(own_runtime) # the system's libc++ is part of its interface
    set(replaces FALSE)
  elseif(system STREQUAL "Windows")
    set(common /OPT:REF /OPT:ICF /Brepro /DEBUG:NONE) # /Brepro: the time stamp is a digest of the contents
    set(own_runtime) # CMAKE_MSVC_RUNTIME_LIBRARY chooses it
    set(replaces FALSE)
  elseif(system STREQUAL "Linux")
    # The modules contain their own C++ runtime, so that no symbol collides with other libraries.
    # -O2: strings share their ends, which saves 100 KB of a wheel.
    set(common -fuse-ld=lld -Wl,-O2 -Wl,--gc-sections -Wl,--icf=all -Wl,--exclude-libs,ALL)
    if(arg_PACKED_RELOCATIONS)
      list(APPEND common -Wl,-z,pack-relative-relocs)
    endif()
    list(APPEND common -Wl,--build-id=sha1)
    set(own_runtime -static-libstdc++ -static-libgcc)
    set(replaces TRUE)
  else()
    message(FATAL_ERROR "Quadrants has no build rules for ${system}, only for Linux, Darwin and Windows")
  endif()
  set(${prefix}_COMMON ${common} PARENT_SCOPE)
  set(${prefix}_OWN_RUNTIME ${own_runtime} PARENT_SCOPE)
  set(${prefix}_REPLACES ${replaces} PARENT_SCOPE)
endfunction()

# qd_find_export_options(<system> <result> <module> <file>): options with which a module exports its entry point alone. On Linux they name
# <file>, an export list that the caller writes.
function(qd_find_export_options system result module file)
  if(system STREQUAL "Darwin")
    set(${result} -Wl,-exported_symbol,_PyInit_${module} PARENT_SCOPE)
  elseif(system STREQUAL "Windows")
    set(${result} PARENT_SCOPE) # a DLL exports what is declared so: Python's headers declare the entry point
  else()
    set(${result} -Wl,--version-script=${file} PARENT_SCOPE)
  endif()
endfunction()
