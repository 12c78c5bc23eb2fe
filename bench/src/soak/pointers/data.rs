//! Carriers in memory: globals, the heap, containers, unions, and integers that are addresses.

use super::{Carrier, Needs};

pub(super) const CARRIERS: &[Carrier] = &[
    // Globals.
    Carrier::new("  slot@# = @v; touch(&x); fn @o = slot@#;").here("static fn slot@# = @d;\n"),
    Carrier::new("  slot@# = @v; unused@# = @d; touch(&x); fn @o = slot@#;")
        .there("extern fn slot@#, unused@#;\n", "fn slot@#, unused@# = @d;\n"),
    Carrier::new("  set@#(@v); touch(&x); fn @o = get@#();").there(
        "void set@#(fn f);\nfn get@#(void);\n",
        "static struct { unsigned k; fn f, g; } hidden@# = {3, @d, @d};\n\
         void set@#(fn f) { hidden@#.f = f; if (hidden@#.k == 9) hidden@#.g = f; }\nfn get@#(void) { return hidden@#.f; }\n",
    ),
    Carrier::new("  perthread@# = @v; other@# = @d; touch(&x); fn @o = perthread@#;")
        .here("static __thread fn perthread@#, other@#;\n"),
    Carrier::new("  fn @o; { static fn last@#; fn before = last@#; last@# = @v; touch(&x); @o = last@#; if (before && before != @o) x++; }"),
    Carrier::new("  whole@# = (struct whole@#){ {@d, 4, @v}, @d }; touch(&x); struct whole@# copy@# = whole@#; fn @o = copy@#.in.second;")
        .needs(Needs::C)
        .here("struct whole@# { struct { fn first; unsigned k; fn second; } in; fn third; };\nstatic struct whole@# whole@#;\n"),
    // Tables of operations.
    Carrier::new("  struct thing@# thing@# = {&ops@#, @v}; fn @o = thing@#.ops->get(&thing@#);").here(
        "struct thing@#;\nstruct ops@# { unsigned (*area)(struct thing@# *); fn (*get)(struct thing@# *); fn never; };\n\
         struct thing@# { const struct ops@# *ops; fn held; };\n\
         static unsigned area@#(struct thing@# *t) { return t->held == 0 ? 1u : sum; }\n\
         static fn give@#(struct thing@# *t) { return t->held; }\n\
         static const struct ops@# ops@# = {area@#, give@#, @d};\n",
    ),
    // A member's address, and back to the structure.
    Carrier::new(
        "  struct outer@# o@# = {@d, {5}, @v}; struct inner@# *i@# = &o@#.in; touch(&x);\n\
         \x20 fn @o = back@#(i@#);",
    )
    .here(
        "struct inner@# { unsigned k; };\nstruct outer@# { fn a; struct inner@# in; fn b; };\n\
         static @nfn back@#(struct inner@# *i) { return ((struct outer@# *)((char *)i - offsetof(struct outer@#, in)))->b; }\n",
    ),
    Carrier::new(
        "  struct many@# m@# = {@d, @d, @d, @d}; *(fn *)((char *)&m@# + where@#[@i]) = @v; touch(&x); fn @o = *(fn *)((char *)&m@# + where@#[@i + zero]);",
    )
    .here(
        "struct many@# { fn a, b, c, d; };\nstatic const unsigned char where@#[4] = {0, 8, 16, 24};\n",
    ),
    // Arrays.
    Carrier::new("  fn l@#[4] = {@t, @t, @t, @t}; l@#[@i] = @v; touch(&x); fn @o = l@#[@i + zero];"),
    Carrier::new(
        "  fn l@#[2][3]; for (unsigned i = 0; i < 6; i++) l@#[i / 3][i % 3] = @v; touch(&x); fn @o = l@#[x & 1u][y % 3u];",
    ),
    Carrier::new(
        "  fn l@#[8], m@#[8]; for (unsigned i = 0; i < 8; i++) l@#[i] = i == 5 ? @v : @t; touch(&x);\n\
         \x20 for (unsigned i = 0; i < 8; i++) m@#[7 - i] = l@#[i]; touch(&x); fn @o = m@#[2 + zero];",
    ),
    Carrier::new(
        "  struct pair@# p@#[3] = {{1, @t}, {2, @v}, {3, @t}}; unsigned n@# = 3 + zero; fn @o = 0;\n\
         \x20 for (struct pair@# *q = p@# + n@#; q-- != p@#;) if (q->k == 2u + zero) @o = q->f;",
    )
    .here("struct pair@# { unsigned k; fn f; };\n"),
    Carrier::new("  fn *b@# = ring@# - 3; b@#[4u + zero] = @v; touch(&x); fn @o = b@#[4 + zero];").here("static fn ring@#[4];\n"),
    Carrier::new(
        "  queue@#[tail@#++ % 4u] = @t; queue@#[tail@#++ % 4u] = @v; touch(&x); (void)queue@#[head@#++ % 4u]; fn @o = queue@#[head@#++ % 4u];",
    )
    .here("static fn queue@#[4]; static unsigned head@#, tail@#;\n"),
    Carrier::new("  fn l@#[3 + x % 2u]; l@#[0] = @d; l@#[2] = @v; touch(&x); fn @o = l@#[2 + zero];").needs(Needs::C),
    Carrier::new(
        "  fn *l@# = (fn *)alloca((4 + (x & 7u)) * sizeof(fn)); l@#[0] = @d; l@#[3] = @v; touch(&x); fn @o = l@#[3];",
    ),
    // The heap.
    Carrier::new("  fn *h@# = (fn *)malloc(4 * sizeof(fn)); h@#[0] = @d; h@#[2] = @v; touch(&x); fn @o = h@#[2]; free(h@#);"),
    Carrier::new("  fn *h@# = (fn *)calloc(4, sizeof(fn)); h@#[@i] = @v; h@# = (fn *)realloc(h@#, 900); touch(&x); fn @o = h@#[@i + zero]; free(h@#);"),
    Carrier::new("  void *h@# = 0; if (posix_memalign(&h@#, 64, 64)) abort(); ((fn *)h@#)[1] = @v; touch(&x); fn @o = ((fn *)h@#)[1];"),
    Carrier::new("  struct node@# *n@# = new@#(@v, new@#(@d, 0)); touch(&x); fn @o = n@#->f; free(n@#->next); free(n@#);").here(
        "struct node@# { struct node@# *next; fn f; };\n\
         static @nstruct node@# *new@#(fn f, struct node@# *next) { struct node@# *n = (struct node@# *)xmalloc(sizeof *n); n->next = next; n->f = f; return n; }\n",
    ),
    Carrier::new(
        "  push@#(1, @t); push@#(2, @v); push@#(3, @t); touch(&x); fn @o = find@#(2 + zero);",
    )
    .there(
        "void push@#(unsigned k, fn f);\nfn find@#(unsigned k);\n",
        "struct link@# { unsigned k; struct link@# *next; fn f; };\nstatic struct link@# *first@#;\n\
         void push@#(unsigned k, fn f) { struct link@# *l = (struct link@# *)malloc(sizeof *l); if (!l) abort(); l->k = k; l->f = f; l->next = first@#; first@# = l; }\n\
         fn find@#(unsigned k) { struct link@# **at = &first@#; while (*at && (*at)->k != k) at = &(*at)->next; if (!*at) return 0; struct link@# *l = *at; *at = l->next; fn f = l->f; free(l); return f; }\n",
    ),
    Carrier::new(
        "  struct tree@# *t@# = 0; insert@#(&t@#, 5, @t); insert@#(&t@#, 2, @v); insert@#(&t@#, 9, @t); touch(&x); fn @o = search@#(t@#, 2u + zero);",
    )
    .here(
        "struct tree@# { struct tree@# *l, *r; fn f; unsigned k; };\n\
         static void insert@#(struct tree@# **t, unsigned k, fn f) { if (!*t) { *t = (struct tree@# *)calloc(1, sizeof **t); (*t)->k = k; (*t)->f = f; } else insert@#(k < (*t)->k ? &(*t)->l : &(*t)->r, k, f); }\n\
         static fn search@#(struct tree@# *t, unsigned k) { return !t ? 0 : t->k == k ? t->f : search@#(k < t->k ? t->l : t->r, k); }\n",
    ),
    Carrier::new("  struct flex@# *f@# = (struct flex@#*)xmalloc(sizeof *f@# + 3 * sizeof(fn)); f@#->tail[2] = @v; f@#->head = @d; touch(&x); fn @o = f@#->tail[2 + zero];")
        .needs(Needs::C)
        .here("struct flex@# { fn head; unsigned n; fn tail[]; };\n"),
    Carrier::new("  fn *a@# = (fn *)arena(3 * sizeof(fn)); a@#[1] = @v; touch(&x); fn @o = a@#[1];"),
    Carrier::new(
        "  fn *m@# = (fn *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); m@#[7] = @v; touch(&x); fn @o = m@#[7]; munmap(m@#, 4096);",
    ),
    // Pointers to pointers.
    Carrier::new("  fn l@# = @v, *p@# = &l@#, **q@# = &p@#; touch(&x); fn @o = **q@#;"),
    Carrier::new("  fn l@# = @v, m@# = @d; fn *p@#[2] = {&m@#, &l@#}; touch(&x); fn @o = *p@#[1 + zero]; (void)m@#;"),
    Carrier::new("  fn @o; out@#(&@o, @v, x);").there("void out@#(fn *to, fn f, unsigned k);\n", "void out@#(fn *to, fn f, unsigned k) { fn spare = @d; *to = k ? f : f; if (spare == f) sum++; }\n"),
    Carrier::new("  fn @o = @v, m@# = @t; swap@#(&@o, &m@#); touch(&x); swap@#(&@o, &m@#);")
        .here("static @nvoid swap@#(fn *l, fn *r) { fn t = *l; *l = *r; *r = t; }\n"),
    Carrier::new("  bag@# = &box@#; bag@#->f = @v; touch(&x); fn @o = box@#.f;").here("struct box@# { char pad[12]; fn f, g; };\nstatic struct box@# box@#, *bag@#;\n"),
    // Integers.
    Carrier::new("  union { fn f; uintptr_t n; } u@#; u@#.f = @v; u@#.n ^= 0x5a5a5a5a5aull; touch(&x); u@#.n ^= 0x5a5a5a5a5aull; fn @o = u@#.f;"),
    Carrier::new("  volatile uintptr_t k@# = 0x1234567u + (uintptr_t)zero; uintptr_t n@# = (uintptr_t)@v ^ k@#; touch(&x); fn @o = (fn)(n@# ^ k@#);"),
    Carrier::new("  masked@# = (uintptr_t)@v + 77u; touch(&x); fn @o = (fn)(masked@# - 77u + zero);").here("static uintptr_t masked@#;\n"),
    Carrier::new("  masked@# = ~(uintptr_t)@v; touch(&x); fn @o = (fn)~masked@#;").here("static uintptr_t masked@#;\n"),
    Carrier::new("  masked@# = (uintptr_t)@v << 8 | 5u; touch(&x); fn @o = (fn)(masked@# >> 8);").here("static uintptr_t masked@#;\n"),
    Carrier::new("  uint32_t lo@# = (uint32_t)(uintptr_t)@v, hi@# = (uint32_t)((uintptr_t)@v >> 32); touch(&x); fn @o = (fn)((uintptr_t)hi@# << 32 | lo@#);"),
    Carrier::new("  halves@#[0] = (uint32_t)(uintptr_t)@v; halves@#[1] = (uint32_t)((uintptr_t)@v >> 32); touch(&x); fn @o = (fn)((uintptr_t)halves@#[1] << 32 | halves@#[0]);").here("static uint32_t halves@#[2];\n"),
    Carrier::new("  unsigned char b@#[8]; for (int i = 0; i < 8; i++) b@#[i] = (unsigned char)((uintptr_t)@v >> 8 * i); touch(&x); uintptr_t n@# = 0; for (int i = 8; i-- > 0;) n@# = n@# << 8 | b@#[i]; fn @o = (fn)n@#;"),
    Carrier::new("  char t@#[16]; fn w@# = @v; for (int i = 0; i < 16; i++) { unsigned c = (((unsigned char *)&w@#)[i / 2] >> 4 * (i & 1)) & 15u; t@#[i] = (char)(c + 'A'); } touch(&x);\n\
                   \x20 unsigned char b@#[8] = {0}; for (int i = 0; i < 16; i++) b@#[i / 2] |= (unsigned char)((t@#[i] - 'A') << 4 * (i & 1)); fn @o; memcpy(&@o, b@#, 8);"),
    Carrier::new("  double d@#; fn w@# = @v; memcpy(&d@#, &w@#, 8); held@# = d@#; touch(&x); fn @o; d@# = held@#; memcpy(&@o, &d@#, 8);").here("static double held@#;\n"),
    Carrier::new("  uintptr_t n@# = (uintptr_t)@v; n@# = n@# << 13 | n@# >> 51; touch(&x); n@# = n@# >> 13 | n@# << 51; fn @o = (fn)n@#;"),
    Carrier::new("  uintptr_t d@# = (uintptr_t)@v - (uintptr_t)base@#; touch(&x); fn @o = (fn)((uintptr_t)base@# + d@#);").here("static unsigned base@#(unsigned a, unsigned b) { return a + b; }\n"),
    Carrier::new("  uintptr_t d@# = (uintptr_t)@v - (uintptr_t)here@#; touch(&x); fn @o = (fn)((uintptr_t)here@# + d@#);").here("static char here@#[8];\n"),
    Carrier::new("  uintptr_t m@# = (uintptr_t)@v & ~(uintptr_t)0xfff, l@# = (uintptr_t)@v & 0xfff; touch(&x); fn @o = (fn)(m@# | l@#);"),
    Carrier::new("  struct node@# { uintptr_t link; fn f; } p@# = {0, @d}, q@# = {0, @v}; p@#.link = (uintptr_t)&p@# ^ (uintptr_t)&q@#; touch(&x); fn @o = ((struct node@# *)(p@#.link ^ (uintptr_t)&p@#))->f;"),
    Carrier::new("  struct box@# { fn f; } *b@# = (struct box@# *)xmalloc(sizeof *b@#); b@#->f = @v; tagged@# = (uintptr_t)b@# | 1u; touch(&x); fn @o = (tagged@# & 1u) ? ((struct box@# *)(tagged@# & ~(uintptr_t)1))->f : @d;").here("static uintptr_t tagged@#;\n"),
    Carrier::new("  struct bits@# { uintptr_t low : 20, high : 44; } s@#; s@#.low = (uintptr_t)@v & 0xfffff; s@#.high = (uintptr_t)@v >> 20; touch(&x); fn @o = (fn)((uintptr_t)s@#.high << 20 | s@#.low);"),
    // By value through memory functions.
    Carrier::new("  struct { unsigned k; fn f, g; } s@# = {1, @v, @d}, t@#; memset(&t@#, 0, sizeof t@#); mempcpy(&t@#, &s@#, 16 + zero); touch(&x); fn @o = t@#.f;"),
    Carrier::new("  fn s@#[3] = {@t, @v, @t}; memmove(s@# + 1 - zero, s@#, 16); memmove(s@#, s@# + 1, 16); touch(&x); fn @o = s@#[1]; @o = @o == 0 ? @d : @v;"),
    Carrier::new("  unsigned char raw@#[24]; fn w@# = @v; memcpy(raw@# + 3, &w@#, 8); touch(&x); fn @o; memcpy(&@o, raw@# + 3 + zero, 8);"),
    Carrier::new("  fn w@# = @v; swab(&w@#, copied@#, 8); swab(copied@#, copied@# + 1, 8); touch(&x); fn @o = copied@#[1];").here("static fn copied@#[2];\n"),
    Carrier::new("  const char *n@# = x & 1u ? \"beta\" : \"beta\"; named@#[1].f = @v; fn @o = 0; for (unsigned i = 0; named@#[i].name; i++) if (!strcmp(named@#[i].name, n@#)) @o = named@#[i].f;")
        .here("static struct { const char *name; fn f; } named@#[] = {{\"alpha\", @t}, {\"beta\", @t}, {\"gamma\", @t}, {0, 0}};\n"),
];
