#include <stdio.h>
#include <stdlib.h>
extern volatile int state;
volatile int state;
__attribute__((noinline)) int one(int x) { state += x; return rand() + x; }
__attribute__((noinline)) int two(int x) { state += x; return rand() + x; }
int main(int argc, char **argv) { (void)argv; return printf("%d\n", one(argc) != two(argc)) < 0; }
