# Embeds files into the library as text.
# fa2_embed_text(TARGET DIRECTORY NAME ENDING...): adds a generated source that defines fa2::embedded_<NAME>().
function(fa2_embed_text target directory name)
  list(TRANSFORM ARGN PREPEND ${directory}/*. OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DDIRECTORY=${directory} -DNAME=${name} "-DENDINGS=${ARGN}" -DOUTPUT=${output} -P
            ${PROJECT_SOURCE_DIR}/cmake/write_embedded_text.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_text.cmake
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
