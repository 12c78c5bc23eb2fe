//! Carriers through the C library: what it calls back, what it keeps, and what it propagates.

use super::{Carrier, Needs};

pub(super) const CARRIERS: &[Carrier] = &[
    // Sorting and searching.
    Carrier::new("  struct item@# l@#[3] = {{9, @t}, {x & 7u, @v}, {8, @t}}; qsort(l@#, 3, sizeof l@#[0], order@#); fn @o = l@#[0].f;").here(
        "struct item@# { unsigned k; fn f; };\nstatic int order@#(const void *l, const void *r) { unsigned p = ((const struct item@# *)l)->k, q = ((const struct item@# *)r)->k; return p < q ? -1 : p > q; }\n",
    ),
    Carrier::new("  fn l@#[3] = {@v, @v, @v}; by@# = by@#_; qsort(l@#, 3, sizeof l@#[0], cmp@#); fn @o = l@#[1];").here(
        "static int by@#_(fn l, fn r) { return l(1, 2) < r(1, 2) ? -1 : l(1, 2) > r(1, 2); }\nstatic int (*by@#)(fn, fn);\nstatic int cmp@#(const void *l, const void *r) { return by@#(*(const fn *)l, *(const fn *)r); }\n",
    ),
    Carrier::new("  unsigned k@# = 4u + zero; map@#[2].f = @v; const struct item@# *i@# = (const struct item@# *)bsearch(&k@#, map@#, 4, sizeof map@#[0], key@#); fn @o = i@# ? i@#->f : 0;").here(
        "static struct item@# { unsigned k; fn f; } map@#[] = {{1, @t}, {2, @t}, {4, @t}, {8, @t}};\nstatic int key@#(const void *k, const void *e) { return (int)*(const unsigned *)k - (int)((const struct item@# *)e)->k; }\n",
    ),
    Carrier::new("  fn @o = 0; { fn l@#[2] = {@t, @v}; qsort_r(l@#, 2, sizeof(fn), note@#, &@o); if (!@o) @o = @v; @o = @v; }")
        .here("static int note@#(const void *l, const void *r, void *p) { if (l != r) *(fn *)p = *(const fn *)l; return 0; }\n"),
    Carrier::new("  struct item@# l@#[2] = {{1, @t}, {5, @v}}, want@# = {5, @d}; size_t n@# = 2; fn @o = ((struct item@# *)lfind(&want@#, l@#, &n@#, sizeof want@#, same@#))->f;").here(
        "struct item@# { unsigned k; fn f; };\nstatic int same@#(const void *l, const void *r) { return *(const unsigned *)l != *(const unsigned *)r; }\n",
    ),
    Carrier::new("  static struct item@# i@#; i@#.k = 5; i@#.f = @v; tsearch(&i@#, &root@#, cmp@#); struct item@# w@# = {5, @d}; fn @o = (*(struct item@# **)tfind(&w@#, &root@#, cmp@#))->f; twalk(root@#, at@#);").here(
        "struct item@# { unsigned k; fn f; };\nstatic void *root@#;\nstatic int cmp@#(const void *l, const void *r) { return (int)*(const unsigned *)l - (int)*(const unsigned *)r; }\n\
         static void at@#(const void *n, VISIT w, int level) { if (w == leaf) sum += (*(struct item@# *const *)n)->k + (unsigned)level; }\n",
    ),
    Carrier::new("  static int h@#; if (!h@#) h@# = hcreate(64) + 1; { static char n@#[] = \"key@#\"; ENTRY e; e.key = n@#; e.data = (void *)@v; ENTRY *g = hsearch(e, ENTER); if (g) g->data = (void *)@v; } touch(&x); fn @o; { static char n@#[] = \"key@#\"; ENTRY e; e.key = n@#; e.data = (void *)@d; ENTRY *g = hsearch(e, FIND); @o = g ? (fn)g->data : @v; }"),
    // At the end.
    Carrier::new("  fn @o = @v; if (!set@#) { set@# = @v; atexit(at@#); }")
        .here("static fn set@#;\nstatic void at@#(void) { sum = sum * 3u + set@#(1, 2); printf(\"%08x\\n\", sum); }\n"),
    Carrier::new("  fn @o = @v; { static int done; if (!done++) on_exit(at@#, (void *)@v); }")
        .here("static void at@#(int status, void *p) { sum = sum * 3u + ((fn)p)((unsigned)status, 2); printf(\"%08x\\n\", sum); }\n"),
    // Threads.
    Carrier::new("  pthread_t t@#; void *r@# = 0; if (pthread_create(&t@#, 0, run@#, (void *)@v)) abort(); pthread_join(t@#, &r@#); fn @o = (fn)r@#;")
        .here("static void *run@#(void *p) { sum += ((fn)p)(1, 2); return p; }\n"),
    Carrier::new("  pthread_t t@#; struct job@# j@# = {@v, @d, 0}; if (pthread_create(&t@#, 0, run@#, &j@#)) abort(); pthread_join(t@#, 0); fn @o = j@#.out;")
        .here("struct job@# { fn in, spare, out; };\nstatic void *run@#(void *p) { struct job@# *j = (struct job@# *)p; j->out = j->in; pthread_exit(0); }\n"),
    Carrier::new("  thrd_t t@#; static fn in@#; in@# = @v; if (thrd_create(&t@#, run@#, &in@#) != thrd_success) abort(); int r@# = 0; thrd_join(t@#, &r@#); fn @o = in@#; x += (unsigned)r@#;")
        .here("static int run@#(void *p) { return (int)((*(fn *)p)(3, 4) & 63u); }\n"),
    Carrier::new("  hold@# = @v; pthread_once(&once@#, init@#); fn @o = hold@#; if (!ready@#) abort();")
        .here("static fn hold@#, ready@#;\nstatic pthread_once_t once@# = PTHREAD_ONCE_INIT;\nstatic void init@#(void) { ready@# = hold@#; }\n"),
    Carrier::new("  static pthread_key_t k@#; static int m@#; if (!m@#++) pthread_key_create(&k@#, 0); pthread_setspecific(k@#, (void *)@v); touch(&x); fn @o = (fn)pthread_getspecific(k@#);"),
    Carrier::new("  pthread_t t@#; static pthread_key_t k@#; if (!key@#) { pthread_key_create(&k@#, gone@#); key@# = &k@#; } if (pthread_create(&t@#, 0, run@#, (void *)@v)) abort(); pthread_join(t@#, 0); fn @o = last@#;")
        .here("static fn last@#;\nstatic pthread_key_t *key@#;\nstatic void gone@#(void *p) { last@# = (fn)p; sum++; }\nstatic void *run@#(void *p) { pthread_setspecific(*key@#, p); return 0; }\n"),
    Carrier::new("  fn @o = @v; clean@#(@v);").needs(Needs::C)
        .here("static void wipe@#(void *p) { sum += ((fn)p)(5, 6); }\nstatic @nvoid clean@#(fn f) { pthread_cleanup_push(wipe@#, (void *)f); touch(&sum); pthread_cleanup_pop(1); }\n"),
    // Signals.
    Carrier::new("  held@# = @v; got@# = 0; signal(SIGUSR1, hear@#); raise(SIGUSR1); signal(SIGUSR1, SIG_DFL); fn @o = got@#;")
        .here("static fn held@#, got@#;\nstatic void hear@#(int s) { got@# = held@#; sum += (unsigned)s; }\n"),
    Carrier::new("  signal(SIGUSR2, hear@#); void (*old@#)(int) = signal(SIGUSR2, SIG_DFL); old@#(3); fn @o = @v;").here("static void hear@#(int s) { sum += (unsigned)s; }\n"),
    Carrier::new("  struct sigaction s@#, old@#; memset(&s@#, 0, sizeof s@#); s@#.sa_sigaction = hear@#; s@#.sa_flags = SA_SIGINFO; held@# = @v; sigaction(SIGUSR1, &s@#, &old@#); raise(SIGUSR1); sigaction(SIGUSR1, &old@#, &s@#); s@#.sa_sigaction(1, 0, 0); fn @o = got@#;")
        .here("static fn held@#, got@#;\nstatic void hear@#(int n, siginfo_t *i, void *c) { (void)i; (void)c; got@# = held@#; sum += (unsigned)n; }\n"),
    Carrier::new("  fn @o = jump@#(@v);").here(
        "static sigjmp_buf at@#; static fn kept@#;\nstatic void hear@#(int s) { (void)s; siglongjmp(at@#, 1); }\n\
         static __attribute__((noinline)) fn jump@#(fn f) { kept@# = f; signal(SIGUSR1, hear@#); if (sigsetjmp(at@#, 1) == 0) { raise(SIGUSR1); return @d; } return kept@#; }\n",
    ),
    // Contexts.
    Carrier::new("  fn @o; in@# = @v; getcontext(&co@#); co@#.uc_stack.ss_sp = stack@#; co@#.uc_stack.ss_size = sizeof stack@#; co@#.uc_link = &back@#; makecontext(&co@#, (void (*)(void))co_run@#, 1, 7); swapcontext(&back@#, &co@#); @o = out@#;")
        .here("static ucontext_t co@#, back@#; static char stack@#[65536] __attribute__((aligned(16))); static fn in@#, out@#;\nstatic void co_run@#(int k) { fn f = in@#; sum += (unsigned)k; out@# = f; }\n"),
    // Files and pipes.
    Carrier::new("  fn @o = 0; { int p[2]; fn w = @v; if (pipe(p)) abort(); if (write(p[1], &w, sizeof w) != 8) abort(); touch(&x); if (read(p[0], &@o, sizeof @o) != 8) abort(); close(p[0]); close(p[1]); }"),
    Carrier::new("  fn @o = 0; { struct { fn f; unsigned k; } w = {@v, 3}, r; FILE *f = tmpfile(); if (!f) abort(); fwrite(&w, sizeof w, 1, f); rewind(f); if (fread(&r, sizeof r, 1, f) != 1) abort(); fclose(f); @o = r.f; }"),
    Carrier::new("  fn @o = 0; { char *b = 0; size_t n = 0; fn w = @v; FILE *f = open_memstream(&b, &n); if (!f) abort(); fwrite(&w, sizeof w, 1, f); fclose(f); memcpy(&@o, b, sizeof @o); free(b); }"),
    Carrier::new("  fn @o = 0; { static char b[64]; fn w = @v; FILE *f = fmemopen(b, sizeof b, \"w\"); if (!f) abort(); fwrite(&w, sizeof w, 1, f); fclose(f); memcpy(&@o, b, sizeof @o); }"),
    Carrier::new("  fn @o = 0; { char t[32]; void *p = 0; snprintf(t, sizeof t, \"%p\", (void *)@v); touch(&x); if (sscanf(t, \"%p\", &p) != 1) abort(); @o = (fn)p; }"),
    Carrier::new("  fn @o = 0; { char t[32]; sprintf(t, \"%lx\", (unsigned long)@v); touch(&x); @o = (fn)strtoul(t, 0, 16); }"),
    Carrier::new("  fn @o = 0; { cookie_io_functions_t io; memset(&io, 0, sizeof io); io.write = put@#; FILE *f = fopencookie(&kept@#, \"w\", io); if (!f) abort(); fn w = @v; setvbuf(f, 0, _IONBF, 0); fwrite(&w, 8, 1, f); fclose(f); @o = kept@#; }")
        .here("static fn kept@#;\nstatic ssize_t put@#(void *c, const char *b, size_t n) { if (n >= 8) memcpy(c, b, 8); return (ssize_t)n; }\n"),
    // The loader.
    Carrier::new("  fn @o = (fn)dlsym(RTLD_DEFAULT, \"found@#\"); if (!@o) @o = @v; else x += @v(1, 2);").there("unsigned found@#(unsigned a, unsigned b);\n", "unsigned found@#(unsigned a, unsigned b) { return a * 3u + b; }\n"),
    Carrier::new("  fn @o = 0; { struct arg@# g = {@v, 0}; dl_iterate_phdr(each@#, &g); @o = g.out; }")
        .here("struct arg@# { fn in, out; };\nstatic int each@#(struct dl_phdr_info *i, size_t n, void *p) { struct arg@# *g = (struct arg@# *)p; (void)i; (void)n; g->out = g->in; return 1; }\n"),
    // Strings as memory.
    Carrier::new("  fn w@# = @v; char *s@# = (char *)malloc(16); memcpy(s@#, &w@#, 8); s@#[8] = 0; char *t@# = (char *)malloc(16); memset(t@#, 0, 16); strncpy(t@#, s@#, 8); strcpy(s@#, t@#); fn @o; memcpy(&@o, t@#, 8); if ((uintptr_t)@o != (uintptr_t)w@#) @o = w@#; x += @o(1, 2);"),
    Carrier::new("  struct qelem@# { struct qelem@# *f, *b; fn p; } q@# = {0, 0, @v}, r@# = {0, 0, @t}; insque(&q@#, 0); insque(&r@#, &q@#); touch(&x); fn @o = r@#.b->p; if (q@#.f != &r@#) @o = 0;"),
    Carrier::new("  fn @o = @v; { pid_t p = 0; (void)p; static int done; if (!done++) pthread_atfork(0, 0, child@#); (void)getpid(); }").here("static void child@#(void) { sum++; }\n"),
];
