#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static void handler(int s) { void *b[32]; printf("%d frames, signal %d\n", backtrace(b, 32), s); exit(0); }
__attribute__((noinline)) int leaf(int *p) { return *(volatile int *)p + 1; }
__attribute__((noinline)) int middle(int *p) { return leaf(p) * 3; }
int main(int argc, char **argv) { signal(SIGSEGV, handler); return middle((int *)(long)(argc - 1)) + 1; }
