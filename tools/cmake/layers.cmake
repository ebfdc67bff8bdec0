# norn_layer(NAME [SOURCES folder...] DEPENDS lib... PRIVATE_DEPENDS lib...)
# One static library per layer of the house, from src/NAME unless folders are named. Layers link downward only.
function(norn_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES src/${name})
  endif()
  list(TRANSFORM ARG_SOURCES APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${ARG_SOURCES})
  add_library(norn_${name} STATIC ${sources})
  add_library(norn::${name} ALIAS norn_${name})
  target_include_directories(norn_${name}
    PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/include
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src/${name})
  target_link_libraries(norn_${name} PUBLIC ${ARG_DEPENDS}
    PRIVATE $<BUILD_INTERFACE:norn_flags> ${ARG_PRIVATE_DEPENDS})
  target_compile_features(norn_${name} PUBLIC cxx_std_20)
  set_property(GLOBAL APPEND PROPERTY NORN_LAYER_OBJECTS $<TARGET_OBJECTS:norn_${name}>)
  set_property(GLOBAL APPEND PROPERTY NORN_LAYER_LIBRARIES ${ARG_PRIVATE_DEPENDS})
endfunction()

# The layers declared so far as one shared library, target `norn`: what programs link and what is installed. It is made of
# the layers' objects; their static libraries are for tests of one layer and for programs that need few of them.
function(norn_shared_library)
  get_property(objects GLOBAL PROPERTY NORN_LAYER_OBJECTS)
  get_property(libraries GLOBAL PROPERTY NORN_LAYER_LIBRARIES)
  add_library(norn SHARED ${objects})
  target_include_directories(norn
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(norn PUBLIC fmt::fmt Threads::Threads PRIVATE $<BUILD_INTERFACE:norn_flags> ${libraries})
  target_compile_features(norn PUBLIC cxx_std_20)
  # Calls within the library need no look-up when it is loaded.
  target_link_options(norn PRIVATE LINKER:-Bsymbolic-functions)
  if(NOT NORN_SANITIZE)  # sanitizers leave their symbols to the program
    target_link_options(norn PRIVATE LINKER:-z,defs)
  endif()
  # Before 1.0 a minor version may change what programs are compiled against.
  set_target_properties(norn PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()
