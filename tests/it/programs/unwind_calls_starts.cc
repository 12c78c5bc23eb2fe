#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" __attribute__((noinline)) int choose(int n) {
    switch (n) { case 0: return std::puts("a"); case 1: return std::rand(); case 2: return std::puts("c") + 1; case 3: return std::getchar(); case 4: return std::puts("e") * 2; case 5: std::exit(9); }
    return *new int(n);
}
extern "C" __attribute__((noinline)) int fail(int n) { if (n > 1) throw n; return n; }
extern "C" __attribute__((noinline)) int caught(int n) { try { return fail(n); } catch (int) { return 7; } }
__attribute__((constructor)) static void early() { std::printf("early %d\n", caught(3)); }
#ifdef AGAIN
static int depth;
int main(int argc, char **argv);
static int (*volatile again)(int, char **) = main;
int main(int argc, char **argv) {
    if (depth++) return fail(argc + 5);
    try { return again(argc, argv); } catch (int n) { return std::printf("again %d\n", n) < 0; }
}
#else
int main(int argc, char **) { return choose(argc - 1) < 0; }
#endif
