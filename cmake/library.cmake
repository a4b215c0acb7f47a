# The library. Every source file is compiled once, and both forms are made of the same objects.
file(GLOB_RECURSE coll_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/libcoll/src/*.c")
file(GLOB coll_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/libcoll/src/data/*.c")
set_source_files_properties(${coll_kernels} PROPERTIES COMPILE_OPTIONS -O3)

add_library(coll_objects OBJECT ${coll_sources})
set_target_properties(coll_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden)
target_include_directories(coll_objects
    PUBLIC "${PROJECT_SOURCE_DIR}/libcoll/include" "${PROJECT_SOURCE_DIR}/libcoll/src"
    PRIVATE "${COLL_UTHASH_INCLUDE}")
set_source_files_properties("${PROJECT_SOURCE_DIR}/libcoll/src/base/version.c" PROPERTIES
    COMPILE_DEFINITIONS COLL_VERSION_STRING="${COLL_VERSION_TEXT}")
# What coll.h declares is visible, all the rest hidden: no file needs a mark of its own.
target_compile_options(coll_objects PRIVATE "SHELL:-include \"${PROJECT_SOURCE_DIR}/cmake/visibility.h\"")
target_link_libraries(coll_objects PRIVATE coll_flags PkgConfig::sodium Threads::Threads)
if(COLL_HAVE_LIBFABRIC)
    target_compile_definitions(coll_objects PUBLIC COLL_HAVE_LIBFABRIC)
    target_include_directories(coll_objects PUBLIC "${COLL_LIBFABRIC_INCLUDE}")
endif()

set(coll_map "${PROJECT_SOURCE_DIR}/cmake/coll.map")
add_library(coll SHARED $<TARGET_OBJECTS:coll_objects>)
set_target_properties(coll PROPERTIES LINKER_LANGUAGE C LINK_DEPENDS "${coll_map}")
if(COLL_VERSIONED_SONAME)
    set_target_properties(coll PROPERTIES VERSION ${COLL_VERSION_NUMBERS} SOVERSION ${PROJECT_VERSION_MAJOR})
endif()
target_link_options(coll PRIVATE "-Wl,--version-script=${coll_map}")
if(NOT COLL_SANITIZE)
    target_link_options(coll PRIVATE -Wl,--no-undefined)
endif()
target_link_libraries(coll PRIVATE $<BUILD_INTERFACE:coll_flags> PkgConfig::sodium Threads::Threads ${CMAKE_DL_LIBS} m)
target_include_directories(coll INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libcoll/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
add_library(coll::coll ALIAS coll)

if(COLL_STATIC OR COLL_TESTS)
    add_library(coll_static STATIC $<TARGET_OBJECTS:coll_objects>)
    set_target_properties(coll_static PROPERTIES OUTPUT_NAME coll LINKER_LANGUAGE C)
    target_link_libraries(coll_static PRIVATE
        $<BUILD_INTERFACE:coll_flags> $<BUILD_INTERFACE:PkgConfig::sodium> Threads::Threads ${CMAKE_DL_LIBS} m)
    target_include_directories(coll_static INTERFACE
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/libcoll/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endif()
