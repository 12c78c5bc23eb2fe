//! The help text, of both modes in one.

pub(super) const TEXT: &str = "\
lto-prune: link-time pruning for x86_64 ELF, in front of any linker

It reads every object of a link, works out what the program can reach, and hands the linker objects from which the
rest is gone. Nothing is recompiled. What it doesn't understand it keeps.

Usage:
  lto-prune [options] a.o b.o libx.a -lm -o main    link by hand, through cc (or $CC; C++ objects: c++ or $CXX)
  ld.lto-prune ...                                  as a linker: GNU ld's command line, as compilers call it
  lto-prune install-shims DIR                       make DIR/ld, DIR/ld.lld and DIR/ld.lto-prune for gcc -B DIR
  lto-prune summarize IN... -o OUT                  write a module summary ahead of the link
  lto-prune dump FILE                               print a summary as text
  lto-prune audit COMMAND ...                       what the bytes of a program are, and what keeps them (audit --help)
  lto-prune bisect [--repeat=N] [--timeout=S] -- COMMAND...
                                                    which dropped function or object makes COMMAND fail (bisect --help)
  lto-prune split [--data] IN -o OUT                rewrite objects, archives or a folder of them as if built with
                                                    -ffunction-sections [and -fdata-sections] (split --help)
  lto-prune explain-trap BINARY ADDRESS|CORE        which pruned function was run, should one ever be

Examples:
  lto-prune main.o util.o -o main --prune-report=main.json
  lto-prune install-shims ~/shims && gcc -B ~/shims main.o -o main
  clang --ld-path=$HOME/shims/ld.lto-prune main.o -o main -Wl,--prune-why='parse_*'
  RUSTFLAGS=\"-Clinker-features=-lld -Clink-arg=-B$HOME/shims\" cargo build

Options (from a compiler: -Wl,--prune-...; or in LTO_PRUNE_FLAGS, which the command line overrides):
 What is pruned
  --prune-level=off|sections|functions|pointers     how far to go (default: pointers, within --prune-budget); off links
                                                    the originals and, with a report, says what would go; off:LEVEL
                                                    at another level
  --prune-debug=keep|drop                           drop: an object loses its debug information with the first thing that
                                                    goes from it, as always with -s or -S (default: keep)
  --prune-keep=GLOB                                 keep these symbols; may be repeated
  --prune-stub-symbol=GLOB                          for tests: make these functions stubs, whatever is needed
  --prune-limit=N, --prune-limit=N@LINK,...         drop only the first N atoms (of each link; of these links and
                                                    nothing of others), see bisect
  --prune-strict                                    fail, with status 1, in place of a warning that something goes on unpruned
 What is reported
  --prune-report=FILE                               everything kept and dropped, with reasons, as JSON
  --prune-remarks=FILE                              LLVM optimisation remarks, as YAML
  --prune-why=GLOB                                  why these symbols were kept or dropped; may be repeated
  --prune-log=FILE                                  add a line of JSON: id of the link, how many atoms could go
  --prune-stats                                     a table of sizes on the terminal
  --prune-time                                      time of each pass
 What is left behind
  --prune-emit=DIR                                  keep the pruned objects and a script that links them
  --prune-repro=FILE.tar                            inputs and command line of this link
 How it runs
  --prune-linker=PATH                               the linker behind; else $LTO_PRUNE_LINKER, ld.lld, the newest
                                                    ld.lld-N, rustc's own lld
  --prune-budget=BYTES                              at the level pointers, follow addresses only in links with at most so
                                                    much live code (default: 16384; where the level is named: any)
  --prune-gate=PERCENT                              at the level pointers, follow addresses only if at least so much of
                                                    the code lives because its address is mentioned (default: 2)
  --prune-jobs=N                                    threads (default: one for each processor)
  --prune-cache=DIR, --prune-no-cache               where summaries are cached (default: nowhere)

All other options are the linker's. ld.lto-prune --help prints its help as well.
";
