#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void cleanup(int *x) { printf("cleanup %d\n", *x); fflush(stdout); }
__attribute__((noinline)) static void deep(int n) {
    int x __attribute__((cleanup(cleanup))) = n;
    if (n > 3) for (;;) pause();
    deep(n + 1);
    puts("never");
}
static void *waits(void *a) { deep(0); return a; }
static void *ends(void *a) { int x __attribute__((cleanup(cleanup))) = 42; pthread_exit((void *)7); return a; }
static void old(void *x) { printf("pushed %s\n", (char *)x); }
static void *pushes(void *a) { pthread_cleanup_push(old, "a"); pthread_exit((void *)9); pthread_cleanup_pop(0); return a; }
int main(void) {
    pthread_t t; void *r;
    pthread_create(&t, 0, waits, 0); usleep(20000); pthread_cancel(t); pthread_join(t, &r);
    printf("%d\n", r == PTHREAD_CANCELED);
    pthread_create(&t, 0, ends, 0); pthread_join(t, &r); printf("%ld\n", (long)r);
    pthread_create(&t, 0, pushes, 0); pthread_join(t, &r); printf("%ld\n", (long)r);
}
