#include <stdio.h>
#include <stdlib.h>
const char banner[] = "a banner of text";
static const int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
int zeros[100];
__attribute__((noinline)) static int twice(int x) { return x * 2 + zeros[x % 100] + table[x & 7]; }
__attribute__((noinline)) int one(int x) { return x * 3 + 1; }
__attribute__((noinline)) int same(int x) { return x * 3 + 1; }
int main(int argc, char **argv) {
    printf("%s %d %d\n", argc > 9 ? "a string of nobody else" : banner, twice(argc), one(argc) + same(argc));
    return getenv("HOME") == argv[0];
}
