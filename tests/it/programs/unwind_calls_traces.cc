#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <unistd.h>
static void trace() { void *b[32]; std::printf("%d frames\n", backtrace(b, 32)); }
static void last() { trace(); std::fflush(stdout); _exit(0); }
struct Failure { int code; explicit Failure(int code) : code(code) {} Failure(const Failure &) = default; ~Failure(); };
Failure::~Failure() { trace(); }
__attribute__((noinline)) void raise(int n) { if (n) throw Failure(n); }
__attribute__((noinline)) int caught(int n) { try { raise(n); } catch (Failure &failure) { return failure.code; } return 0; }
__attribute__((noinline)) int around(int n) { return caught(n) + *(volatile int *)&n; }
__attribute__((noinline)) void ends(int n) { if (n) std::terminate(); *(volatile int *)&n; }
__attribute__((noinline)) void outside(int n) { ends(n + 1); *(volatile int *)&n; }
int main(int argc, char **) {
    std::set_terminate(last);
#ifndef QUIET
    std::printf("%d\n", around(argc));
#endif
    outside(argc);
}
