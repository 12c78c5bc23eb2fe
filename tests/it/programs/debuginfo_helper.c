#include "inline.h"
int dead_before(int x) { return x / 3; }
struct pair { int a, b; };
int helper(int x) {
    struct pair p = {x, scaled(x)};
    return p.a
        + p.b;
}
int dead_between(struct pair *p) { return p->a; }
int table_entry(int x) {
    return scaled(x) - 1;
}
int dead_after(int x) { return dead_before(x) + 1; }
