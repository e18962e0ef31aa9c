# Headers only, but for Boost.Context and libdeflate, which are linked statically: libcuda and libnvrtc are opened at run time, spdlog, fmt,
# nlohmann-json and xxhash are compiled in.
find_package(Threads REQUIRED)
find_package(spdlog)
find_package(fmt)
find_package(nlohmann_json 3)
find_path(FA2_XXHASH_INCLUDE xxhash.h)
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost COMPONENTS context)
find_path(FA2_LIBDEFLATE_INCLUDE libdeflate.h)
find_library(FA2_LIBDEFLATE libdeflate.a)
foreach(found spdlog_FOUND fmt_FOUND nlohmann_json_FOUND FA2_XXHASH_INCLUDE Boost_CONTEXT_FOUND FA2_LIBDEFLATE_INCLUDE
              FA2_LIBDEFLATE)
  if(NOT ${found})
    message(FATAL_ERROR "fa2 is built with libraries that this machine lacks (${found}). Debian and Ubuntu have them: apt install "
                        "libspdlog-dev libfmt-dev libboost-context-dev nlohmann-json3-dev libxxhash-dev libdeflate-dev")
  endif()
endforeach()

# The CUDA Toolkit's headers, from a toolkit or from NVIDIA's wheels (see scripts/install_dependencies.sh), which a build by pip has
# beside its Python.
set(wheels "")
if(FA2_BUILD_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import nvidia; print(';'.join(p + '/cu13' for p in nvidia.__path__))"
                  OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(cuda_homes ENV CUDA_HOME ENV CUDA_PATH ${PROJECT_SOURCE_DIR}/.deps/cuda /usr/local/cuda ${wheels})
find_path(FA2_CUDA_INCLUDE cuda.h REQUIRED HINTS ${cuda_homes} PATH_SUFFIXES include)
find_path(FA2_NVRTC_INCLUDE nvrtc.h REQUIRED HINTS ${FA2_CUDA_INCLUDE} ${cuda_homes} PATH_SUFFIXES include)

add_library(fa2_dependencies INTERFACE)
target_include_directories(fa2_dependencies SYSTEM INTERFACE ${FA2_CUDA_INCLUDE} ${FA2_NVRTC_INCLUDE}
                                                             ${FA2_XXHASH_INCLUDE} ${FA2_LIBDEFLATE_INCLUDE})
target_link_libraries(fa2_dependencies INTERFACE nlohmann_json::nlohmann_json Boost::context ${FA2_LIBDEFLATE} Threads::Threads
                                                 ${CMAKE_DL_LIBS})
target_compile_definitions(fa2_dependencies INTERFACE _LIBCPP_ENABLE_CXX20_REMOVED_TYPE_TRAITS)  # Boost.Context 1.74 on libc++

# compiled_once.cpp names the templates that fmt 9 (Debian 12, Ubuntu 24.04) instantiates. Other versions: header-only, slower to build.
string(COMPARE EQUAL "${fmt_VERSION_MAJOR}" 9 FA2_COMPILES_ONCE)
if(FA2_COMPILES_ONCE)
  target_compile_definitions(fa2_dependencies INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
  target_include_directories(fa2_dependencies SYSTEM INTERFACE
    $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  target_link_libraries(fa2_dependencies INTERFACE spdlog::spdlog_header_only fmt::fmt-header-only)
endif()
