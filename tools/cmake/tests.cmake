# Tests that run under mpirun.

# What AddressSanitizer needs to tell Open MPI's leaks from ours: tests/support/leaks.txt, and stacks that go through its libraries.
set(NORN_LEAK_OPTIONS "ASAN_OPTIONS=fast_unwind_on_malloc=0"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks.txt:print_suppressions=0")

# norn_mpi_test(NAME name TARGET program RANKS n... [ARGUMENTS ...] [PASS regex] [TIMEOUT seconds])
# One test for each number of ranks, named mpi.<name>.<ranks>. "@RANKS@" in an argument becomes the number.
# With PASS, what is printed decides instead of the exit code of mpirun.
function(norn_mpi_test)
  cmake_parse_arguments(ARG "" "NAME;TARGET;PASS;TIMEOUT" "RANKS;ARGUMENTS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  foreach(ranks IN LISTS ARG_RANKS)
    string(REPLACE "@RANKS@" "${ranks}" arguments "${ARG_ARGUMENTS}")
    set(test mpi.${ARG_NAME}.${ranks})
    add_test(NAME ${test}
      COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${ARG_TARGET}> ${arguments})
    # Tests often run as the superuser of a container; polling ranks must give way when there are more of them than cores; and those of
    # tests that run side by side would all be bound to the same first cores.
    set_tests_properties(${test} PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ranks}
      ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1;${NORN_LEAK_OPTIONS}")
    if(ARG_PASS)
      set_tests_properties(${test} PROPERTIES PASS_REGULAR_EXPRESSION "${ARG_PASS}")
    endif()
  endforeach()
endfunction()
