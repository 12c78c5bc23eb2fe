#include <cstdio>
extern "C" { void jumps(void (*)()); int simple(int); }
static void raise() { throw 1; }
extern "C" __attribute__((noinline)) int alone(int x) { return *(volatile int *)&x + 1; }
int main() { try { jumps(raise); } catch (int) { std::printf("caught %d\n", simple(2) + alone(2)); } }
