#include <cstdio>
#include <stdexcept>
#include <string>
extern "C" {
void only_dead(void); extern int dead_extern; extern __thread int dead_tls_extern;
static int dead_leaf(int x) { return x * 3; }
int dead(int x) { only_dead(); return dead_leaf(x) + dead_extern + dead_tls_extern; }
int dead_alias(int) __attribute__((alias("dead")));
int dead_variable[100] = {1, 2, 3};
int dead_common[50];
int dead_one = 4; extern int dead_variable_alias __attribute__((alias("dead_one")));
__thread int dead_tls = 5;
static int dead_chosen(int x) { return x; }
typedef int (*dead_fn)(int);
dead_fn dead_resolver(void) { return dead_chosen; }
int dead_ifunc(int) __attribute__((ifunc("dead_resolver")));
int dead_goto(int x) { static void *const table[] = {&&one, &&two}; goto *table[x & 1]; one: return 3; two: return 4; }
int dead_asm(int x) { __asm__("nop"); return x; }
__attribute__((noinline)) int stubbed(int x) { try { if (x) throw std::runtime_error("x"); } catch (std::exception &e) { puts(e.what()); } return x; }
extern int (*volatile pointer)(int);
int (*volatile pointer)(int) = stubbed;
int live_alias(int) __attribute__((alias("stubbed")));
}
struct Base { virtual int f() { return 1; } virtual ~Base() {} };
struct Dead : Base { int f() override { return 2; } };
int dead_virtual() { Base *b = new Dead; int r = b->f(); delete b; return r; }
struct Live : Base { int f() override { return 7; } };
template <class T> T dead_template(T x) { static T cache = x; return cache + x; }
int dead_instance() { return dead_template(3); }
inline int live_inline() { static int counter = 0; return ++counter; }
__attribute__((constructor)) static void constructor() { puts("constructor"); }
static Base *volatile made;
int main(int c, char **) {
  try { if (c > 0) throw std::string("thrown"); } catch (std::string &s) { puts(s.c_str()); }
  if (c > 1) return pointer(c);
  made = new Live;
  printf("%d %d %d\n", pointer == nullptr, live_inline() + live_inline(), made->f());
  return 0;
}
