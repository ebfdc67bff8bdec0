# What CUDA sources are compiled with. The language itself is enabled in dependencies.cmake.
add_library(norn_cuda_flags INTERFACE)
# CMake 3.25 refuses CUDA_STANDARD 20 with nvcc 13, so the standard is given by hand.
target_compile_options(norn_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr --extended-lambda -Werror all-warnings -lineinfo>)
target_include_directories(norn_cuda_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(norn_cuda_flags INTERFACE CUDA::cudart_static)
