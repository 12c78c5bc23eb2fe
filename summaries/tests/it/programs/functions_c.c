extern void out(int); extern int in(void); extern void cold_path(int) __attribute__((cold, noreturn));
static int a(int x); static int b(int x);
__attribute__((noinline)) static int a(int x) { out(x); return x > 3 ? b(x - 1) : x; }
__attribute__((noinline)) static int b(int x) { out(x + 1); return x > 5 ? a(x - 2) : 2 * x; }
static int (*const table[])(int) = { a, b, a };
int (*volatile pointer)(int) = b;
__attribute__((noinline)) static int dense(int x) {
  switch (x) { case 0: out(1); return in(); case 1: out(5); break; case 2: out(7); return a(1); case 3: out(11); break;
    case 4: return in() * 3; case 5: out(8); return 9; case 6: out(-3); break; case 7: return b(2); }
  return 4;
}
__attribute__((noinline)) static int nodefault(unsigned x) {
  switch (x & 7) { case 0: return in(); case 1: out(2); return 3; case 2: return a(x); case 3: out(6); return 2; case 4: return 40;
    case 5: return b(x); case 6: out(0); return in() + 1; case 7: return 70; default: __builtin_unreachable(); }
}
int looping(const char *s) {
  int n = 0;
  for (; *s; s++) switch (*s) { case 'a': n += dense(n); break; case 'b': n -= nodefault(n); break; case 'c': n *= 3; out(n); break;
    case 'd': if (n < 0) cold_path(n); break; case 'e': n = table[n % 3](n); break; case 'f': out(n++); break; case 'g': n ^= in(); break; }
  return n;
}
int threaded(const unsigned char *p) {
  static const void *const labels[] = { &&stop, &&inc, &&dec, &&call };
  int n = 0; goto *labels[*p++ & 3];
  inc: n++; goto *labels[*p++ & 3];
  dec: n -= 2; goto *labels[*p++ & 3];
  call: n += pointer(n); goto *labels[*p++ & 3];
  stop: return n;
}
static void unused(void) { out(99); }
void kept(void) { unused(); }
int tail(int x) { return a(x); }
static int resolve_a(int x) { return x; } static int (*resolver(void))(int) { return resolve_a; }
int indirect(int x) __attribute__((ifunc("resolver")));
static __thread int local_tls; int *tls(void) { return &local_tls; } int alias(int) __attribute__((alias("tail")));
