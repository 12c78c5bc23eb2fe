//! Carriers near the machine: vectors, atomics, inline assembly, other calling conventions.

use super::{Carrier, Needs};

pub(super) const CARRIERS: &[Carrier] = &[
    // Vectors.
    Carrier::new("  typedef unsigned long long w2@# __attribute__((vector_size(16))); w2@# w@# = {(uintptr_t)@d, (uintptr_t)@v}; touch(&x); fn @o = (fn)w@#[1];"),
    Carrier::new("  w2@# w@# = pass@#((w2@#){(uintptr_t)@v, (uintptr_t)@t}); fn @o = (fn)w@#[1];").needs(Needs::C)
        .there("typedef unsigned long long w2@# __attribute__((vector_size(16)));\nw2@# pass@#(w2@# w);\n", "w2@# pass@#(w2@# w) { w2@# r = {w[1], w[0]}; return r; }\n"),
    Carrier::new("  w4@# w@# = {(uintptr_t)@v, (uintptr_t)@d, x, y}; kept@# = w@#; touch(&x); w4@# u@# = kept@#; fn @o = (fn)u@#[0 + zero];").needs(Needs::C)
        .here("typedef unsigned long long w4@# __attribute__((vector_size(32)));\nstatic w4@# kept@#;\n"),
    Carrier::new("  uintptr_t s@#[8], t@#[8]; for (int i = 0; i < 8; i++) s@#[i] = (uintptr_t)@v ^ (uintptr_t)i; touch(&x); for (int i = 0; i < 8; i++) t@#[i] = s@#[i] ^ 0x55ull; touch(&x); fn @o = (fn)(t@#[6] ^ 0x53ull);"),
    Carrier::new("  fn s@#[8], t@#[8]; unsigned char m@#[8]; for (int i = 0; i < 8; i++) { s@#[i] = @v; t@#[i] = @t; m@#[i] = (unsigned char)(x >> i & 1u); } touch(&x); for (int i = 0; i < 8; i++) t@#[i] = m@#[i] ? t@#[i] : s@#[i]; touch(&x); fn @o = t@#[y & 7u];"),
    Carrier::new("  fn s@#[16]; unsigned n@#[4] = {5, 3, 9, 12}; for (int i = 0; i < 16; i++) s@#[i] = i == 9 ? @v : @t; fn g@#[4]; touch(&x); for (int i = 0; i < 4; i++) g@#[i] = s@#[n@#[i] + zero]; fn @o = g@#[2];"),
    // Atomics.
    Carrier::new("  __atomic_store_n(&cell@#, @v, __ATOMIC_SEQ_CST); touch(&x); fn @o = __atomic_exchange_n(&cell@#, (fn)0, __ATOMIC_SEQ_CST);").here("static fn cell@# = @d;\n"),
    Carrier::new("  fn e@# = 0; cell@# = 0; __atomic_compare_exchange_n(&cell@#, &e@#, @v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); touch(&x); fn @o = __atomic_load_n(&cell@#, __ATOMIC_ACQUIRE);").here("static fn cell@#;\n"),
    Carrier::new("  fn e@# = @d; cell@# = @v; __atomic_compare_exchange_n(&cell@#, &e@#, (fn)0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); fn @o = e@#;").here("static fn cell@#;\n"),
    Carrier::new("  word@# = 0; __atomic_fetch_or(&word@#, (uintptr_t)@v, __ATOMIC_SEQ_CST); fn @o = (fn)__sync_val_compare_and_swap(&word@#, (uintptr_t)0, (uintptr_t)1);").here("static uintptr_t word@#;\n"),
    Carrier::new("  word@# = 8; __atomic_fetch_add(&word@#, (uintptr_t)@v, __ATOMIC_SEQ_CST); touch(&x); fn @o = (fn)(__atomic_fetch_sub(&word@#, 8, __ATOMIC_SEQ_CST) - 8u);").here("static uintptr_t word@#;\n"),
    // Assembly.
    Carrier::new("  fn @o = @v; __asm__(\"\" : \"+r\"(@o));"),
    Carrier::new("  fn @o; __asm__(\"mov %1, %0\" : \"=r\"(@o) : \"r\"(@v));"),
    Carrier::new("  fn @o, m@# = @v; __asm__ volatile(\"movq %1, %%xmm7\\n\\tmovq %%xmm7, %0\" : \"=m\"(@o) : \"m\"(m@#) : \"xmm7\");"),
    Carrier::new("  fn @o, m@# = @v; __asm__ volatile(\"fildll %1\\n\\tfistpll %0\" : \"=m\"(@o) : \"m\"(m@#) : \"st\");"),
    Carrier::new("  fn @o, m@# = @v; { void *d = &@o; const void *s = &m@#; size_t n = 8; __asm__ volatile(\"rep movsb\" : \"+D\"(d), \"+S\"(s), \"+c\"(n) : : \"memory\"); }"),
    Carrier::new("  fn @o; { uintptr_t n = (uintptr_t)@v; __asm__ volatile(\"bswap %0\\n\\tbswap %0\" : \"+r\"(n)); @o = (fn)n; }"),
    Carrier::new("  fn @o = @d; __asm__ volatile(\"cmp %%rax, %%rax\\n\\tcmove %1, %0\" : \"+r\"(@o) : \"r\"(@v) : \"cc\");"),
    Carrier::new("  fn @o = @d, m@# = @v; __asm__ volatile(\"xchg %0, %1\" : \"+r\"(@o), \"+m\"(m@#));"),
    Carrier::new("  fn @o; { fn m = @v; __asm__ volatile(\"movntiq %1, %0\\n\\tsfence\" : \"=m\"(cell@#) : \"r\"(m)); @o = cell@#; }").here("static fn cell@#;\n"),
    Carrier::new("  fn @o; { fn m = @v; __asm__ volatile(\"mov %1, %%rcx\\n\\tlea -128(%%rsp), %%rsp\\n\\tpush %%rcx\\n\\tpop %%rdx\\n\\tlea 128(%%rsp), %%rsp\\n\\tmov %%rdx, %0\" : \"=r\"(@o) : \"r\"(m) : \"rcx\", \"rdx\"); }"),
    Carrier::new("  fn @o; __asm__(\"lea (%1,%2,4), %0\" : \"=r\"(@o) : \"r\"(@v), \"r\"((uintptr_t)zero));"),
    Carrier::new("  fn @o; __asm__(\"lea (%2,%1,1), %0\" : \"=r\"(@o) : \"r\"(@v), \"r\"((uintptr_t)zero));"),
    Carrier::new("  fn @o; __asm__(\"mov $0, %k0\\n\\tadd %1, %0\" : \"=&r\"(@o) : \"r\"(@v) : \"cc\");"),
    Carrier::new("  unsigned r@#, d@# = x, s@# = y; __asm__ volatile(\"mov %%rsp, %%rbx\\n\\tsub $256, %%rsp\\n\\tand $-16, %%rsp\\n\\tcall *%[f]\\n\\tmov %%rbx, %%rsp\" : \"=a\"(r@#), \"+D\"(d@#), \"+S\"(s@#) : [f] \"r\"(@v) : \"rbx\", \"rcx\", \"rdx\", \"r8\", \"r9\", \"r10\", \"r11\", \"xmm0\", \"xmm1\", \"xmm2\", \"xmm3\", \"xmm4\", \"xmm5\", \"xmm6\", \"xmm7\", \"xmm8\", \"xmm9\", \"xmm10\", \"xmm11\", \"xmm12\", \"xmm13\", \"xmm14\", \"xmm15\", \"memory\", \"cc\"); x += r@#; fn @o = @v;"),
    // Other conventions.
    Carrier::new("  fn @o = ms@#(x, y, @v, @d);").there("__attribute__((ms_abi)) fn ms@#(unsigned a, unsigned b, fn f, fn g);\n", "__attribute__((ms_abi)) fn ms@#(unsigned a, unsigned b, fn f, fn g) { touch(&a); return a == b + 77u ? g : f; }\n"),
    Carrier::new("  fn @o = ms@#(x, y, 1, 2, 3, @v);").there("__attribute__((ms_abi)) fn ms@#(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, fn f);\n", "__attribute__((ms_abi)) fn ms@#(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, fn f) { touch(&e); return a == b + 77u + c + d ? 0 : f; }\n"),
    Carrier::new("  fn @o = @v; quiet@#(x); x += @o(x, y); quiet@#(y);").there("__attribute__((ms_abi)) void quiet@#(unsigned k);\n", "__attribute__((ms_abi)) void quiet@#(unsigned k) { sum += k; }\n"),
    Carrier::new("#ifdef __clang__\n#define MOST@# __attribute__((preserve_most))\n#else\n#define MOST@# __attribute__((no_caller_saved_registers, target(\"general-regs-only\")))\n#endif\n  fn @o = keep@#(@v, @d, x, y);")
        .here("void most@#(unsigned *k) __attribute__((no_caller_saved_registers));\nvoid most@#(unsigned *k);\nstatic @nfn keep@#(fn f, fn g, unsigned a, unsigned b) { most@#(&sum); most@#(&sum); return a == b + 99u ? g : f; }\n")
        .there("", "__attribute__((no_caller_saved_registers, target(\"general-regs-only\"))) void most@#(unsigned *k);\n__attribute__((no_caller_saved_registers, target(\"general-regs-only\"))) void most@#(unsigned *k) { *k += 3u; }\n"),
    Carrier::new("#ifdef __clang__\n  fn @o = keep@#(@v, @d, x, y);\n#else\n  fn @o = @v;\n#endif").needs(Needs::C)
        .here("#ifdef __clang__\nextern __attribute__((preserve_most)) void most@#(unsigned *k);\nstatic @nfn keep@#(fn f, fn g, unsigned a, unsigned b) { most@#(&sum); most@#(&sum); return a == b + 99u ? g : f; }\n__attribute__((preserve_most)) void most@#(unsigned *k) { *k += 3u; }\n#endif\n"),
    // The frame from outside.
    Carrier::new("  fn @o = up@#(@v);").here("static __attribute__((noinline)) fn up@#(fn f) { volatile uintptr_t l[2] = {(uintptr_t)f, (uintptr_t)@d}; volatile uintptr_t *p = l; touch(&sum); return (fn)p[0 + zero]; }\n"),
    Carrier::new("  fn @o; { void *ret = __builtin_return_address(0); (void)ret; void *fr = __builtin_frame_address(0); (void)fr; @o = @v; if (!ret) x++; }"),
];
