# cmake --install: the header, the library, pkg-config and find_package(coll). Everything is relocatable: the installed
# files find their prefix from where they lie, so a tree that was moved, or bundled in a Python package, still works.
include(CMakePackageConfigHelpers)
set(coll_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/coll")

install(FILES "${PROJECT_SOURCE_DIR}/libcoll/include/coll.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS coll EXPORT coll LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(COLL_STATIC)
    install(TARGETS coll_static ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(EXPORT coll FILE coll-targets.cmake NAMESPACE coll:: DESTINATION "${coll_cmake_dir}")
configure_file(cmake/coll-config.cmake.in coll-config.cmake @ONLY)
write_basic_package_version_file(coll-config-version.cmake VERSION ${COLL_VERSION_NUMBERS}
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/coll-config.cmake" "${PROJECT_BINARY_DIR}/coll-config-version.cmake"
    DESTINATION "${coll_cmake_dir}")

# How deep the .pc file lies below the prefix; Debian's library directory has two parts.
file(RELATIVE_PATH coll_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" coll_pc_to_prefix "${coll_pc_to_prefix}")
configure_file(cmake/libcoll.pc.in libcoll.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/libcoll.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
