//! Carriers in control flow: selections, calls back, recursion, jumps out, labels, functions that return functions.

use super::{Carrier, Needs};

pub(super) const CARRIERS: &[Carrier] = &[
    Carrier::new("  fn @o = (x ^ y) == 0xdeadbeefu ? @t : @v;"),
    Carrier::new("  fn @o = @d; switch (x % 4u) { case 0: case 1: @o = @v; break; case 2: @o = x == 2 ? @t : @v; break; default: @o = @v; }"),
    Carrier::new("  fn @o = @v; for (unsigned i = 0; i < 4; i++) { fn n@# = i == x ? @t : @o; touch(&x); @o = n@#; }"),
    Carrier::new("  volatile fn w@# = @v; fn @o = w@#;"),
    // Through functions that are called by pointer.
    Carrier::new("  fn @o = through@#(same@#, @v);")
        .here("static fn same@#(fn f) { return f; }\nstatic @nfn through@#(fn (*by)(fn), fn f) { return by(f); }\n"),
    Carrier::new("  fn @o = pick@#[x & 1u](@v, @d);")
        .here("static fn left@#(fn l, fn r) { return r == 0 ? r : l; }\nstatic fn (*const pick@#[2])(fn, fn) = {left@#, left@#};\n"),
    Carrier::new("  fn @o = make@#(x)(@v);")
        .there("fn (*make@#(unsigned k))(fn);\n", "static fn one@#(fn f) { return f; }\nstatic fn two@#(fn f) { sum++; return f; }\nfn (*make@#(unsigned k))(fn) { return k & 1u ? one@# : two@#; }\n"),
    Carrier::new("  struct ctx@# c@# = {@v, 0, @d}; each@#(note@#, &c@#); fn @o = c@#.out;").here(
        "struct ctx@# { fn in, out, spare; };\nstatic void note@#(void *p, unsigned k) { struct ctx@# *c = (struct ctx@# *)p; if (k == 2u) c->out = c->in; }\n\
         static @nvoid each@#(void (*cb)(void *, unsigned), void *p) { for (unsigned i = 0; i < 4u; i++) cb(p, i); }\n",
    ),
    Carrier::new("  struct ctx@# c@# = {@v, 0}; visit@#(take@#, &c@#); fn @o = c@#.out;")
        .here("struct ctx@# { fn in, out; };\nstatic int take@#(void *p) { struct ctx@# *c = (struct ctx@# *)p; c->out = c->in; return 1; }\n")
        .there("int visit@#(int (*cb)(void *), void *p);\n", "int visit@#(int (*cb)(void *), void *p) { return cb(p); }\n"),
    Carrier::new("  listener@# = hear@#; say@#(@v); fn @o = heard@#;")
        .here("static fn heard@#;\nstatic void hear@#(fn f) { heard@# = f; }\n")
        .there("extern void (*listener@#)(fn);\nvoid say@#(fn f);\n", "static void deaf@#(fn f) { (void)f; }\nvoid (*listener@#)(fn) = deaf@#;\nvoid say@#(fn f) { if (listener@#) listener@#(f); }\n"),
    // Recursion.
    Carrier::new("  fn @o = deep@#(x & 7u, @v, @d);").here("static fn deep@#(unsigned k, fn f, fn g) { touch(&sum); return k ? deep@#(k - 1u, f, g) : f; }\n"),
    Carrier::new("  fn @o = even@#(x & 15u, @v);").here("static fn odd@#(unsigned k, fn f);\nstatic fn even@#(unsigned k, fn f) { return k ? odd@#(k - 1u, f) : f; }\nstatic @nfn odd@#(unsigned k, fn f) { return k ? even@#(k - 1u, f) : f; }\n"),
    Carrier::new("  fn @o = walk@#(4, @v, visit@#);").here("static fn visit@#(unsigned k, fn f);\nstatic @nfn walk@#(unsigned k, fn f, fn (*by)(unsigned, fn)) { return by(k, f); }\nstatic fn visit@#(unsigned k, fn f) { return k ? walk@#(k - 1u, f, visit@#) : f; }\n"),
    // Results of several registers and none.
    Carrier::new("  struct both@# b@# = both@#(@v, @d, x); fn @o = b@#.r;").there("struct both@# { fn l, r; };\nstruct both@# both@#(fn r, fn l, unsigned k);\n", "struct both@# both@#(fn r, fn l, unsigned k) { struct both@# b; b.l = l; b.r = r; if (k == 0xffffu) b.r = l; return b; }\n"),
    Carrier::new("  struct mixed@# b@# = mixed@#(2.5, @v); fn @o = b@#.f;").there("struct mixed@# { double d; fn f; };\nstruct mixed@# mixed@#(double d, fn f);\n", "struct mixed@# mixed@#(double d, fn f) { struct mixed@# b; b.d = d; b.f = f; return b; }\n"),
    Carrier::new("  struct big@# b@# = big@#(@v, x); fn @o = b@#.f[1];").there("struct big@# { unsigned k; fn f[3]; };\nstruct big@# big@#(fn f, unsigned k);\n", "struct big@# big@#(fn f, unsigned k) { struct big@# b = {k, {0, f, 0}}; b.f[2] = @d; return b; }\n"),
    Carrier::new("  fn @o = (fn)(uintptr_t)(wide@#((__extension__ (unsigned __int128)(uintptr_t)@v << 64) | x) >> 64);").needs(Needs::C).there("__extension__ unsigned __int128 wide@#(unsigned __int128 w);\n", "__extension__ unsigned __int128 wide@#(unsigned __int128 w) { return w + 1u - 1u; }\n"),
    Carrier::new("  union { fn f; double d; } u@#; u@#.f = @v; u@#.d = real@#(u@#.d); fn @o = u@#.f;").there("double real@#(double d);\n", "double real@#(double d) { touch(&sum); return d; }\n"),
    Carrier::new("  union { fn f[2]; long double l; } u@#; u@#.f[0] = @d; u@#.f[1] = @v; union { fn f[2]; double d[2]; } w@#; memcpy(&w@#, &u@#, 16); fn @o = eighth@#(1.0, 2.0, 3.0, w@#.d[1]);").here("static @nfn eighth@#(double a, double b, double c, double d) { union { fn f; double d; } u; u.d = a + b == c ? d : a; return u.f; }\n"),
    // Jumps.
    Carrier::new("  fn @o = @d; { static jmp_buf j@#; volatile fn w@# = @v; if (setjmp(j@#) == 0) leap@#(j@#, x); @o = w@#; }").here("static @nvoid leap@#(jmp_buf j, unsigned k) { if (k != 0xfedcu) longjmp(j, 1); }\n"),
    Carrier::new("  fn @o = jump@#(@v, x);").here("static jmp_buf at@#;\nstatic @nvoid far@#(unsigned k) { if (k | 1u) longjmp(at@#, 2); }\nstatic __attribute__((noinline)) fn jump@#(fn f, unsigned k) { fn volatile g = @d; switch (setjmp(at@#)) { case 0: g = f; far@#(k); break; case 2: return g; default: break; } return f; }\n"),
    Carrier::new("  fn @o = jump@#(@v);").here("static jmp_buf at@#; static fn thrown@#;\nstatic @nvoid throw@#(fn f) { thrown@# = f; longjmp(at@#, 1); }\nstatic __attribute__((noinline)) fn jump@#(fn f) { if (setjmp(at@#)) return thrown@#; throw@#(f); return @d; }\n"),
    Carrier::new("  fn @o = jump@#(@v);").here("static __attribute__((noinline)) fn jump@#(fn f) { sigjmp_buf at; if (sigsetjmp(at, 1) == 0) { touch(&sum); siglongjmp(at, 1); } return f; }\n"),
    Carrier::new("  fn @o = jump@#(@v);").needs(Needs::C).here("static void *at@#[5];\nstatic __attribute__((noinline)) void back@#(void) { __builtin_longjmp(at@#, 1); }\nstatic __attribute__((noinline)) fn jump@#(fn f) { volatile fn w = f; if (__builtin_setjmp(at@#) == 0) back@#(); return w; }\n"),
    // Labels.
    Carrier::new("  fn @o = code@#(x & 7u, @v);").needs(Needs::C).here(
        "static @nfn code@#(unsigned k, fn f) { static void *const ops[] = {&&push, &&swap, &&nop, &&end}; static const unsigned char program[] = {0, 2, 1, 2, 1, 3, 3, 3};\n\
         fn s = @d, t = 0; const unsigned char *at = program; k = k ? 0 : 0; goto *ops[*at++];\npush: t = s; s = f; goto *ops[*at++];\nswap: { fn u = t; t = s; s = u; } goto *ops[*at++];\n\
         nop: touch(&sum); goto *ops[*at++ + k];\nend: return s; }\n",
    ),
    Carrier::new("  fn @o = state@#(@v);").here(
        "static @nfn state@#(fn f) { unsigned s = 0; fn r = 0, t = 0; for (;;) switch (s) { case 0: t = f; s = 3; break; case 1: return r; case 2: r = t; s = 1; break; case 3: touch(&sum); s = 2; break; case 4: r = @d; s = 1; break; case 5: t = @d; s = 2; } }\n",
    ),
    // Nested functions of gcc.
    Carrier::new("#ifdef __clang__\n  fn @o = @v;\n#else\n  fn get@#(void) { return @v; }\n  fn (*volatile by@#)(void) = get@#; fn @o = by@#();\n#endif").needs(Needs::C),
    Carrier::new("#ifdef __clang__\n  fn @o = @v;\n#else\n  unsigned inner@#(unsigned p, unsigned q) { return @v(p, q) + x; }\n  fn @o = inner@#;\n#endif").needs(Needs::C),
    Carrier::new("  fn @o = ({ fn t@# = @v; touch(&x); t@#; });"),
    Carrier::new("  fn @o = @v; if (@o == @d || @o == 0) x++; else if ((uintptr_t)@o > (uintptr_t)@d) touch(&x);"),
    Carrier::new("  fn @o = tail@#(x, y, @v);").here("static @nfn last@#(fn f) { return f; }\nstatic @nfn tail@#(unsigned a, unsigned b, fn f) { touch(&a); if (a == b) return last@#(f); return last@#(f); }\n"),
    Carrier::new("  unsigned k@# = x; fn @o = 0; loop@#: if (k@# % 5u != 4u) { k@#++; @o = @v; goto loop@#; } if (!@o) @o = @v;").needs(Needs::C),
];
