#include <signal.h>
#define APART __attribute__((noinline, noclone, noipa))
volatile int sink;
APART static void first(int n) { sink = n; }
APART static void second(int n) { sink = n + 1; }
static void (*const volatile table[])(int) = {first, second};
APART static void handler(int n) { sink = n + 2; }
APART static void direct(int n) { sink = n + 3; }
APART static void unknown(int n) { void (*old)(int) = signal(n, handler); if (old != SIG_ERR) old(n); }
int main(int argc, char **argv) { (void)argv; table[argc & 1](argc); direct(argc); unknown(argc); return 0; }
