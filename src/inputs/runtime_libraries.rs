//! Shared libraries that come with the C library and the compiler, by soname: what they do to unwinding is modelled, and what they need is not looked at.

/// The C library (glibc) and what comes with it. It calls back, it starts no unwinding but by functions that are listed by name, and its landing pads are cleanups.
pub const C_LIBRARIES: &[&str] = &[
    "ld-linux-x86-64.so.2",
    "libanl.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libutil.so.1",
];
/// The unwinders of gcc and of LLVM.
pub const UNWINDERS: &[&str] = &["libgcc_s.so.1", "libunwind.so.1"];
/// Libraries of C++, any function of which may throw, and which catch.
pub const CXX_LIBRARIES: &[&str] = &["libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"];

/// Whether a library of this soname is one of them.
pub fn is_known(soname: &str) -> bool {
    [C_LIBRARIES, UNWINDERS, CXX_LIBRARIES].iter().any(|known| known.contains(&soname))
}
