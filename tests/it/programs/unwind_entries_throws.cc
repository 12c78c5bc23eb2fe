#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>
struct Noise { const char *name; ~Noise() { std::printf("~%s\n", name); } };
extern "C" __attribute__((noinline)) int alone(int x) { return *(volatile int *)&x + 1; }
extern "C" __attribute__((noinline)) void raise(int x) { Noise n{"raise"}; if (x > 2) throw std::runtime_error("boom"); std::puts("no"); }
extern "C" __attribute__((noinline)) void pass(int x) { Noise n{"pass"}; try { raise(x); } catch (int) { std::puts("int"); } }
static int compare(const void *a, const void *b) { if (*(int *)a == 3) throw 7; return *(int *)a - *(int *)b; }
int elsewhere(void (*callback)(int), int x);
int main(int argc, char **) {
    try { pass(argc + 5); } catch (std::exception &e) { std::printf("caught %s\n", e.what()); }
    try { try { raise(9); } catch (...) { std::puts("again"); throw; } } catch (std::runtime_error &) { std::puts("rethrown"); }
    int numbers[] = {5, 3, 1, 2};
    try { qsort(numbers, 4, sizeof *numbers, compare); } catch (int i) { std::printf("from qsort %d\n", i); }
    try { std::vector<int> empty; empty.at(3); } catch (std::out_of_range &) { std::puts("out of range"); }
    std::printf("elsewhere %d\n", elsewhere(raise, alone(3)));
}
