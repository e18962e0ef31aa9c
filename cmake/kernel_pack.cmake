# Links kernels into a program, which then needs neither NVRTC nor files:
#   fa2_add_kernel_pack(TARGET PACK kernels.fa2pack)                      a pack that is there
#   fa2_add_kernel_pack(TARGET PRECOMPILE --arch h100 --head-dim 128)     one that the build makes, by these flags of fa2 precompile
# TARGET must be an executable or a shared library: a linker drops what nobody refers to in a static one. The program searches the pack
# before FA2_CACHE_PATH. A target may have several packs.
function(fa2_add_kernel_pack target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PACK" "PRECOMPILE")
  if((NOT arg_PACK AND NOT arg_PRECOMPILE) OR (arg_PACK AND arg_PRECOMPILE) OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fa2_add_kernel_pack(${ARGV}) must be (TARGET PACK FILE) or (TARGET PRECOMPILE FLAGS...)")
  endif()
  if(NOT TARGET fa2::command)
    message(FATAL_ERROR "fa2_add_kernel_pack() needs the fa2 command: build fa2 with FA2_BUILD_TOOLS=ON")
  endif()
  get_target_property(packs ${target} FA2_KERNEL_PACKS)
  if(NOT packs)
    set(packs 0)
  endif()
  math(EXPR packs "${packs} + 1")
  set_target_properties(${target} PROPERTIES FA2_KERNEL_PACKS ${packs})
  set(stem ${CMAKE_CURRENT_BINARY_DIR}/${target}_kernels_${packs})
  if(arg_PRECOMPILE)
    set(pack ${stem}.fa2pack)
    add_custom_command(OUTPUT ${pack} COMMAND fa2::command precompile ${arg_PRECOMPILE} --out ${pack} DEPENDS fa2::command
                       COMMENT "Compiling the kernels of ${target}" VERBATIM)
  else()
    get_filename_component(pack ${arg_PACK} ABSOLUTE)
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(source ${stem}.cpp)
  if("C" IN_LIST languages)
    set(source ${stem}.c)
  endif()
  add_custom_command(OUTPUT ${source} COMMAND fa2::command pack embed ${pack} --out ${source} DEPENDS ${pack} fa2::command
                     COMMENT "Embedding the kernels of ${target}" VERBATIM)
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${source})
  target_link_libraries(${target} PRIVATE fa2::fa2)
endfunction()
