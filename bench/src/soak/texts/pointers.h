#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <ucontext.h>
#include <unistd.h>
#include <link.h>
#include <sys/mman.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned (*fn)(unsigned, unsigned);
extern volatile unsigned zero;
extern int fuel;
extern unsigned sum;
unsigned hash_text(unsigned h, const char *s);
void touch(unsigned *x);
void *xmalloc(size_t n);
void *xrealloc(void *p, size_t n);
void *arena(size_t n);
#ifdef __cplusplus
}
#endif
