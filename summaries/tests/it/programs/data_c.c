extern int in(void); extern void out(int); extern void take(const void *); extern int f1(int), f2(int);
struct row { const char *name; int (*f)(int); const int *p; };
static int below[4] = {9, 9, 9, 9}; static int target[64], other[64], past[8]; static long scalar = 5, scalar2 = 6; static int hits, misses;
static const int primes[5] = {2, 3, 5, 7, 11}; static const double weights[3] = {1.5, 2.5, 3.5};
static const struct row rows[] = {{"a", f1, primes}, {"b", f2, primes + 2}}; static struct row writable[] = {{"c", f2, &primes[4]}};
const int *const after = primes + 5; int *inside = target + 7; int shared = 3, shared2 = 4; int (*table[2])(int) = {f1, f2};
__attribute__((noinline)) int sum(int n) { int s = 0; for (int i = n; i < 60; i++) s += target[i - 3] * other[i - 1]; return s; }
__attribute__((noinline)) int ends(void) { int s = 0; for (int *p = past; p != past + 8; p++) { s += *p; *p = in(); } return s; }
__attribute__((noinline)) void fill(int n) { for (int i = 1; i <= n; i++) { target[i - 1] = in(); other[i - 1] = i; } out(below[n & 3]++); }
__attribute__((noinline)) int at(unsigned i) { return target[i - 100] + primes[i + 1]; }
__attribute__((noinline)) int count(void) { hits++; scalar += hits; return scalar; }
__attribute__((noinline)) int other_count(void) { misses++; scalar2 += misses; return scalar2 + shared2; }
__attribute__((noinline)) int pass(void) { take(rows); take(&weights[1]); return shared; }
__attribute__((noinline)) int pick(int i) { return rows[i].f(i) + writable[0].f(1) + (int)weights[i]; }
__attribute__((noinline)) int indirect(int i) { return table[i](i) + *inside + *after; }
__attribute__((noinline)) int dense(int x) { static const int values[4] = {7, 1, 9, 3}; static int seen;
  switch (x) { case 0: return in(); case 1: out(5); break; case 2: seen++; return f1(1); case 3: out(11); break; case 4: return values[in()]; case 5: return 9; }
  return seen; }
const char *name(int x) { switch (x) { case 0: return "zero"; case 1: return "one"; case 2: return "two"; case 3: return "three"; } return "many"; }
struct pair { int a, b; }; static const struct pair pa = {1, 2}, pb = {3, 4}, pc = {5, 6}, pd = {7, 8};
const struct pair *choose(int x) { switch (x) { case 0: return &pa; case 1: return &pb; case 2: return &pc; case 3: return &pd; } return &pa; }
