#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void cleanup(int *x) { printf("cleanup %d\n", *x); fflush(stdout); }
__attribute__((noinline)) static void ends(int n) {
    int x __attribute__((cleanup(cleanup))) = n;
#if WAYS == 1
    pthread_exit(0);
#elif WAYS == 2
    thrd_exit(7);
#elif WAYS == 3
    for (;;) sleep(1);
#elif WAYS == 4
    void (*volatile by_address)(void *) = (void (*)(void *))pthread_exit;
    by_address(0);
#elif WAYS == 5
    pthread_cancel(pthread_self());
    pthread_testcancel();
#endif
    pthread_mutex_lock(&lock); printf("%d\n", n); pthread_mutex_unlock(&lock);
}
static void *run(void *a) { ends(*(int *)a); return 0; }
int main(int argc, char **argv) {
    pthread_t thread; int n = argc;
    pthread_create(&thread, 0, run, &n);
#if WAYS == 3
    usleep(20000); pthread_cancel(thread);
#endif
    pthread_join(thread, 0);
    return fclose(stdout);
}
