# Embeds every device template into the library as text.
# fa2_embed_templates(TARGET DIRECTORY): adds a generated source that defines fa2::embedded_templates().
function(fa2_embed_templates target directory)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${directory}/*.cuh ${directory}/*.cu)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_templates.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DDIRECTORY=${directory} -DOUTPUT=${output} -P
            ${PROJECT_SOURCE_DIR}/cmake/write_embedded_templates.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_templates.cmake
    COMMENT "Embedding templates"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
