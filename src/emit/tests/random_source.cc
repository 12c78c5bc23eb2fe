#include <map>
#include <stdexcept>
#include <string>
struct Base { virtual ~Base() {} virtual int f() = 0; };
template <class T> struct D : Base { T t; int f() override { if (t == T()) throw std::runtime_error("x"); return 1; } };
static int table_user(int i) { static int (*const t[])(int) = { table_user, nullptr }; return t[i & 1] ? 3 : i; }
int entry(std::map<std::string, int> &m) {
    D<int> a; D<long> b; thread_local int calls; static std::string s = "init";
    try { return a.f() + b.f() + m[s] + table_user(++calls); } catch (std::exception &e) { return -1; }
}
__attribute__((visibility("hidden"))) int hidden(int x) { return x ? hidden(x - 1) : 0; }
inline int shared_variable = 3; int *p = &shared_variable;
