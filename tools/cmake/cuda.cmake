# What CUDA sources are compiled with and linked to. The language itself is enabled in dependencies.cmake.
add_library(norn_cuda_flags INTERFACE)
# CMake 3.25 refuses CUDA_STANDARD 20 with nvcc 13, so the standard is given by hand. Products and sums are not
# contracted: a weight that is updated by two kernels must get the same bits from both.
target_compile_options(norn_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr --extended-lambda --fmad=false -Werror all-warnings -diag-suppress=554 -lineinfo>)
target_include_directories(norn_cuda_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_link_libraries(norn_cuda_flags INTERFACE CUDA::cudart)

# Adds every .cu of a folder to a target.
function(norn_cuda_sources target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu)
  target_sources(${target} PRIVATE ${sources})
endfunction()
