#include <stdio.h>
#include <stdlib.h>
static inline int scaled(int x) { int y = x * 7; if (x > 90) printf("%d", y); return y ^ 3; }
int NAME_dead(int n) { int s = 0; for (int i = 0; i < n; i++) { int q = s * i; s += scaled(q); } return s; }
int NAME(int n) { int s = 1; for (int i = 0; i < n; i++) { int q = s + i; s += scaled(q ^ n); } return s; }
int NAME_dead_last(int *p) { if (*p > 3) { int k = scaled(*p); puts("no"); exit(k); } return p[1]; }
