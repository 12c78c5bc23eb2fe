#include <stdlib.h>
__attribute__((noinline)) int inner(int *p) { return *(volatile int *)p + 1; }
__attribute__((noinline)) int outer(int *p) { return inner(p) * 3; }
int main(int argc, char **argv) { int *p = malloc(sizeof *p * argc); free(p); return outer(p) == 0; }
