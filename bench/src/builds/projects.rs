//! The projects that `bench builds` builds, and how: their own build systems, called as a packager would.
//!
//! Every step is for `sh -e`, in the folder of the first source. Set are CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS (empty) and DESTDIR,
//! of which CC and CXX name the linker's folder; for cargo RUSTFLAGS does. What is left out of a test suite is said here.

/// Where the sources of a project come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum SourceOrigin {
    /// Debian's source packages; the first is what is built, the others lie beside it.
    Debian(&'static [&'static str]),
    /// A crate of crates.io and its version.
    Crate(&'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectCompiler {
    Gcc,
    Clang,
    Rustc,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Project {
    pub(super) name: &'static str,
    pub(super) source: SourceOrigin,
    /// The build system, as the table of results names it.
    pub(super) system: &'static str,
    pub(super) compiler: ProjectCompiler,
    pub(super) flags: &'static str,
    pub(super) linkers: &'static [&'static str],
    pub(super) build: &'static str,
    pub(super) test: &'static str,
    pub(super) install: &'static str,
    /// Packages that the build needs beyond compilers, linkers and make.
    pub(super) needs: &'static [&'static str],
}

const GCC: Project = Project {
    name: "",
    source: SourceOrigin::Debian(&[]),
    system: "make",
    compiler: ProjectCompiler::Gcc,
    flags: "-O2",
    linkers: &["lld"],
    build: "make -j2",
    test: "make check",
    install: "make install DESTDIR=\"$DESTDIR\"",
    needs: &[],
};

const AUTOTOOLS: Project =
    Project { system: "Autotools", build: "./configure --prefix=/usr\nmake -j2", ..GCC };

const CMAKE: Project = Project {
    system: "CMake",
    build: "cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr\ncmake --build build -j2",
    test: "cd build; ctest",
    install: "cmake --install build",
    needs: &["cmake"],
    ..GCC
};

const MESON: Project = Project {
    system: "Meson",
    build: "meson setup build --prefix=/usr\nninja -C build -j2",
    test: "meson test -C build --no-rebuild --num-processes=1",
    install: "meson install -C build --no-rebuild",
    needs: &["meson", "ninja-build"],
    ..GCC
};

const CARGO: Project = Project {
    system: "cargo",
    compiler: ProjectCompiler::Rustc,
    flags: "",
    build: "printf '\\n[workspace]\\n' >>Cargo.toml\ncargo build --locked -j2",
    test: "cargo test --locked -j2 -- --test-threads=1",
    install: "mkdir -p \"$DESTDIR\"; find target/debug -maxdepth 1 -type f '(' -perm -u+x -o -name '*.so' ')' -exec cp {} \"$DESTDIR\" ';'",
    ..GCC
};

