#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) int inner(int n) { return n > 2 ? puts("inner") : n; }
__attribute__((noinline)) int outer(int n) { int r = inner(n + 3); return printf("outer %d\n", r > 0) + r; }
int dead(int n) { return puts("dead") + n; }
int dead_too(int n) { return dead(n) + n; }
int main(int argc, char **argv) {
    int numbers[] = {5, 3, argc, 2};
    qsort(numbers, 4, sizeof *numbers, compare);
    printf("%d %d\n", numbers[0], outer(argc) > 0);
    return 0;
}
