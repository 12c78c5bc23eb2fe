volatile unsigned zero;
int fuel;
unsigned sum = 17;
unsigned hash_text(unsigned h, const char *s) { while (*s) h = h * 31u + (unsigned char)*s++; return h; }
__attribute__((noinline)) void touch(unsigned *x) { *x += 3u + zero; }
void *xmalloc(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
void *xrealloc(void *p, size_t n) { p = realloc(p, n); if (!p) abort(); return p; }
static union { char bytes[16384]; long double align; } pool;
static size_t used;
void *arena(size_t n) { void *p = pool.bytes + (used + n <= sizeof pool.bytes ? used : (used = 0)); used += (n + 15) & ~(size_t)15; return p; }
