#include <stdio.h>
#include "inline.h"
int helper(int), table_entry(int);
static int local(int x) {
    volatile int y = x;
    return y + 1;
}
int dead_first(int x) {
    return local(x)
        + scaled(x);
}
int (*table[])(int) = {table_entry, local};
int main(int argc, char **argv) {
    int sum = scaled(argc);
    for (int i = 0; i < 2; i++)
        sum += table[i](helper(i));
    printf("%d\n", sum + (argv == 0));
    return 0;
}
int dead_last(void) { return dead_first(1); }
