# Embeds device code into the library as text.
# fa2_embed_device_code(TARGET DIRECTORY NAME): adds a generated source that defines fa2::embedded_<NAME>().
function(fa2_embed_device_code target directory name)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${directory}/*.cuh ${directory}/*.cu)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DDIRECTORY=${directory} -DNAME=${name} -DOUTPUT=${output} -P
            ${PROJECT_SOURCE_DIR}/cmake/write_embedded_code.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_code.cmake
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
