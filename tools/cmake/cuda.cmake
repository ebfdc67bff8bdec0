# What CUDA sources are compiled with and linked to. The language itself is enabled in dependencies.cmake.
add_library(norn_cuda_flags INTERFACE)
# CMake 3.25 refuses CUDA_STANDARD 20 with nvcc 13, so the standard is given by hand. Products and sums are not
# contracted: a weight that is updated by two kernels must get the same bits from both.
target_compile_options(norn_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr --extended-lambda --fmad=false -Werror all-warnings -diag-suppress=554 -lineinfo>)
target_include_directories(norn_cuda_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_link_libraries(norn_cuda_flags INTERFACE CUDA::cudart)

# Sources that use instructions of compute capability 9.0 alone: warpgroup products, tensor copies.
set(NORN_HOPPER_SOURCES factored/fold_hopper.cu fused/fused_output.cu fused/fused_output_float.cu fused/fused_softmax.cu
  fused/fused_update.cu fused/tile_totals.cu select/top_k_product.cu windows/turned_product.cu windows/window_product.cu)

# Adds every .cu of a folder's folders to a target.
function(norn_cuda_sources target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*/*.cu)
  list(TRANSFORM NORN_HOPPER_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE hopper_sources)
  list(REMOVE_ITEM sources ${hopper_sources})
  target_sources(${target} PRIVATE ${sources})
  add_library(${target}_hopper OBJECT ${hopper_sources})
  set_target_properties(${target}_hopper PROPERTIES CUDA_ARCHITECTURES 90a)
  target_include_directories(${target}_hopper PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_link_libraries(${target}_hopper PRIVATE norn_cuda_flags)
  target_compile_features(${target}_hopper PRIVATE cxx_std_20)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_hopper>)
  set_property(GLOBAL APPEND PROPERTY NORN_LAYER_OBJECTS $<TARGET_OBJECTS:${target}_hopper>)
endfunction()
