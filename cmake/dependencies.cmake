# Headers only, but for Boost.Context, which is linked statically: libcuda and libnvrtc are opened at run time, spdlog, fmt,
# nlohmann-json and xxhash are compiled in.
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
find_path(FA2_XXHASH_INCLUDE xxhash.h REQUIRED)

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost REQUIRED COMPONENTS context)

# The CUDA Toolkit's headers, from a toolkit or from NVIDIA's wheels (see scripts/install_dependencies.sh).
find_path(FA2_CUDA_INCLUDE cuda.h REQUIRED
          HINTS ENV CUDA_HOME ENV CUDA_PATH ${PROJECT_SOURCE_DIR}/.deps/cuda /usr/local/cuda
          PATH_SUFFIXES include)
find_path(FA2_NVRTC_INCLUDE nvrtc.h REQUIRED
          HINTS ${FA2_CUDA_INCLUDE} ENV CUDA_HOME ENV CUDA_PATH ${PROJECT_SOURCE_DIR}/.deps/cuda /usr/local/cuda
          PATH_SUFFIXES include)

add_library(fa2_dependencies INTERFACE)
target_include_directories(fa2_dependencies SYSTEM INTERFACE ${FA2_CUDA_INCLUDE} ${FA2_NVRTC_INCLUDE}
                                                             ${FA2_XXHASH_INCLUDE})
target_link_libraries(fa2_dependencies INTERFACE nlohmann_json::nlohmann_json Boost::context Threads::Threads ${CMAKE_DL_LIBS})

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