/// All of them, in the order of the table.
pub(super) const PROJECTS: &[Project] = &[
    Project {
        name: "xz",
        source: SourceOrigin::Debian(&["xz-utils"]),
        flags: "-O2 -g",
        linkers: &["lld", "bfd"],
        ..AUTOTOOLS
    },
    Project {
        name: "xz-without-g",
        linkers: &["gold"],
        source: SourceOrigin::Debian(&["xz-utils"]),
        ..AUTOTOOLS
    },
    Project { name: "sed", source: SourceOrigin::Debian(&["sed"]), ..AUTOTOOLS },
    // Extensions are opened with dlopen.
    // Debian's sources are without the manual's.
    Project {
        name: "gawk",
        source: SourceOrigin::Debian(&["gawk"]),
        linkers: &["lld", "bfd"],
        build: "./configure --prefix=/usr\nmake -C support -j2\nmake -j2 gawk\nmake -C extension -j2",
        install: "make install-binPROGRAMS DESTDIR=\"$DESTDIR\"\nmake -C extension install DESTDIR=\"$DESTDIR\"",
        test: "make -C test check",
        ..AUTOTOOLS
    },
    Project {
        name: "libyaml",
        source: SourceOrigin::Debian(&["libyaml"]),
        compiler: ProjectCompiler::Clang,
        build: "./bootstrap\n./configure --prefix=/usr\nmake -j2",
        needs: &["autoconf", "automake", "libtool"],
        ..AUTOTOOLS
    },
    Project {
        name: "nettle",
        source: SourceOrigin::Debian(&["nettle"]),
        flags: "-O2 -g",
        build: "./configure --prefix=/usr --disable-documentation\nmake -j2",
        needs: &["m4", "libgmp-dev"],
        ..AUTOTOOLS
    },
    // Nearly all of the shell is in modules that it opens with dlopen; -rdynamic. Documentation would need yodl.
    Project {
        name: "zsh",
        source: SourceOrigin::Debian(&["zsh"]),
        linkers: &["lld", "gold"],
        build: "./Util/preconfig\n./configure --prefix=/usr --with-tcsetpgrp\nmake -j2",
        install: "make install.bin install.modules DESTDIR=\"$DESTDIR\"",
        needs: &["autoconf", "libncurses-dev"],
        ..AUTOTOOLS
    },
    // Plugins, opened with dlopen by a program with --export-dynamic.
    Project {
        name: "lighttpd",
        source: SourceOrigin::Debian(&["lighttpd"]),
        build: "./configure --prefix=/usr --without-pcre2 --without-zlib --without-bzip2\nmake -j2",
        needs: &["perl"],
        ..AUTOTOOLS
    },
    Project { name: "cjson", source: SourceOrigin::Debian(&["cjson"]), linkers: &["lld", "mold"], ..CMAKE },
    Project { name: "cjson-with-g", source: SourceOrigin::Debian(&["cjson"]), flags: "-O2 -g", ..CMAKE },
    Project {
        name: "json-c",
        source: SourceOrigin::Debian(&["json-c"]),
        compiler: ProjectCompiler::Clang,
        flags: "-O2 -g",
        build: "cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr -DDISABLE_WERROR=ON \\
                -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--undefined-version\ncmake --build build -j2",
        test: "cd build; USE_VALGRIND=0 ctest",
        ..CMAKE
    },
    // Its shared library has a version script.
    Project {
        name: "jansson",
        source: SourceOrigin::Debian(&["jansson"]),
        flags: "-O2 -g",
        build: "cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr -DJANSSON_BUILD_DOCS=OFF -DJANSSON_BUILD_SHARED_LIBS=ON\ncmake --build build -j2",
        ..CMAKE
    },
    // googletest, with a shared library of C++ and hidden visibility.
    Project {
        name: "fmt",
        source: SourceOrigin::Debian(&["fmtlib"]),
        flags: "-O1",
        build: "cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=ON -DFMT_DOC=OFF\ncmake --build build -j2",
        ..CMAKE
    },
    Project {
        name: "tinyxml2",
        source: SourceOrigin::Debian(&["tinyxml2"]),
        compiler: ProjectCompiler::Clang,
        build: "cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=ON\ncmake --build build -j2",
        ..CMAKE
    },
    Project {
        name: "fribidi",
        source: SourceOrigin::Debian(&["fribidi"]),
        linkers: &["lld", "bfd", "mold", "gold"],
        ..MESON
    },
    Project {
        name: "zstd",
        source: SourceOrigin::Debian(&["libzstd"]),
        flags: "-O2 -g",
        build: "cd build/meson; meson setup build --prefix=/usr -Dbin_programs=true\nninja -C build -j2",
        test: "cd programs; cp ../build/meson/build/programs/zstd .; cd ../tests; make -s datagen; ZSTD_BIN=../programs/zstd DATAGEN_BIN=./datagen ./playTests.sh",
        install: "meson install -C build/meson/build --no-rebuild",
        ..MESON
    },
    Project {
        name: "zlib",
        source: SourceOrigin::Debian(&["zlib"]),
        // Its version script names functions that Linux doesn't have, which lld refuses by default.
        build: "LDSHARED=\"$CC -shared -Wl,-soname,libz.so.1,--version-script,zlib.map,--undefined-version\" \\
                ./configure --prefix=/usr\nmake -j2",
        linkers: &["lld", "bfd"],
        ..GCC
    },
    Project {
        name: "bzip2",
        source: SourceOrigin::Debian(&["bzip2"]),
        build: "make -j2 bzip2 bzip2recover libbz2.a CC=\"$CC\"",
        test: "LD_LIBRARY_PATH=. make test CC=\"$CC\"",
        install: "cp -P bzip2 bzip2recover libbz2.so* \"$DESTDIR\"",
        ..GCC
    },
    // The interpreter exports its functions (-Wl,-E) to lpeg, which it opens with dlopen.
    Project {
        name: "lua+lpeg",
        source: SourceOrigin::Debian(&["lua5.4", "lua-lpeg"]),
        // What Debian's rules do besides.
        build: "echo '#define DEB_HOST_MULTIARCH \"x86_64-linux-gnu\"' >src/lua5.4-deb-multiarch.h\n\
                make -C src linux CC=\"$CC -std=gnu99\" CXX=\"$CXX\" LIBTOOL='libtool --quiet' V=5.4 DEB_HOST_MULTIARCH=x86_64-linux-gnu\n\
                make -C ../lua-lpeg linux CC=\"$CC\" LUADIR=../lua5.4/src",
        test: "cd ../lua-lpeg; ../lua5.4/src/lua5.4 test.lua",
        install: "mkdir -p \"$DESTDIR\"; cp src/.libs/lib*.so.0.0.0 src/lua5.4 src/luac5.4 ../lua-lpeg/lpeg.so \"$DESTDIR\"",
        linkers: &["lld", "mold"],
        needs: &["libtool-bin"],
        ..GCC
    },
    Project {
        name: "http-parser",
        source: SourceOrigin::Debian(&["http-parser"]),
        build: "make -j2 library package url_parser CC=\"$CC\"",
        test: "make test CC=\"$CC\"",
        install: "make install PREFIX=/usr DESTDIR=\"$DESTDIR\"",
        ..GCC
    },
    Project {
        name: "lz4",
        source: SourceOrigin::Debian(&["lz4"]),
        compiler: ProjectCompiler::Clang,
        build: "make -j2 CC=\"$CC\"",
        test: "make -C tests test-lz4-essentials test-frametest test-decompress-partial CC=\"$CC\" FUZZER_TIME=-T20s",
        install: "make install DESTDIR=\"$DESTDIR\" CC=\"$CC\"",
        ..GCC
    },
    // -rdynamic; modules are opened with dlopen. Of the tests those of one type, of scripts and of modules.
    Project {
        name: "redis",
        source: SourceOrigin::Debian(&["redis"]),
        flags: "",
        build: "make -j2 CC=\"$CC\" MALLOC=libc\nmake -C tests/modules CC=\"$CC\" LD=\"$CC\" CFLAGS='-O2 -g'",
        test: "./runtest --clients 2 --single unit/type/string --single unit/scripting --single unit/moduleapi/basics \
               --single unit/moduleapi/hooks --single unit/moduleapi/datatype",
        install: "make install CC=\"$CC\" MALLOC=libc PREFIX=\"$DESTDIR\"; cp tests/modules/*.so \"$DESTDIR\"",
        needs: &["tcl"],
        ..GCC
    },
    // Derive macros are shared libraries that the compiler opens as it goes on.
    Project { name: "fd", source: SourceOrigin::Crate("fd-find", "10.5.0"), ..CARGO },
    // A cdylib with an interface of C, which a program of C tests.
    Project {
        name: "rure",
        source: SourceOrigin::Crate("rure", "0.2.5"),
        build: "printf '\\n[workspace]\\n' >>Cargo.toml\ncargo build --locked --release -j2",
        test: "$CC -O2 ctest/test.c -Iinclude -Ltarget/release -lrure -o ctest/test\nLD_LIBRARY_PATH=target/release ctest/test",
        install: "mkdir -p \"$DESTDIR\"; cp target/release/*.so \"$DESTDIR\"",
        ..CARGO
    },
];
