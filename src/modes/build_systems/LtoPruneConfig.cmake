# For find_package(LtoPrune). Made by lto-prune install-shims, which puts it beside the shims.
get_filename_component(_lto_prune_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(_lto_prune_shims "${_lto_prune_file}" DIRECTORY)
set_property(GLOBAL PROPERTY LTO_PRUNE_SHIMS "${_lto_prune_shims}")

# lto_prune_enable(TARGET... [OPTIONS --prune-...]): these targets are linked through lto-prune, with these options of it.
function(lto_prune_enable)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "OPTIONS")
    get_property(shims GLOBAL PROPERTY LTO_PRUNE_SHIMS)
    list(TRANSFORM arg_OPTIONS PREPEND "LINKER:")
    foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
        target_link_options(${target} PRIVATE "-B${shims}" ${arg_OPTIONS})
    endforeach()
endfunction()
