//! One test for each fixture that goes through the matrix.
//!
//! They are named here and not found by walking the folder, so that each is a test of its own for the runner; a
//! tidy test holds this list against the folder.

macro_rules! cases {
    ($($name:ident)*) => {
        /// Every fixture named in this file.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name),)*];

        $(#[test]
        fn $name() {
            crate::matrix::run(stringify!($name));
        })*
    };
}

cases! {
    aliases
    as_needed_by_library
    as_needed_dead
    as_needed_overridden
    as_needed_unused
    bitcode
    called_values
    circular_archives
    cold_split
    common
    common_alignment
    common_member
    compressed_debug
    computed_goto
    constructors
    copy_relocation
    cv_data_parts
    cv_environment
    cv_handlers
    cv_kept
    cv_ms_abi
    cv_streams
    cv_text
    cv_text_ways
    cv_thunks
    cv_thunks_inline
    cv_trampoline
    cv_vectors
    cv_x87
    cxx_comdat
    cxx_exceptions
    cxx_rtti
    cxx_shared
    cxx_static_init
    defsym
    dso_reference
    duplicate_definition
    duplicate_members
    dynamic_list
    emit_relocs
    entry
    exclude_libs
    exclude_libs_weak
    export_dynamic
    fat_bitcode
    fn_aligned
    fn_biased
    fn_cxx
    fn_flags
    fn_ifunc
    fn_nested
    fn_tables
    fn_text_data
    fn_top_asm
    fn_unreachable
    full_matrix
    gcc_lto_fat
    gcc_lto_slim
    hidden_merge
    ifunc
    ifunc_pointer
    init_fini_option
    init_section
    interposed
    library_extracts_member
    library_needs_library
    library_not_on_line
    link_order
    linker_script_input
    many_sections
    merge_strings
    missing_library
    mono_sections
    objects
    own_malloc
    protected
    relocatable
    retain
    script_keep
    stapsdt
    start_lib
    start_stop
    stub_corners
    stub_mentioned
    stub_shared
    stub_virtual
    start_stop_gc
    static_pie
    switch_table
    symver
    thin_archive
    tls
    undefined_hidden
    undefined_in_dead
    undefined_in_dead_gc
    undefined_in_dead_shared
    undefined_live
    undefined_option
    undefined_weak_live
    unique_exported
    unprunable_sections
    version_script
    versioned_reference
    weak_bar_ctor
    weak_beside_library
    weak_order
    whole_archive
    wrap
    wrap_archive
}
