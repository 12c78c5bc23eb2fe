#include <cstdio>
#include <cstdlib>
#include <new>
#if WAY == 0
void *operator new(std::size_t n) { if (n > 1000) throw std::bad_alloc(); return std::malloc(n); }
void operator delete(void *p) noexcept { std::free(p); }
int main(int argc, char **) { void *p = ::operator new(5000 * argc, std::nothrow); return std::puts(p ? "got" : "null") < 0; }
#elif WAY == 1
#include <typeinfo>
extern "C" void __cxa_vec_ctor(void *, std::size_t, std::size_t, void (*)(void *), void (*)(void *));
static int count;
static void make(void *) { if (++count == 3) throw count; }
static void destroy(void *) { std::puts("destroyed"); std::fflush(stdout); }
int main(int, char **) { static char room[16]; __cxa_vec_ctor(room, 4, 4, make, destroy); }
#else
typedef void (*initialiser)(int, char **, char **);
extern "C" initialiser __init_array_start[], __init_array_end[];
static int rounds;
__attribute__((constructor)) static void again() { if (rounds++) throw 5; }
int main(int argc, char **argv) {
    try { for (initialiser *i = __init_array_start; i != __init_array_end; i++) (*i)(argc, argv, argv); } catch (int code) { return code; }
    return 0;
}
#endif
