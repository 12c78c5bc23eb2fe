#include <dirent.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <search.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline))
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned (*fn)(unsigned, unsigned);
struct arg { fn f; unsigned a, b, r; sem_t *ready; };
extern int fuel;
extern unsigned sum;
extern __thread int in_thread;
extern __thread sem_t *ready;
unsigned simple(unsigned a, unsigned b);
unsigned call_by_assembly(unsigned a, unsigned b, fn f);
unsigned jump_by_assembly(unsigned a, unsigned b, fn f);
unsigned return_by_assembly(unsigned a, unsigned b, fn f);
void spin(void);
UNUSED static void *start(void *p) { struct arg *x = (struct arg *)p; in_thread = 1; x->r = x->f(x->a, x->b); return p; }
UNUSED static int start_c11(void *p) { struct arg *x = (struct arg *)p; in_thread = 1; return (int)(x->f(x->a, x->b) & 63u); }
UNUSED static void *start_cancelled(void *p) {
  struct arg *x = (struct arg *)p; in_thread = 2; ready = x->ready; x->r = x->f(x->a, x->b); in_thread = 1; sem_post(ready); for (;;) pause();
}
UNUSED static void clean(unsigned *p) { sum = sum * 3u + *p; printf("clean %u\n", *p % 100u); }
UNUSED static void old_clean(void *p) { sum = sum * 5u + *(unsigned *)p; puts("old clean"); }
