#define APART __attribute__((noinline))
volatile int sink;
APART int leaf(int x) { sink = x; return x * 3; }
APART int large(int x) { volatile char a[65536]; a[x] = x; return a[x / 2] + leaf(x); }
APART int variable(int n) { volatile char a[n]; a[n / 2] = 1; return a[n / 3] + leaf(n); }
APART int allocated(int n) { volatile char *a = __builtin_alloca(n); a[n / 2] = 1; return a[n / 3] + leaf(n); }
APART int aligned(int n) { volatile char a[100] __attribute__((aligned(64))); a[n] = 1; return a[n / 2] + leaf(n); }
APART int again(int n) { volatile int a[10]; a[n % 10] = n; return n ? again(n - 1) + a[n % 10] : 0; }
APART int pong(int n);
APART int ping(int n) { sink = n; int r = n ? pong(n - 1) + 1 : 0; sink = r; return r; }
APART int pong(int n) { sink = n; int r = n ? ping(n - 1) + 2 : 0; sink = r; return r; }
APART int through(int (*f)(int), int n) { return f(n) + 1; }
APART int tail(int n) { sink = n; return large(n + 1); }
APART int chosen(int n) {
    switch (n) {
    case 0: return leaf(1) + 1;
    case 1: return large(4) + 2;
    case 2: return leaf(9) * 5;
    case 3: return aligned(3) ^ 9;
    case 4: return large(5) + 1;
    case 5: return leaf(77) + 2;
    default: return 3;
    }
}
APART int many(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
    return a + b + c + d + e + f + g + h + i + leaf(a);
}
APART int pushes(int x) { return many(x, 1, 2, 3, 4, 5, 6, 7, 8) + many(1, x, x, x, x, x, x, x, x); }
int main(int argc, char **argv) {
    int r = leaf(argc) + large(argc) + aligned(argc) + tail(argc) + chosen(argc) + pushes(argc);
    if (argc > 1) r += variable(argc) + allocated(argc) + again(argc) + ping(argc);
    if (argc > 2) r += through(argc > 3 ? leaf : large, argc);
    sink = r;
    return 0;
}
