# Flags of what is shipped: the library, the fa2 command and the Python extension, which link fa2_hardening. They make bugs harder to
# exploit, and leave the paths of the build and functions without a caller out of a release. Sanitizers bring checks of their own.
option(FA2_HARDENING "Build with stack protectors, _FORTIFY_SOURCE and full RELRO, and without paths of the build" ON)

add_library(fa2_hardening INTERFACE)
if(NOT FA2_HARDENING OR FA2_SANITIZE)
  return()
endif()

include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)

# The highest level that the C library knows; more is a warning. It takes optimisation, which Debug and an -O0 of the user's leave out.
function(fa2_find_fortify_level)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  foreach(level 3 2)
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror=cpp -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}")
    check_cxx_source_compiles("#include <cstring>\nint fa2() { return 0; }" FA2_HAS_FORTIFY_${level})
    if(FA2_HAS_FORTIFY_${level})
      target_compile_options(fa2_hardening INTERFACE
        $<$<NOT:$<CONFIG:Debug,None>>:-U_FORTIFY_SOURCE>
        $<$<NOT:$<CONFIG:Debug,None>>:-D_FORTIFY_SOURCE=${level}>)
      return()
    endif()
  endforeach()
endfunction()
if(NOT CMAKE_CXX_FLAGS MATCHES "-O0|_FORTIFY_SOURCE")
  fa2_find_fortify_level()
endif()

function(fa2_check_compile_flags)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  check_cxx_compiler_flag(-fstack-protector-strong FA2_HAS_STACK_PROTECTOR)
  check_cxx_compiler_flag(-ffile-prefix-map=a=b FA2_HAS_FILE_PREFIX_MAP)
endfunction()
fa2_check_compile_flags()
if(FA2_HAS_STACK_PROTECTOR)
  target_compile_options(fa2_hardening INTERFACE -fstack-protector-strong)
endif()
if(FA2_HAS_FILE_PREFIX_MAP)  # a debugger needs the paths
  foreach(directory ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
    target_compile_options(fa2_hardening INTERFACE $<$<NOT:$<CONFIG:Debug,RelWithDebInfo>>:-ffile-prefix-map=${directory}/=>)
  endforeach()
endif()

set(FA2_HARDENED_LINK -Wl,-z,relro,-z,now,-z,noexecstack)
check_linker_flag(CXX ${FA2_HARDENED_LINK} FA2_HAS_HARDENED_LINK)
if(FA2_HAS_HARDENED_LINK)
  target_link_options(fa2_hardening INTERFACE ${FA2_HARDENED_LINK})
endif()

check_linker_flag(CXX -Wl,--gc-sections FA2_HAS_GC_SECTIONS)
if(FA2_HAS_GC_SECTIONS)
  target_compile_options(fa2_hardening INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(fa2_hardening INTERFACE -Wl,--gc-sections)
endif()
