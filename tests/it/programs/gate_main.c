#include <sys/mman.h>
static int used(int x) { return x + 1; }
static int rare(int x) { return x * x + x / 3 - x % 7 + (x << 3); }
struct ops { int (*often)(int), (*seldom)(int); };
static const struct ops table = { used, rare };
void *dead(void *place) { return mmap(place, 4096, 3, 34, -1, 0); }
int main(int argc, char **argv) { const struct ops *ops = &table; return ops->often(argc) - 2; }
