# Compiler settings that every target of ours shares.
add_library(norn_flags INTERFACE)
# Not CMAKE_CXX_STANDARD: CMake 3.25 would derive CUDA20 from it, which it cannot map to nvcc.
target_compile_features(norn_flags INTERFACE cxx_std_20)
target_compile_options(norn_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  # A vector body and its scalar tail must round alike, or results would depend on how units are sharded.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fno-math-errno -fno-trapping-math>)
if(NORN_ARCH)
  target_compile_options(norn_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${NORN_ARCH}>)
endif()
if(NORN_WARNINGS_AS_ERRORS)
  target_compile_options(norn_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(NORN_SANITIZE)
  target_compile_options(norn_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${NORN_SANITIZE} -fno-omit-frame-pointer>)
  # Instrumented code makes g++ 12 take what a variant holds for uninitialised.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(norn_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  target_link_options(norn_flags INTERFACE -fsanitize=${NORN_SANITIZE})
  if(NORN_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_definitions(norn_flags INTERFACE __SANITIZE_ADDRESS__)  # as g++ says it
  endif()
endif()
if(NORN_COVERAGE)
  # Counters that stand in the profile itself, so that a killed process loses none.
  set(counted -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation)
  target_compile_options(norn_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${counted}>")
  target_link_options(norn_flags INTERFACE -fprofile-instr-generate)
endif()
