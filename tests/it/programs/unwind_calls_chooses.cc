#include <cstdio>
__attribute__((noinline)) static void fail(int n) { if (n) throw n; }
extern "C" {
static int one(int x) { return x + 1; }
static int (*choose())(int) { fail(0); return one; }
int chosen(int x) __attribute__((ifunc("choose")));
}
int (*volatile taken)(int) = chosen;
int main(int argc, char **) { try { fail(argc); } catch (int n) { std::printf("%d\n", taken(n)); } }
